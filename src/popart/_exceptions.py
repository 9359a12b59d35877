"""PopART's exceptions, and how openipu's own errors become them.

In: an exception of `openipu.errors`. Out: a `popart_exception` with the same words; the original is its context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from openipu.errors import AbortError, OpenIpuError, Term

_WORDS = {  # what PopART users set or call
    Term.DEVICE_ITERATIONS: "batchesPerStep of popart.DataFlow",
    Term.GRADIENT_ACCUMULATION: "SessionOptions.accumulationFactor",
    Term.LOSS: "builder.aiGraphcore.identityloss",
    Term.OUTPUT_PERIOD: "the period of popart.AnchorReturnType",
    Term.MULTI_CONVOLUTION: "builder.aiGraphcore.multiconv",
}


class popart_exception(Exception):  # noqa: N801 (PopART's own name)
    """What is wrong with a model, an option or an argument."""


class popart_internal_exception(popart_exception):  # noqa: N801
    """A defect of the implementation."""


class popart_runtime_error(popart_exception):  # noqa: N801
    """What went wrong while a program ran."""


class OutOfMemoryException(popart_exception):
    """A program does not fit its IPU. openipu runs such programs and warns: only scripts raise it."""

    def __init__(self, message: str = "", summary: str = "", path: str = "") -> None:
        super().__init__(message)
        self._summary = summary
        self._path = path

    def getSummaryReport(self) -> str:
        """The plan in words."""
        return self._summary

    def getProfilePath(self) -> str:
        """Where the profile lies."""
        return self._path


class poplibs_exception(Exception):  # noqa: N801
    """An error of PopLibs."""


class poplar_exception(Exception):  # noqa: N801
    """An error of Poplar: of devices and engines."""


class poplar_runtime_error(poplar_exception):  # noqa: N801
    """What Poplar says while a program runs."""


class poplar_application_runtime_error(poplar_runtime_error):  # noqa: N801
    """An error that the program made: an abort, a floating-point exception."""


class poplar_system_runtime_error(poplar_runtime_error):  # noqa: N801
    """An error of the machine."""


class RecoveryAction(IntEnum):
    """What would mend a machine."""

    IPU_RESET = 0
    PARTITION_RESET = 1
    FULL_RESET = 2
    UNKNOWN = 3


class poplar_recoverable_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """Only real hardware has such faults."""

    def __init__(self, message: str = "", recoveryAction: RecoveryAction = RecoveryAction.IPU_RESET) -> None:
        super().__init__(message)
        self.recoveryAction = recoveryAction


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """Only real hardware has such faults."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """Only real hardware has such faults."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Re-raise openipu's errors as `popart_exception`; a program that ends itself does so as Poplar says it."""
    try:
        yield
    except AbortError as error:
        raise poplar_application_runtime_error(error.phrase(_WORDS)) from error
    except OpenIpuError as error:
        raise popart_exception(error.phrase(_WORDS)) from error
