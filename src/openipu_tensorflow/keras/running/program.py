"""A traced step as a program on the model's device.

In: a `TracedStep`, a device, an `Arrangement`. Out: a `StepRunner`: data in, results of every step out; variables are
copied when the other side needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
from torch.utils.dlpack import from_dlpack

import tensorflow as tf
from openipu.graph import Program
from openipu_tensorflow.engine import Step, compile_step
from openipu_tensorflow.engine.describing import name_variables
from openipu_tensorflow.graphs.formats import to_numpy, to_torch
from openipu_tensorflow.ipu.configuration.devices import IpuDevice
from openipu_tensorflow.ipu.configuration.run_options import (
    Arrangement,
    build_run_options,
    choose_machine,
    find_cache,
    find_profile,
)
from openipu_tensorflow.keras.running.memory import ProgramMemory
from openipu_tensorflow.keras.running.tracing import TracedStep


class StepRunner:
    """One compiled step, with the model's variables."""

    def __init__(self, traced: TracedStep, device: IpuDevice, how: Arrangement, variables: Mapping[int, Any]) -> None:
        """`variables`: Keras' variables by the identity of the handles that they hold."""
        options = build_run_options(device, how)

        def reserve(program: Program) -> None:
            device.attach(program.name)

        self.step: Step = compile_step(
            traced.graph,
            inputs=traced.inputs,
            outputs=traced.outputs,
            targets=list(traced.graph.control_outputs),
            options=options,
            name=traced.name,
            system=choose_machine(device.config),
            reserve=reserve,
            profile_directory=find_profile(device.config),
            cache_directory=find_cache(),
            show_progress=False,
        )
        self._traced = traced
        named = {title: (handle, held) for handle, (title, held) in name_variables(traced.graph).items()}
        self._names = list(self.step.variables)
        held = [variables.get(named[name][0], named[name][1]) for name in self._names]
        written = [place for place, name in enumerate(self._names) if self.step.variables[name].written]
        self._kept: dict[int, numpy.ndarray[Any, Any]] = {}  # small values as the device got them last
        self._memory = ProgramMemory(self, held, written)

    def run(self, data: Sequence[Any]) -> Any:
        """`data`: for each input one tensor [steps x replicas, batch, ...]. Out: results, each with all steps."""
        self._memory.begin()
        results = self.step.run([_lend(tensor) for tensor in data])
        self._memory.end()
        return tf.nest.pack_sequence_as(self._traced.structure, results)

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


def _lend(tensor: Any) -> torch.Tensor:
    """The same memory: a run does not write to its data. Steps lie behind one another in it."""
    found = from_dlpack(tensor) if tensor.dtype not in (tf.uint16, tf.uint32, tf.uint64) else to_torch(tensor)
    return found.reshape(-1, *found.shape[2:])
