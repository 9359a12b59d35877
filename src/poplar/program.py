"""Programs: what an engine runs, step by step.

In: tensors, streams, compute sets, other programs. Out: objects that are compiled with a graph. Names and arguments are
the original's; a `Sequence` can be added to until the engine is made.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass
from typing import Any

from openipu.graph.mapped import StreamKind
from poplar._errors import control_program_error, poplar_error, type_error
from poplar._lines import note_line
from poplar._tensor import Tensor
from poplar._vertices import ComputeSet
from poplar.execution.streams import DataStream, HostFunction, RemoteBuffer

__all__ = [
    "Abort",
    "AbortOnCondition",
    "AssumeEqualAcrossReplicas",
    "Call",
    "Copy",
    "CrossReplicaCopy",
    "CycleStamp",
    "ErrorProgram",
    "Execute",
    "If",
    "PrintTensor",
    "Program",
    "Repeat",
    "RepeatWhileFalse",
    "RepeatWhileTrue",
    "Sequence",
    "Switch",
    "Sync",
    "SyncType",
    "WriteUndef",
]


class Program:
    """Base of all programs. A bare one does nothing."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.line = note_line()

    def isEmpty(self) -> bool:
        return type(self) is Program


class Sequence(Program):
    """One program after the other."""

    def __init__(self, *programs: Any, name: str = "") -> None:
        super().__init__(name)
        self.programs: list[Program] = []
        for entry in programs:
            if isinstance(entry, str):
                self.name = entry
            elif isinstance(entry, Program):
                self.add(entry)
            else:
                for program in entry:
                    self.add(program)

    def add(self, program: Program) -> None:
        if not isinstance(program, Program):
            raise control_program_error(f"Sequence.add: {program!r} is no program.")
        # Later additions to a sequence that was added do not count, as with the original's values.
        self.programs.append(program._copy() if isinstance(program, Sequence) else program)

    def _copy(self) -> Sequence:
        made = copy.copy(self)
        made.programs = list(self.programs)
        return made

    def isEmpty(self) -> bool:
        return not self.programs


class Execute(Program):
    """Run the vertices of a compute set. With a tensor, whether all of them returned true goes there.

    Without it, a vertex that returns false stops the program.
    """

    def __init__(self, computeSet: ComputeSet, outTensor: Tensor | str | None = None, name: str = "") -> None:
        super().__init__(outTensor if isinstance(outTensor, str) else name)
        if not isinstance(computeSet, ComputeSet):
            raise control_program_error(f"Execute: {computeSet!r} is no compute set.")
        self.computeSet = computeSet
        self.exit = outTensor if isinstance(outTensor, Tensor) else None
        if self.exit is None:
            return
        _check_scalar(self.exit, "Execute", "the exit value")
        if self.exit.containsConstant():
            raise control_program_error(
                f"Execute: the exit value {self.exit!r} is a constant, which nothing can write."
            )
        if computeSet.table.library is not None:
            raise control_program_error("Execute: the vertices of a library function have no exit value.")


class Copy(Program):
    """Elements from a tensor, a stream or a remote buffer to another; at least one side is a tensor.

    Both sides need the same number of elements of the same type; shapes may differ.
    """

    def __init__(self, source: Any, destination: Any, *rest: Any, name: str = "") -> None:
        offset = next((entry for entry in rest if isinstance(entry, Tensor)), None)
        name = next((entry for entry in rest if isinstance(entry, str)), name)
        super().__init__(name)
        self.source, self.destination, self.offset = source, destination, offset
        if isinstance(source, Tensor) and isinstance(destination, Tensor):
            _check_sides(source, destination)
        elif isinstance(source, DataStream) and isinstance(destination, Tensor):
            _check_stream(source, destination, StreamKind.TO_DEVICE)
        elif isinstance(source, Tensor) and isinstance(destination, DataStream):
            _check_stream(destination, source, StreamKind.FROM_DEVICE)
        elif isinstance(source, RemoteBuffer) and isinstance(destination, Tensor):
            _check_remote(source, destination, offset)
        elif isinstance(source, Tensor) and isinstance(destination, RemoteBuffer):
            _check_remote(destination, source, offset)
        else:
            raise control_program_error(
                f"Copy: cannot copy from {type(source).__name__} to {type(destination).__name__}. One side is a "
                "tensor; the other a tensor, a stream or a remote buffer."
            )


class CrossReplicaCopy(Program):
    """Each replica reads from the replica that `replicas` names for it."""

    def __init__(self, source: Tensor, destination: Tensor, replicas: Mapping[int, int], name: str = "") -> None:
        super().__init__(name)
        _check_sides(source, destination)
        self.source, self.destination, self.replicas = source, destination, dict(replicas)


class Repeat(Program):
    """A program so many times."""

    def __init__(self, count: int, program: Program, name: str = "") -> None:
        super().__init__(name)
        if int(count) < 0:
            raise control_program_error(f"Repeat: the count is {count}, and must not be negative.")
        self.count, self.program = int(count), program


class _While(Program):
    expected = True

    def __init__(self, condition: Program, predicate: Tensor, body: Program, name: str = "") -> None:
        super().__init__(name)
        _check_scalar(predicate, type(self).__name__)
        self.condition, self.predicate, self.body = condition, predicate, body


class RepeatWhileTrue(_While):
    """Run `condition`; while the predicate is then true, run `body` and begin again."""


class RepeatWhileFalse(_While):
    """The same while it is false."""

    expected = False


class If(Program):
    """One of two programs."""

    def __init__(self, predicate: Tensor, trueBody: Program, falseBody: Program | None = None, name: str = "") -> None:
        super().__init__(name)
        _check_scalar(predicate, "If")
        self.predicate, self.trueBody, self.falseBody = predicate, trueBody, falseBody or Sequence()


class Switch(Program):
    """The program of the case that a tensor's value chooses; without one, the default."""

    def __init__(
        self,
        control: Tensor,
        cases: AbstractSequence[tuple[int, Program]] = (),
        defaultCase: Program | None = None,
        name: str = "",
    ) -> None:
        super().__init__(name)
        _check_scalar(control, "Switch")
        self.control = control
        self.cases: list[tuple[int, Program]] = []
        self.default = defaultCase or Sequence()
        for value, body in cases:
            self.add(value, body)

    def add(self, value: int, body: Program) -> Switch:
        if any(known == value for known, _ in self.cases):
            raise control_program_error(f"Switch: there is already a case {value}.")
        self.cases.append((int(value), body))
        return self


class Call(Program):
    """A function of the graph, or a function of the host with tensors in and out."""

    def __init__(
        self,
        function: Any,
        inputs: AbstractSequence[Tensor] = (),
        outputs: AbstractSequence[Tensor] = (),
        name: str = "",
    ) -> None:
        super().__init__(name)
        self.function, self.inputs, self.outputs = function, tuple(inputs), tuple(outputs)
        if isinstance(function, HostFunction):
            for given, wanted, what in (
                (self.inputs, function.inputs, "inputs"),
                (self.outputs, function.outputs, "outputs"),
            ):
                found = [(tensor.elementType(), tensor.numElements()) for tensor in given]
                expected = [(entry.type, entry.numElements) for entry in wanted]
                if found != expected:
                    raise control_program_error(
                        f"Call: the host function {function.handle()!r} takes {what} {expected}, and got {found}."
                    )


class PrintTensor(Program):
    """Write a tensor to the engine's print stream: `PrintTensor("title", t)` or `PrintTensor(t)`."""

    def __init__(self, title: str | Tensor, tensor: Tensor | None = None, fmt: Any = None, name: str = "") -> None:
        super().__init__(name)
        if isinstance(title, Tensor):
            self.title, self.tensor = title.graph._store.name_of(title), title
        else:
            assert tensor is not None, "PrintTensor needs a tensor."
            self.title, self.tensor = title, tensor
        self.fmt = fmt


class WriteUndef(Program):
    """The tensor's old values are not needed any more."""

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        super().__init__(name)
        self.tensor = tensor


class SyncType:
    """How far a `Sync` reaches."""

    INTERNAL = "internal"
    EXTERNAL = "external"
    GLOBAL = "global"


class Sync(Program):
    """Wait for all tiles, or all IPUs."""

    def __init__(self, kind: str = SyncType.INTERNAL, name: str = "") -> None:
        super().__init__(name)
        self.kind = kind


class CycleStamp(Program):
    """Cycles of all that ran since the program was loaded; with `since`, since that stamp. See `poplar.cycleCount`."""

    def __init__(self, tensor: Tensor, since: Tensor | None = None, name: str = "") -> None:
        super().__init__(name)
        self.tensor, self.since = tensor, since


class AssumeEqualAcrossReplicas(Program):
    """The tensor may decide control flow: replicas are compared there anyway."""

    def __init__(self, tensor: Tensor, name: str = "") -> None:
        super().__init__(name)
        self.tensor = tensor


class ErrorProgram(Program):
    """Stop with a message and a tensor's values."""

    def __init__(self, message: str, tensor: Tensor, name: str = "") -> None:
        super().__init__(name)
        self.message, self.tensor = message, tensor


class Abort(Program):
    """Stop."""

    def __init__(self, message: str = "", name: str = "") -> None:
        super().__init__(name)
        self.message = message


class AbortOnCondition(Program):
    """Stop if a scalar is true."""

    def __init__(self, predicate: Tensor, message: str = "", name: str = "") -> None:
        super().__init__(name)
        _check_scalar(predicate, "AbortOnCondition")
        self.predicate, self.message = predicate, message


@dataclass(frozen=True, slots=True)
class Function:
    """A program that `Call` runs, as `Graph.addFunction` returned it."""

    number: int


class Library(Program):
    """A call of a PopLibs function. Functions of those libraries make it; programs contain it."""

    def __init__(self, number: int, name: str = "") -> None:
        super().__init__(name)
        self.number = number


def _check_sides(source: Tensor, destination: Tensor) -> None:
    if source.elementType() is not destination.elementType():
        raise type_error(
            f"Copy: element types differ ({source.elementType()} and {destination.elementType()}). Use popops.cast."
        )
    if source.numElements() != destination.numElements():
        raise poplar_error(
            f"Copy: {source.numElements()} elements (shape {source.shape()}) do not fit {destination.numElements()} "
            f"(shape {destination.shape()})."
        )
    if destination.containsConstant():
        raise poplar_error(f"Copy: the destination {destination!r} is a constant, which nothing can write.")


def _check_stream(stream: DataStream, tensor: Tensor, kind: StreamKind) -> None:
    if stream.kind is not kind:
        raise control_program_error(f"Copy: the stream {stream.handle()!r} goes from {stream.kind.value}.")
    if stream.type is not tensor.elementType():
        raise type_error(f"Copy: the stream {stream.handle()!r} has {stream.type}, the tensor {tensor.elementType()}.")
    if stream.elements != tensor.numElements():
        raise poplar_error(
            f"Copy: the stream {stream.handle()!r} has {stream.elements} elements, the tensor {tensor.numElements()}."
        )


def _check_remote(buffer: RemoteBuffer, tensor: Tensor, offset: Tensor | None) -> None:
    rows = 1 if offset is None else offset.numElements()
    if buffer.type is not tensor.elementType() or buffer.elements * rows != tensor.numElements():
        raise poplar_error(
            f"Copy: {rows} rows of the remote buffer {buffer.handle()!r} are {buffer.elements * rows} elements of "
            f"{buffer.type}, and the tensor has {tensor.numElements()} of {tensor.elementType()}."
        )


def _check_scalar(tensor: Tensor, what: str, subject: str = "what decides") -> None:
    if tensor.numElements() != 1 or tensor.elementType().is_floating:
        raise control_program_error(
            f"{what}: {subject} must be one BOOL or integer, and is {tensor.shape()} of {tensor.elementType()}."
        )
