"""Runs exported ONNX files and compares: with ONNX Runtime if it is installed, else with ONNX's own evaluator.

In: the files and their snapshot. Out: comparisons of everything that the models return.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from openipu.errors import ExportError
from openipu.export.comparison import Comparison, compare
from openipu.export.onnx_file.models import OnnxGraph
from openipu.export.reference import choose_steps, draws_random_numbers, run_executable, run_graph
from openipu.export.snapshot import Snapshot
from openipu.graph import Graph, InputKind, OutputKind

_TITLES = {
    OutputKind.OUTPUT: "outputs",
    OutputKind.LOSS: "loss",
    OutputKind.GRADIENT: "gradients",
    OutputKind.BUFFER: "buffers",
    OutputKind.PARAMETER: "new weights",
    OutputKind.CARRIED: "carried weights",
    OutputKind.STATE: "optimizer state",
    OutputKind.INPUT: "changed inputs",
}


_ADVICE = (
    "Install onnxruntime, which runs more than ONNX's own evaluator, or export it without a check (--no-check), or as "
    "a PyTorch file (--to torch)."
)


def check_models(snapshot: Snapshot, models: Mapping[str, OnnxGraph], files: Mapping[str, Path]) -> list[Comparison]:
    """Hold each model against openipu's results; a mismatch is an `ExportError`."""
    import onnx

    for file in files.values():
        try:
            onnx.checker.check_model(str(file), full_check=True)
        except Exception as error:  # onnx has several classes for it
            raise ExportError(
                f"ONNX does not accept {file.name}: {str(error).strip().splitlines()[0]}. Nothing was written. This is "
                "a defect of openipu: please report it with the model."
            ) from error
    program, random = snapshot.program, draws_random_numbers(snapshot)
    step = choose_steps(snapshot)[0]
    first = {
        entry.name: step[entry.name][: entry.shape[0]] if entry.shape else step[entry.name]
        for entry in program.micro.inputs_of(InputKind.INPUT)
    }
    results = run_graph(snapshot, program.micro, first)
    if not random and not program.training:
        results[OutputKind.OUTPUT] = run_executable(snapshot, [first])[0]
    comparisons = _check_one(models[""], files[""], program.micro, first, results, shapes_only=random)
    if program.update is not None:
        gradients = results[OutputKind.GRADIENT]
        after = run_graph(snapshot, program.update, gradients)
        comparisons += _check_one(models["update"], files["update"], program.update, gradients, after)
    return comparisons


def _check_one(
    model: OnnxGraph,
    file: Path,
    graph: Graph,
    given: Mapping[str, torch.Tensor],
    expected: Mapping[OutputKind, Mapping[str, torch.Tensor]],
    *,
    shapes_only: bool = False,
) -> list[Comparison]:
    feeds = {name: given[entry.name] for name, entry in model.inputs.items()}
    found = run_model(file, feeds)
    comparisons = []
    for kind, title in _TITLES.items():
        names = {entry.name: name for name, entry in model.outputs.items() if entry.kind is kind}
        if names:
            reference = {name: expected[kind][name] for name in names}
            results = {name: found[place] for name, place in names.items()}
            comparisons.append(compare(title, reference, results, shapes_only=shapes_only))
    return comparisons


def run_model(file: Path, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The outputs of an ONNX file by name, from another implementation than ours."""
    feeds = {name: value.detach().contiguous().numpy() for name, value in inputs.items()}
    try:
        if importlib.util.find_spec("onnxruntime") is not None:
            import onnxruntime

            settings = onnxruntime.SessionOptions()
            settings.log_severity_level = 3
            session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
            names = [entry.name for entry in session.get_outputs()]
            results: Any = session.run(None, feeds)
        else:
            from onnx.reference import ReferenceEvaluator

            evaluator = ReferenceEvaluator(str(file))
            names, results = list(evaluator.output_names), evaluator.run(None, feeds)
    except Exception as error:  # of whatever class; the file must not be left behind
        raise ExportError(
            f"{file.name} cannot be run, so it cannot be checked: {str(error).strip().splitlines()[0]}. Nothing was "
            f"written. {_ADVICE}"
        ) from error
    return {name: torch.from_numpy(_as_array(value)) for name, value in zip(names, results, strict=True)}


def _as_array(value: Any) -> Any:
    import numpy as np

    return np.array(value, copy=True)
