"""Calls of PopLibs functions from C++: by module and name, with the arguments in the original's order.

In: values; a hole where the C++ function takes a program or a list of compute sets to add to. Out: the result, and what
was added. Enumerations, parameter objects and expressions arrive as `{"make": name, "arguments": […]}`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from poplar import program as programs
from poplar._errors import poplar_error
from poplar._graph import Graph
from poplar._tensor import Tensor
from poplar._vertices import ComputeSet
from poplar.server.session import Session, at_line, handles
from poplar.server.wire import ComputeSetNumber, Handle, HeldProgram

LIBRARIES = ("popops", "poplin", "popnn", "poprand", "poputil", "popsparse", "poplar")
_HOLE = -1
_MAKE, _ARGUMENTS = "make", "arguments"


@handles("call")
def call(session: Session, module: str, name: str, context: Any, *arguments: Any) -> Any:
    """[result, program or nothing, numbers of compute sets]."""
    function = _find(f"{module}.{name}")
    sequence = programs.Sequence()
    sets: list[ComputeSet] = []
    graph: Graph | None = next(
        (session.find(one) for one in arguments if isinstance(one, Handle) and isinstance(session.find(one), Graph)),
        None,
    )

    def read(value: Any) -> Any:
        if isinstance(value, Handle):
            return session.find(value)
        if isinstance(value, HeldProgram):
            return sequence if value.number == _HOLE else session.find(value.number)
        if isinstance(value, ComputeSetNumber):
            assert graph is not None
            return sets if value.number == _HOLE else ComputeSet(graph.shared.tables[value.number])
        if isinstance(value, list):
            return [read(entry) for entry in value]
        if isinstance(value, dict):
            if _MAKE in value:
                made = _find(value[_MAKE])
                return made(*(read(entry) for entry in value[_ARGUMENTS])) if _ARGUMENTS in value else made
            return {key: read(entry) for key, entry in value.items()}
        return value.tolist() if hasattr(value, "tolist") else value

    def write(value: Any) -> Any:
        if isinstance(value, programs.Program):
            return HeldProgram(session.keep(value))
        if isinstance(value, ComputeSet):
            return ComputeSetNumber(value.getId())
        if isinstance(value, (list, tuple)):
            return [write(entry) for entry in value]
        if value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray, Tensor)):
            return value
        return Handle(session.keep(value))

    with at_line(context if context else ["", "", 0, ""]):
        result = function(*(read(argument) for argument in arguments))
    held = None if sequence.isEmpty() else HeldProgram(session.keep(sequence))
    return [write(result), held, [ComputeSetNumber(one.getId()) for one in sets]]


def _find(path: str) -> Any:
    library, *names = path.split(".")
    if library not in LIBRARIES:
        raise poplar_error(f"There is no library {library!r}.")
    try:
        found: Any = importlib.import_module(library)
        for name in names:
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise poplar_error(
            f"{path.replace('.', '::')} is declared for C++, but the library here does not have it ({error})."
        ) from error
    return found
