"""Every error class of openipu, and whose turn it is when one is raised.

Each message says what is wrong, where (the user's line, tensor or option), and what to do next.
This module imports next to nothing, so that `openipu --help` stays quick. `capture` adds one class that must
also be torch's own (`DynamicShapeError`). Front ends re-raise these under their own names where their users expect it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum

DEBUG_VARIABLE = "OPENIPU_DEBUG"

_OPEN, _CLOSE = "\N{LEFT WHITE SQUARE BRACKET}", "\N{RIGHT WHITE SQUARE BRACKET}"


class Term(Enum):
    """What front ends have words of their own for. Written into a message, it stays recognisable as a term."""

    BROADCAST_BUFFERS = "broadcast_buffers"
    DEVICE_ITERATIONS = "device_iterations"
    GRADIENT_ACCUMULATION = "gradient_accumulation"
    INPUT_STREAM = "mark_stream(…, is_input=True)"
    LOSS = "mark_loss"
    MULTI_CONVOLUTION = "group_convolutions"
    OUTPUT_PERIOD = "output_period"
    OUTPUT_STREAM = "mark_stream(…, is_input=False)"

    def __format__(self, specification: str) -> str:
        return f"{_OPEN}{self.name}{_CLOSE}"


class OpenIpuError(Exception):
    """Base of all of them. Terms in the message read as openipu's own, or as `phrase` is told."""

    def __init__(self, message: str = "") -> None:
        self._message = message
        super().__init__(self.phrase({}))

    def phrase(self, words: Mapping[Term, str]) -> str:
        """The message in the words of a front end."""
        message = getattr(self, "_message", None) or str(self)
        for term in Term if _OPEN in message else ():
            message = message.replace(f"{term}", words.get(term, term.value))
        return message


class TargetError(OpenIpuError):
    """The described machine is wrong or unknown: the user corrects the name or the file."""


class OptionError(OpenIpuError):
    """An option has a value that cannot work: the user corrects it."""


class BroadcastError(OptionError):
    """Replicas would have to agree on a buffer that forward writes to: the user lets each keep its own, or uses one."""


class CaptureError(OpenIpuError):
    """The user's `forward` breaks a rule of static graphs: the user changes the named line."""


class TranslationError(OpenIpuError):
    """A graph of another framework is damaged, or holds an op that cannot be translated: the message names the node."""


class LossError(CaptureError):
    """A training graph has no loss, or more than one."""


class MissingGradientError(LossError):
    """A gradient is asked for of tensors that the loss does not depend on."""

    def __init__(self, message: str = "", names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class InputError(OpenIpuError):
    """A run-time input does not match what the program was compiled for."""


class AbortError(OpenIpuError):
    """A program ended itself, as its author wrote it: the message names the op."""


class ReplicaError(OpenIpuError):
    """Replicas that exchange values do not come to the same exchange: the user lets all of them go the same way."""


class ArithmeticFaultError(OpenIpuError):
    """Floating-point exceptions are on, and an operator produced inf or NaN: the user mends the named line."""


class PlanError(OpenIpuError):
    """The planner cannot describe this program: a defect of openipu, or a machine too strange."""


class ProfileError(OpenIpuError):
    """A profile file is missing, damaged or of another version."""


class TraceError(OpenIpuError):
    """A trace of the host cannot be written or read: missing, damaged or of another tool."""


class ArchiveError(OpenIpuError):
    """A saved program or a cache file is missing, damaged or of another version."""


class ProgramFileError(ArchiveError):
    """A program from a file holds what capture never writes, or more than this machine can run: do not use the file."""


class ExportError(OpenIpuError):
    """A program cannot be written to a file: it holds something that only this process has, such as a function."""


class PodError(OpenIpuError):
    """A pod cannot give the IPUs that are asked for, or is described wrongly: the user asks otherwise, or mends it."""


class InstanceError(OpenIpuError):
    """The processes of one job cannot find each other, or one of them is gone: the message says which, and why."""


class FiguresError(OpenIpuError):
    """A file of published figures cannot be read: the user corrects the named line or column."""


class MappedRunError(OpenIpuError):
    """A program that places its own tensors and vertices stopped while it ran.

    A vertex failed, a condition was met, or memory was read that was never written.
    """


class InternalError(OpenIpuError):
    """A defect of openipu. The message asks for a report."""


def is_debugging() -> bool:
    """Does the user want to see openipu's own frames?"""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def suggest(name: str, known: Iterable[str]) -> str:
    """For a message about an unknown name: " Did you mean 'pod16'?" where a known one is near, else nothing."""
    import difflib

    by_lower = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
