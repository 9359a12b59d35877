"""The names that users reach under `poptorch.poptorch_core`: error classes, errors to try a handler with, checks."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

from openipu.capture import is_capturing
from poptorch.errors import COMPILER_ERROR, Error, RecoverableError, UnrecoverableError
from poptorch.options._popart import check_options

__all__ = [
    "Error",
    "RecoverableError",
    "TestErrorType",
    "UnrecoverableError",
    "_throwTestError",
    "_validateOptions",
    "isCompilingWithDispatcher",
]


def isCompilingWithDispatcher() -> bool:
    """True while `forward` is being captured."""
    return is_capturing()


def _validateOptions(options: dict[str, Any]) -> None:
    """Raise if `Options.toDict()` holds a PopART name or value that PopTorch would refuse at compilation."""
    check_options(options)


class TestErrorType(Enum):
    """Faults of the layers of a real stack, for programs that want to try their error handling."""

    __test__ = False  # the name looks like a class of tests to pytest

    Poptorch = 0
    Popart = 1
    PopartInternal = 2
    Poplibs = 3
    PoplarUnrecoverable = 4
    PoplarUnknown = 5
    PoplarRecoverableFullReset = 6
    PoplarLinkError = 7


_LOCATION = "throwTestError::bottomLevel < throwTestError::topLevel"
_TYPES = {
    TestErrorType.Poptorch: COMPILER_ERROR,
    TestErrorType.Popart: "popart_exception",
    TestErrorType.PopartInternal: "popart_internal_exception",
    TestErrorType.Poplibs: "poplibs_exception",
    TestErrorType.PoplarUnknown: "poplar_unknown_runtime_error",
}


def _throwTestError(kind: TestErrorType) -> NoReturn:
    """Raise the error that this fault would be on hardware."""
    said = f"a test error of the kind {kind.name}"
    match kind:
        case TestErrorType.PoplarUnrecoverable:
            raise UnrecoverableError(said, "poplar_unrecoverable_runtime_error", _LOCATION)
        case TestErrorType.PoplarRecoverableFullReset:
            raise RecoverableError(said, location=_LOCATION, recovery_action="FULL_RESET")
        case TestErrorType.PoplarLinkError:
            raise Error(f"{said}. Output of the linker: -lfoo not found", "poplar_link_error", _LOCATION)
        case _:
            raise Error(said, _TYPES[kind], _LOCATION)
