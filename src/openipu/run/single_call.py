"""A call of one micro-batch, without what several would need.

In: the inputs of one call, of a program without accumulation, replicas, device iterations or taps. Out: what
`Executable.run` returns for it, or None where an input has to be converted or is wrong: the long way has the words for
that. Splitting, choosing and joining micro-batches takes longer than a small model.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter as clock
from typing import Any

import torch

from openipu.activity import is_watched, note_run
from openipu.graph import InputKind, OutputKind, OutputMode, Program, RunOptions
from openipu.run.engine.micro import MicroFunction
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.random_stream import RandomStream
from openipu.run.results import MicroBatchTimes, ResultPlaces, RunResult
from openipu.run.supervisor import EngineSupervisor


def runs_alone(options: RunOptions) -> bool:
    """Whether a call is one micro-batch, of which everything comes back and nothing is looked into."""
    every = options.output_mode is not OutputMode.EVERY_N or options.output_period == 1
    plain = not options.taps and options.loss_scale_control is None and not options.output_choices
    return (
        options.micro_batches == options.instances == 1
        and every
        and plain
        and not options.continuous
        and not options.deterministic
    )


class SingleCall:
    """Runs calls of one program, each as quickly as Python can."""

    def __init__(
        self, program: Program, memory: DeviceMemory, supervisor: EngineSupervisor, stream: RandomStream, number: int
    ) -> None:
        self._program, self._memory, self._supervisor = program, memory, supervisor
        self._stream, self._number = stream, number
        entries = program.micro.inputs_of(InputKind.INPUT)
        self._expected = [(entry.index, torch.Size(entry.shape), entry.dtype) for entry in entries]
        self._needed = max((entry.index for entry in entries), default=-1) + 1
        self._bound: _BoundFunction | None = None  # the function that ran last
        tree = program.output_tree
        self._host_leaves = [tree.host_leaves.get(index) for index in range(tree.leaves)]

    def run(self, leaves: Sequence[Any]) -> RunResult | None:
        """The result of this call; None: take the long way."""
        inputs = self._read(leaves)
        if inputs is None:
            return None
        engine = self._supervisor.start()
        function = engine.function_of(0)
        if function.random:
            return None
        bound = self._bound
        if bound is None or bound.function is not function:
            bound = self._bound = _BoundFunction(function, self._program, self._memory)
        started = clock()
        follows = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # `torch.no_grad` takes five times as long
        try:
            if bound.seeded:
                inputs[-1] = self._stream.draw_seeds(1)[0]
            engine.begin()
            asked = clock()
            arguments = [inputs[place] if held is None else held for place, held in bound.arguments]
            ready = clock()
            values = function.call(*arguments)
            done = clock()
            if bound.targets:
                torch._foreach_copy_(bound.targets, [values[index] for index in bound.places.written])
            engine.take_gradients(0, values)
            outputs = self._host_leaves.copy()
            for index, leaf in bound.outputs:
                outputs[leaf] = values[index].contiguous()
            times = MicroBatchTimes(asked, ready, done, clock(), True)
            engine.finish()
            for held, index in bound.carried:
                held.copy_(values[index])
        finally:
            torch._C._set_grad_enabled(follows)
        changed = {leaf: values[index].contiguous() for index, leaf in bound.places.changed}
        seconds = clock() - started
        self._supervisor.note_run(seconds)
        if is_watched():
            note_run(self._number, self._program.name, seconds)
        return RunResult(tuple(outputs), changed, {}, (times,))

    def _read(self, leaves: Sequence[Any]) -> dict[int, torch.Tensor] | None:
        """The inputs by leaf, if they are as the program takes them."""
        if len(leaves) < self._needed:
            return None
        found = {}
        for index, shape, dtype in self._expected:
            leaf = leaves[index]
            if type(leaf) is not torch.Tensor or leaf.dtype is not dtype or leaf.shape != shape or leaf.requires_grad:
                return None
            # Programs keep int64, which torch wants of an index, but the device gets no more than 32 bits of it.
            found[index] = leaf.to(torch.int32).to(torch.int64) if dtype is torch.int64 else leaf
        return found


class _BoundFunction:
    """Where a function's arguments come from, and where its results go."""

    def __init__(self, function: MicroFunction, program: Program, memory: DeviceMemory) -> None:
        self.function = function
        self.places = ResultPlaces(function, program)
        self.seeded = any(entry.kind is InputKind.SEED for entry in function.arguments)
        buffers = memory.buffers[0]
        # The leaf that an argument is, or -1 for the seed; or the buffer that it is in every call.
        self.arguments = [
            (entry.index, None)
            if entry.kind is InputKind.INPUT
            else (-1, None if entry.kind is InputKind.SEED else buffers[entry.name])
            for entry in function.arguments
        ]
        self.targets = [
            buffers[name] if kind is OutputKind.BUFFER else memory.parameters[name]
            for kind, name in self.places.targets
        ]
        self.carried = [(memory.parameters[name], index) for index, name in self.places.carried]
        self.outputs = [
            (index, entry.index) for index, entry in zip(self.places.output_positions, self.places.outputs, strict=True)
        ]
