"""`poptorch.Error` and how openipu's own errors become it.

In: an exception of `openipu.errors`. Out: a `poptorch.Error` with the same words, whose traceback ends at the user's
line; the original is its context, and is shown with OPENIPU_DEBUG=1. Exceptions of the user's own code pass through
unchanged.
"""

from __future__ import annotations

from types import TracebackType

from torch._subclasses.fake_tensor import DynamicOutputShapeException

from openipu.capture import keep_user_frames
from openipu.errors import BroadcastError, InternalError, OpenIpuError, PlanError, Term, is_debugging

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


_WORDS = {  # what PopTorch users set or call
    Term.BROADCAST_BUFFERS: "poptorch.Options().broadcastBuffers",
    Term.DEVICE_ITERATIONS: "poptorch.Options().deviceIterations",
    Term.GRADIENT_ACCUMULATION: "poptorch.Options().Training.gradientAccumulation",
    Term.INPUT_STREAM: "poptorch.set_overlap_for_input",
    Term.LOSS: "poptorch.identity_loss",
    Term.MULTI_CONVOLUTION: "poptorch.MultiConv",
    Term.OUTPUT_PERIOD: "the output_return_period of poptorch.Options().outputMode",
    Term.OUTPUT_STREAM: "poptorch.set_overlap_for_output",
}
_KNOWN_SENTENCES: dict[type[OpenIpuError], str] = {  # what PopTorch users know to begin with
    BroadcastError: (
        "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers becoming out of "
        "sync between replicas, you can disable buffer broadcasting using poptorch.Options.broadcastBuffers(False). "
    ),
}


def phrase_error(error: OpenIpuError) -> str:
    """An error of openipu's in PopTorch's words."""
    return _KNOWN_SENTENCES.get(type(error), "") + error.phrase(_WORDS)


class _Translation:
    """What `translate_errors` does. Every call of a model goes through it: a generator takes three times as long."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OpenIpuError) or isinstance(error, DynamicOutputShapeException):
            return
        translated = Error(phrase_error(error), COMPILER_ERROR)
        if is_debugging() or isinstance(error, InternalError | PlanError):  # what we have to mend
            raise translated from error
        raise translated.with_traceback(keep_user_frames(trace)) from None


_TRANSLATION = _Translation()


def translate_errors() -> _Translation:
    """Re-raise openipu's errors as `poptorch.Error`; those that are also torch's own stay as they are."""
    return _TRANSLATION
