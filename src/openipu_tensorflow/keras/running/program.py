"""A traced step as a program on the model's device.

In: a `TracedStep`, a device, an `Arrangement`. Out: a `StepRunner`: data in, results of every step out; variables are
copied when the other side needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch

import tensorflow as tf
from openipu.graph import Program
from openipu_tensorflow.engine import Source, Step, compile_step
from openipu_tensorflow.engine.describing import name_variables
from openipu_tensorflow.graphs.formats import to_numpy, to_torch
from openipu_tensorflow.ipu.configuration.devices import IpuDevice
from openipu_tensorflow.ipu.configuration.run_options import (
    Arrangement,
    build_run_options,
    choose_machine,
    find_cache,
    find_profile,
    shows_progress,
)
from openipu_tensorflow.keras.data.chunks import lend
from openipu_tensorflow.keras.running.memory import ProgramMemory
from openipu_tensorflow.keras.running.tracing import TracedStep
from openipu_tensorflow.keras.running.watching import find_owner


class StepRunner:
    """One compiled step, with the model's variables."""

    def __init__(self, traced: TracedStep, device: IpuDevice, how: Arrangement) -> None:
        options = build_run_options(device, how)

        def reserve(program: Program) -> None:
            device.attach(program.name)

        self.step: Step = compile_step(
            traced.graph,
            inputs=traced.inputs,
            outputs=traced.outputs,
            targets=traced.targets,
            carried=traced.carried,
            options=options,
            name=traced.name,
            system=choose_machine(device.config),
            reserve=reserve,
            words="keras",
            profile_directory=find_profile(device.config),
            cache_directory=find_cache(),
            show_progress=shows_progress(),
        )
        self._traced, self._device, self._resets = traced, device, 0
        named = dict(name_variables(traced.graph).values())
        self._names = list(self.step.variables)
        held = [find_owner(named[name]) for name in self._names]
        written = [place for place, name in enumerate(self._names) if self.step.variables[name].written]
        self._memory = ProgramMemory(self, held, written)

    def run(self, data: Source) -> Any:
        """`data`: the batches of all steps and replicas. Out: results, each with all steps."""
        traced, options = self._traced, self.step.plan.options
        found = self.run_flat(data)
        handed = sum(len(entry.tensors) for entry in traced.handed)
        rest = found[len(found) - handed :]
        for entry in traced.handed:
            own, rest = rest[: len(entry.tensors)], rest[len(entry.tensors) :]
            values = [part_rounds(value, options.micro_batches, options.replicas) for value in own]
            entry.queue.put_eagerly(entry.structure, values, options.replicas)
        return tf.nest.pack_sequence_as(traced.structure, found[: len(found) - handed])

    def run_flat(self, data: Sequence[Any] | Source, carried: Sequence[Any] = ()) -> list[Any]:
        """The same, with first values of what is carried in, and their last ones behind the results. `data` may also be
        one tensor [steps x replicas, batch, ...] for each input."""
        if isinstance(data, Sequence):
            data = [_join_steps(lend(tensor)) for tensor in data]
        if self._device.seed is not None and self._resets != self._device.resets:  # reset_ipu_seed was called
            self.step.reseed(self._device.seed)
            self._resets = self._device.resets
        self._memory.begin()
        try:
            return self.step.run(data, carried)
        finally:  # data that end too early end the run, and what it has done by then counts
            self._memory.end()

    def release(self) -> None:
        """Copy everything back; the program is not used any more."""
        self._memory.fetch_all()

    def load(self, values: Mapping[int, numpy.ndarray[Any, Any]]) -> None:
        """Some variables, by place."""
        captured, executable = self.step.captured, self.step.compiled.executable
        found = {self._names[place]: to_torch(value) for place, value in values.items()}
        if len(found) == len(self._names):
            self.step.load({self._names[place]: value for place, value in values.items()})
            return
        parameters = {name: found[name] for name in captured.parameters if name in found}
        buffers = {name: found[name] for name in captured.buffers if name in found}
        state = {key: found[name] for name, key in captured.states.items() if name in found}
        if parameters:
            executable.load_parameters(parameters)
        if buffers:
            executable.load_buffers(buffers)
        if state:
            executable.load_state(state)

    def read(self, places: Sequence[int]) -> Mapping[int, numpy.ndarray[Any, Any]]:
        """Some variables, by place."""
        captured, executable = self.step.captured, self.step.compiled.executable
        names = {self._names[place]: place for place in places}
        held = executable.copy_weights(set(names))
        if any(name in captured.states for name in names):
            state = executable.state
            held |= {name: state[captured.states[name]] for name in names if name in captured.states}
        return {
            place: to_numpy(held[name], self.step.variables[name].dtype)
            for name, place in names.items()
            if name in held
        }


def part_rounds(value: Any, total: int, replicas: int) -> numpy.ndarray[Any, Any]:
    """[rounds x replicas, ...] -> [rounds, (replicas,) ...]; the only one of a run has no dimension of its own yet."""
    found = numpy.asarray(value)
    if total == 1:
        return found[None]
    return found.reshape(total // replicas, *((replicas,) if replicas > 1 else ()), *found.shape[1:])


def _join_steps(tensor: torch.Tensor) -> torch.Tensor:
    """Steps behind one another."""
    return tensor.reshape(-1, *tensor.shape[2:])
