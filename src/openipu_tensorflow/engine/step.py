"""A compiled step: variables go in once, data for each run.

In: values of variables by name, then arrays for the inputs of all micro-batches of a run. Out: arrays. Between runs the
variables live on the device; `read` copies what has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch

import tensorflow as tf
from openipu.errors import ArithmeticFaultError, InputError
from openipu.graph import InputKind, OutputMode
from openipu.plan import Plan
from openipu.session import Compiled
from openipu.translate.foreign import TensorType
from openipu.translate.tensorflow.steps import StepProgram
from openipu_tensorflow.graphs.formats import to_numpy, to_torch


@dataclass(frozen=True, slots=True)
class StepVariable:
    """A variable of a step. `trained`: a gradient updates it; `written`: a run changes it."""

    name: str
    dtype: Any  # TensorFlow's
    shape: tuple[int, ...]
    trained: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Port:
    """An input, an output or a carried value: its name, and its TensorFlow type in one micro-batch."""

    name: str
    dtype: Any
    shape: tuple[Any, ...]  # None for a size that the graph leaves open


class Source(Protocol):
    """A stream of inputs: arrays of `count` micro-batches, from number `first` of the run on, behind one another."""

    def take(self, first: int, count: int) -> Sequence[Any]: ...


class _ArraySource:
    """A source of arrays as one of tensors."""

    def __init__(self, source: Source, convert: Callable[[Sequence[Any]], list[torch.Tensor]]) -> None:
        self._source, self._convert = source, convert

    def take(self, first: int, count: int) -> Sequence[torch.Tensor]:
        return self._convert(self._source.take(first, count))


class Step:
    """A program of one TensorFlow graph, ready to run."""

    def __init__(
        self,
        compiled: Compiled,
        captured: StepProgram,
        variables: Mapping[str, StepVariable],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        carried: Sequence[Port],
        types: Mapping[str, TensorType],
    ) -> None:
        self.compiled = compiled
        self.captured = captured
        self.variables = dict(variables)
        self._inputs, self._outputs, self._carried = tuple(inputs), tuple(outputs), tuple(carried)
        self._types = dict(types)
        self._loaded = False

    @property
    def name(self) -> str:
        return self.compiled.name

    @property
    def plan(self) -> Plan:
        return self.compiled.plan

    @property
    def entangled(self) -> str:
        """Why a training step could not be cut at its gradients; empty where it was, or has none."""
        return self.captured.entangled

    def reseed(self, seed: int) -> None:
        """Let the program's random numbers follow from this seed, from its next run on."""
        self.compiled.executable.random_state = torch.Generator().manual_seed(seed).get_state()

    def load(self, values: Mapping[str, Any]) -> None:
        """Copy values of all variables to the device."""
        missing = [name for name in self.variables if name not in values]
        if missing:
            raise InputError(f"{self.name} uses variable {missing[0]!r}, and has no value of it. Give it one first.")
        held = {name: self._convert(name, values[name]) for name in self.variables}
        executable, captured = self.compiled.executable, self.captured
        for port in self._carried:  # until a run gives it a first value
            held[port.name] = torch.zeros(port.shape, dtype=self._types[port.name].dtype)
        buffers = {name: held[name] for name in captured.buffers if name in held}
        buffers |= {port.name: held[port.name] for port in self._carried if port.name not in captured.states}
        executable.load_weights({name: held[name] for name in captured.parameters}, buffers)
        if captured.states:
            executable.load_state({key: held[name] for name, key in captured.states.items()})
        self._loaded = True

    def run(self, feeds: Sequence[Any] | Source, carried: Sequence[Any] = ()) -> list[Any]:
        """Results of one run: of an output, all its micro-batches on a new first dimension if there is more than one;
        then the last values of what is carried. With replicas, what is carried has a first dimension for them. `feeds`
        hold the micro-batches of each input behind one another; or they are a source, which is asked for those of a
        few micro-batches at a time."""
        if not self._loaded:
            self.load({})
        given = len(feeds) if isinstance(feeds, Sequence) else len(self._inputs)
        if given != len(self._inputs) or len(carried) != len(self._carried):
            raise InputError(
                f"{self.name} takes {len(self._inputs)} inputs and {len(self._carried)} carried values, and got "
                f"{given} and {len(carried)}."
            )
        executable = self.compiled.executable
        self._load_carried(carried)
        try:
            if isinstance(feeds, Sequence):
                found = executable.run(self._feed_all(feeds)).outputs
            else:
                found = executable.stream(_ArraySource(feeds, self._feed_all)).outputs
        except ArithmeticFaultError as error:
            raise tf.errors.InternalError(None, None, f"Tiles in excepted state. {self.name}: {error}") from error
        results = [self._shape(port, value) for port, value in zip(self._outputs, found, strict=True)]
        return results + self._read_carried()

    def _load_carried(self, carried: Sequence[Any]) -> None:
        values = {port.name: to_torch(value) for port, value in zip(self._carried, carried, strict=True)}
        values = {name: value.to(self._types[name].dtype) for name, value in values.items()}
        states = {name: values.pop(name) for name in list(values) if name in self.captured.states}
        if states:  # what an update makes is the same on all replicas
            first = {name: value if self._replicas == 1 else value[0] for name, value in states.items()}
            self.compiled.executable.load_state({self.captured.states[name]: value for name, value in first.items()})
        if self._replicas == 1:
            self.compiled.executable.load_buffers(values)
            return
        for replica in range(self._replicas):
            self.compiled.executable.load_buffers({name: value[replica] for name, value in values.items()}, replica)

    def _read_carried(self) -> list[Any]:
        states = self.captured.states
        names = [port.name for port in self._carried if port.name not in states]
        found = [dict(self.compiled.executable.copy_buffers(names, replica)) for replica in range(self._replicas)]
        updated = [port.name for port in self._carried if port.name in states]
        if updated:
            held = self.compiled.executable.state
            found = [{**own, **{name: held[states[name]] for name in updated}} for own in found]
        arrays = [[to_numpy(own[port.name], port.dtype) for own in found] for port in self._carried]
        return [values[0] if self._replicas == 1 else numpy.stack(values) for values in arrays]

    @property
    def _replicas(self) -> int:
        return self.plan.options.replicas

    def read(self) -> dict[str, Any]:
        """The values of the variables that runs change, as the device has them now."""
        held = self._read_weights()
        if self.captured.states:
            state = self.compiled.executable.state
            held |= {name: state[key] for name, key in self.captured.states.items()}
        return {
            name: to_numpy(held[name], variable.dtype) for name, variable in self.variables.items() if variable.written
        }

    def _read_weights(self) -> dict[str, torch.Tensor]:
        """All that the program holds but optimizer state, copied from the device."""
        program = self.compiled.program
        rooms: dict[InputKind, dict[str, torch.Tensor]] = {InputKind.PARAMETER: {}, InputKind.BUFFER: {}}
        for graph in filter(None, (program.micro, program.update)):
            for entry in graph.inputs:
                if entry.kind in rooms:
                    rooms[entry.kind][entry.name] = torch.empty(entry.shape, dtype=entry.dtype)
        self.compiled.executable.read_weights(rooms[InputKind.PARAMETER], rooms[InputKind.BUFFER])
        return {**rooms[InputKind.PARAMETER], **rooms[InputKind.BUFFER]}

    def _convert(self, name: str, value: Any) -> torch.Tensor:
        found, wanted = to_torch(value), self._types[name]
        if tuple(found.shape) != wanted.fixed_shape:
            raise InputError(
                f"Variable {name!r} of {self.name} has shape {wanted.fixed_shape}, and got a value of "
                f"{tuple(found.shape)}."
            )
        return found

    def _feed_all(self, values: Sequence[Any]) -> list[torch.Tensor]:
        return [self._feed(port, value) for port, value in zip(self._inputs, values, strict=True)]

    def _feed(self, port: Port, value: Any) -> torch.Tensor:
        found = value if isinstance(value, torch.Tensor) else to_torch(value)
        return found.reshape(-1) if not port.shape and self._batches > 1 else found

    @property
    def _batches(self) -> int:
        return self.plan.options.micro_batches

    def _shape(self, port: Port, value: torch.Tensor) -> Any:
        """Micro-batches lie behind one another: they get a dimension of their own."""
        options = self.plan.options
        count = options.micro_batches if options.output_mode is OutputMode.ALL else options.replicas
        array = to_numpy(value, port.dtype)
        each = (-1, *array.shape[1:]) if None in port.shape else port.shape  # sizes that the graph leaves open
        return numpy.reshape(array, (count, *each)) if count > 1 else array
