"""The loop over the micro-batches of a call.

In: an engine, and a feed with the inputs of one call after another. Out: a `RunResult` for each; weights, buffers and
optimizer state on the device are those after the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from time import perf_counter as clock

import torch

from openipu.graph import Program, RunOptions
from openipu.run.bindings import SEED, Bindings, BoundFunction, Values
from openipu.run.engine.engine import Engine
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.feeds import Feed
from openipu.run.hooks import Hook, MakeHook
from openipu.run.lockstep import run_in_step
from openipu.run.membership import Membership
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.random_stream import RandomStream
from openipu.run.results import MicroBatchTimes, ResultCollector, RunResult


class Loop:
    """Runs the calls of one executable."""

    def __init__(
        self,
        program: Program,
        options: RunOptions,
        sets: ReplicaSets,
        stream: RandomStream,
        membership: Membership,
        hooks: Sequence[MakeHook],
        in_step: bool,
    ) -> None:
        """`in_step`: replicas exchange values on the way."""
        self._program, self._options, self._sets, self._stream = program, options, sets, stream
        self._membership, self._make_hooks, self._in_step = membership, hooks, in_step
        self._single = runs_alone(options) and not hooks
        self._bindings: Bindings | None = None  # of the engine that ran last
        tree = program.output_tree
        self._host_leaves = [tree.host_leaves.get(index) for index in range(tree.leaves)]

    def run(self, engine: Engine, feed: Feed) -> RunResult:
        """One call by this engine."""
        bindings = self._bindings
        if bindings is None or bindings.engine is not engine:
            bindings = self._bindings = Bindings(engine, self._program, self._sets)
        follows = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # `torch.no_grad` takes five times as long
        try:
            seeds = self._membership.draw_seeds(self._stream) if bindings.seeded else None
            if self._single and not bindings.random:
                return self._run_single(bindings, feed, seeds)
            hooks = [make(bindings.functions) for make in self._make_hooks]
            with self._stream.use() if bindings.random else nullcontext():
                return self._run_micro_batches(bindings, feed, seeds, hooks)
        finally:
            torch._C._set_grad_enabled(follows)

    def _run_single(self, bindings: Bindings, feed: Feed, seeds: torch.Tensor | None) -> RunResult:
        """A call of one micro-batch: choosing and joining results would take longer than a small model."""
        engine, bound = bindings.engine, bindings.functions[0]
        engine.begin()
        asked = clock()
        given = feed.take(0, 1)
        if seeds is not None:
            given[SEED] = seeds[0]
        arguments = bound.list_arguments(given)
        ready = clock()
        values = bound.call(*arguments)
        done = clock()
        if bound.written:
            bound.write_back(values)
        engine.take_gradients(0, values)
        outputs = self._host_leaves.copy()
        for index, entry in bound.outputs:
            outputs[entry.index] = values[index].contiguous()
        times = MicroBatchTimes(asked, ready, done, clock(), True)
        engine.finish()
        if bound.carried:
            bound.write_carried(values)
        changed = {leaf: values[index].contiguous() for index, leaf in bound.changed} if bound.changed else {}
        return RunResult(tuple(outputs), changed, {}, (times,))

    def _run_micro_batches(
        self, bindings: Bindings, feed: Feed, seeds: torch.Tensor | None, hooks: Sequence[Hook]
    ) -> RunResult:
        options, engine, factor = self._options, bindings.engine, bindings.engine.factor
        results = ResultCollector(bindings.functions[0], options, self._program.output_tree)
        last: dict[DeviceMemory, tuple[BoundFunction, Values]] = {}  # calls of an update that carry values
        steps = options.gradient_accumulation * options.replicas
        for position in range(0, options.micro_batches, factor):
            # Of the first micro-batch of those that run as one; in training they are of one iteration.
            iteration, within = divmod(position, steps)
            step, replica = divmod(within, options.replicas)
            bound = bindings.functions[replica]
            if within == 0:
                for hook in hooks:
                    hook.begin_update(iteration)
                engine.begin()
            asked = clock()
            if not self._in_step:
                arguments = _list_arguments(bound, feed, position, factor, seeds, hooks)
                ready = clock()
                values = bound.call(*arguments)
                done = clock()
            else:
                if replica == 0:
                    calls = [
                        partial(each.call, *_list_arguments(each, feed, position + each.replica, factor, seeds, hooks))
                        for each in bindings.functions
                    ]
                    ready = clock()
                    group = self._membership.group
                    made = run_in_step(calls, self._program.name, None if group is None else group.gather)
                    done = clock()
                values = made[replica]
            if bound.written:
                bound.write_back(values)
            engine.take_gradients(replica, values)
            for hook in hooks:
                hook.take(bound, values, iteration, step)
            results.take(position, factor, values, asked, ready, done)
            if bound.carried:
                last[bound.memory] = bound, values
            last_iteration, last_within = divmod(position + factor - 1, steps)
            if last_within == steps - 1:
                self._membership.sum_gradients(engine)
                engine.finish()
                for written, found in last.values():
                    written.write_carried(found)
                for hook in hooks:
                    hook.finish_update(last_iteration)
        return results.combine({name: tensor for hook in hooks for name, tensor in hook.combine_taps().items()})


def runs_alone(options: RunOptions) -> bool:
    """Whether a call is one micro-batch of one process. All of its outputs come back, whatever their modes are."""
    return options.micro_batches == options.instances == 1


def _list_arguments(
    bound: BoundFunction, feed: Feed, position: int, factor: int, seeds: torch.Tensor | None, hooks: Sequence[Hook]
) -> list[torch.Tensor]:
    given = feed.take(position, factor)
    if seeds is not None:
        given[SEED] = seeds[position] if factor == 1 else seeds[position : position + factor]
    for hook in hooks:
        hook.add_inputs(bound, given)
    return bound.list_arguments(given)
