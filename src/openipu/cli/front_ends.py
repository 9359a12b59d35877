"""The names that IPU users import, and which of them this installation answers to."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

PROVIDED: dict[str, str] = {
    "poptorch": "PopTorch",
    "lightning_graphcore": "Lightning for IPU",
    "optimum.graphcore": "Optimum for IPU",
    "popdist": "several instances under poprun",
    "gcipuinfo": "devices, for monitors",
    "pva": "PopVision analysis library",
    "libpvti": "trace points of one's own",
    "popart": "PopART's enumerations",
}
PLANNED: dict[str, str] = {
    "popxl": "PopXL",
    "tensorflow.python.ipu": "TensorFlow for IPU",
}


@dataclass(frozen=True, slots=True)
class FrontEndState:
    """Does a front end import here?"""

    module: str
    title: str
    works: bool
    detail: str


def find_planned(missing: str) -> str | None:
    """The planned front end that a failed import of `missing` was after, if any."""
    for module in PLANNED:
        if missing == module or module.startswith(f"{missing}.") or missing.startswith(f"{module}."):
            return module
    return None


def probe_front_ends() -> tuple[FrontEndState, ...]:
    """Import every front end that should be there."""
    return tuple(_probe(module, title) for module, title in PROVIDED.items())


def _probe(module: str, title: str) -> FrontEndState:
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # whatever breaks the import is what the user must see
        return FrontEndState(module, title, False, f"{type(error).__name__}: {error}")
    file = getattr(loaded, "__file__", None)
    if file is None:  # a directory of that name without the package in it
        return FrontEndState(module, title, False, f"a package without contents: {list(loaded.__path__)}")
    return FrontEndState(module, title, True, file)
