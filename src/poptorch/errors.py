"""`poptorch.Error` and how openipu's own errors become it.

In: an exception of `openipu.errors`. Out: a `poptorch.Error` with the same words, whose traceback ends at the user's
line; the original is its context, and is shown with OPENIPU_DEBUG=1. Exceptions of the user's own code pass through
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import DynamicOutputShapeException

from openipu.capture.lines import keep_user_frames
from openipu.errors import InternalError, OpenIpuError, PlanError, is_debugging

PYTHON_ERROR = "poptorch_py_error"
COMPILER_ERROR = "poptorch_cpp_error"  # the type that users know for errors found while compiling


class Error(Exception):
    """What PopTorch raises. `type` says who found it, `message` what, `location` where in the implementation."""

    def __init__(self, message: str, type: str = PYTHON_ERROR, location: str = "") -> None:
        self.type = type
        self.message = message
        self.location = location
        where = f"In {location}: " if location else ""
        super().__init__(f"{where}'{type}': {message}")

    def __reduce__(self) -> tuple[object, ...]:
        return self.__class__, (self.message, self.type, self.location)


class RecoverableError(Error):
    """The device must be reset as `recovery_action` says. Only real hardware has such faults."""

    def __init__(
        self,
        message: str,
        type: str = "poplar_recoverable_runtime_error",
        location: str = "",
        recovery_action: str = "",
    ) -> None:
        super().__init__(message, type, location)
        self.recovery_action = recovery_action

    def __reduce__(self) -> tuple[object, ...]:
        return self.__class__, (self.message, self.type, self.location, self.recovery_action)


class UnrecoverableError(Error):
    """The device cannot be used any more. Only real hardware has such faults."""


def createPoptorchError(msg: str) -> Error:
    """An `Error` of the Python layer, ready to raise."""
    return Error(msg)


_OLD_NAMES = {  # names of openipu's options in messages -> those that PopTorch users set
    "broadcast_buffers": "poptorch.Options().broadcastBuffers",
    "device_iterations": "poptorch.Options().deviceIterations",
    "gradient_accumulation": "poptorch.Options().Training.gradientAccumulation",
    "output_period": "the output_return_period of poptorch.Options().outputMode",
}
_KNOWN_PHRASES = {  # part of a message -> the sentence that PopTorch users know
    "written buffers cannot be broadcast": (
        "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers becoming out of "
        "sync between replicas, you can disable buffer broadcasting using poptorch.Options.broadcastBuffers(False)."
    ),
}


def _reword(message: str) -> str:
    known = [sentence for part, sentence in _KNOWN_PHRASES.items() if part in message]
    for name, old in _OLD_NAMES.items():
        message = re.sub(rf"\b{name}\b", old, message)
    return " ".join([*known, message])


@contextmanager
def translate_errors() -> Iterator[None]:
    """Re-raise openipu's errors as `poptorch.Error`; those that are also torch's own stay as they are."""
    try:
        yield
    except DynamicOutputShapeException:
        raise
    except OpenIpuError as error:
        translated = Error(_reword(str(error)), COMPILER_ERROR)
        if is_debugging() or isinstance(error, InternalError | PlanError):  # what we have to mend
            raise translated from error
        raise translated.with_traceback(keep_user_frames(error.__traceback__)) from None
