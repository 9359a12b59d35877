"""The names that users reach under `poptorch.poptorch_core`: the error classes and the tracing flag."""

from openipu.capture import is_capturing
from poptorch.errors import Error, RecoverableError, UnrecoverableError

__all__ = ["Error", "RecoverableError", "UnrecoverableError", "isCompilingWithDispatcher"]


def isCompilingWithDispatcher() -> bool:
    """True while `forward` is being captured."""
    return is_capturing()
