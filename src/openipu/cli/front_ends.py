"""The names that IPU users import, and which of them this installation answers to."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from openipu.environment.extras import suggest_install


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """A package with the names of the original.

    names: what `openipu doctor` imports from it, where the package alone loads next to nothing.
    extra: the extra that installs what it builds on; empty if openipu's own requirements are enough.
    """

    title: str
    names: tuple[str, ...] = ()
    extra: str = ""


PROVIDED: dict[str, FrontEnd] = {
    "poptorch": FrontEnd("PopTorch"),
    "poptorch_geometric": FrontEnd(
        "PyTorch Geometric for IPU", names=("FixedSizeDataLoader", "FixedSizeOptions"), extra="pyg"
    ),
    "lightning_graphcore": FrontEnd(
        "Lightning for IPU", names=("IPUAccelerator", "IPUPrecision", "IPUStrategy"), extra="lightning"
    ),
    "optimum.graphcore": FrontEnd(
        "Optimum for IPU",
        names=("IPUConfig", "IPUSeq2SeqTrainer", "IPUTrainer", "IPUTrainingArguments", "pipeline", "to_pipelined"),
        extra="hf",
    ),
    "openipu_paddle": FrontEnd("PaddlePaddle on IPU", names=("activate",), extra="paddle"),
    "tensorflow.python.ipu": FrontEnd(
        "TensorFlow for IPU",
        names=("config", "ipu_compiler", "ipu_strategy", "pipelining_ops"),
        extra="tensorflow",
    ),
    "keras.ipu": FrontEnd("Keras for IPU", names=("PipelineStage",), extra="tensorflow"),
    "popdist": FrontEnd("several instances under poprun"),
    "gcipuinfo": FrontEnd("devices, for monitors"),
    "pva": FrontEnd("PopVision analysis library"),
    "libpvti": FrontEnd("trace points of one's own"),
    "poplar": FrontEnd("Poplar", names=("Engine", "Graph", "IPUModel")),
    "popops": FrontEnd("PopLibs: operations", names=("add", "map", "reduce")),
    "poplin": FrontEnd("PopLibs: linear algebra", names=("convolution", "matMul")),
    "popnn": FrontEnd("PopLibs: layers", names=("calcLoss", "lstm", "nonLinearity")),
    "poprand": FrontEnd("PopLibs: random numbers", names=("normal", "uniform")),
    "popsparse": FrontEnd("PopLibs: sparse matrices", names=("COOMatrix", "dynamic")),
    "poputil": FrontEnd("PopLibs: utilities", names=("graphfn", "mapTensorLinearly")),
    "popart": FrontEnd("PopART", names=("Builder", "InferenceSession", "TrainingSession"), extra="onnx"),
    "popxl": FrontEnd("PopXL", names=("Ir", "Session", "ops")),
    "popxl_addons": FrontEnd("PopXL Addons", names=("Module", "TaskSession", "autodiff")),
}
PLANNED: dict[str, str] = {
    "tessellate_ipu": "TessellateIPU, for JAX",
}


@dataclass(frozen=True, slots=True)
class FrontEndState:
    """Does a front end import here? If not, `install` is the command that helps, where one does."""

    module: str
    works: bool
    detail: str
    install: str = ""


def find_planned(missing: str) -> str | None:
    """The planned front end that a failed import of `missing` was after, if any."""
    for module in PLANNED:
        if missing == module or module.startswith(f"{missing}.") or missing.startswith(f"{module}."):
            return module
    return None


def explain_import(missing: str) -> str | None:
    """What to say to a script whose import of `missing` failed, if it was after a front end."""
    planned = find_planned(missing)
    if planned is not None:
        return f"openipu does not provide {planned} yet. `openipu doctor` lists the front ends that it has."
    for module, front_end in PROVIDED.items():
        if missing.startswith(f"{module}."):
            return f"openipu has no {missing}. `openipu run --check` lists what a script uses and openipu lacks."
        if front_end.extra and module.startswith(f"{missing}."):
            return f"{module} needs {missing}, which is not installed: {suggest_install(front_end.extra)}"
    return None


def probe_front_ends() -> tuple[FrontEndState, ...]:
    """Import every front end that should be there, and the names by which it is used."""
    return tuple(_probe(module, front_end) for module, front_end in PROVIDED.items())


def _probe(module: str, front_end: FrontEnd) -> FrontEndState:
    try:
        loaded = importlib.import_module(module)
        file = getattr(loaded, "__file__", None)
        if file is None:  # a directory of that name without the package in it
            return FrontEndState(module, False, f"a package without contents: {list(loaded.__path__)}")
        for name in front_end.names:
            getattr(loaded, name)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if front_end.extra and not f"{missing}.".startswith(f"{module}."):  # `optimum` itself belongs to the extra
            missing = missing.partition(".")[0]
            detail = f"{front_end.title}: needs {missing}, which is not installed"
            return FrontEndState(module, False, detail, suggest_install(front_end.extra))
        return FrontEndState(module, False, f"{type(error).__name__}: {error}")
    except Exception as error:  # whatever breaks the import is what the user must see
        return FrontEndState(module, False, f"{type(error).__name__}: {error}")
    return FrontEndState(module, True, f"{front_end.title}: {file}")
