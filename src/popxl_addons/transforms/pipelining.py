"""Pipelines: ops in stages, which micro-batches pass one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

import popxl
from popxl import ops
from popxl._ir.operation import Op
from popxl.ops.call import CallSiteInfo
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons.graph_surgery import list_ops, move_ops
from popxl_addons.module import Module

__all__ = ["pipelined_execution"]


class StageContext:
    """What ops belong to which stage; ``pipelined_execution`` hands one out."""

    def __init__(self) -> None:
        self._stage: int | None = None
        self._stages: dict[int, int] = {}  # id of an op -> its stage
        self.ops: list[Op] = []

    def hook(self, op: Op) -> None:
        """Takes note of an op that was made."""
        if self._stage is None:
            raise RuntimeError("every op of a pipeline belongs to a stage: make it inside `with pipeline.stage(i)`")
        self._stages[id(op)] = self._stage
        self.ops.append(op)

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return len(set(self._stages.values()))

    @contextmanager
    def stage(self, i: int) -> Iterator[None]:
        """Ops made inside belong to a stage."""
        before = self._stage
        self._stage = i
        try:
            yield
        finally:
            self._stage = before

    def _stage_of(self, op: Op | None) -> int | None:
        return self._stages.get(id(op))

    def stash_and_restore_tensor(self, t: popxl.Tensor, from_stage: int | None = None) -> popxl.Tensor:
        """A tensor of an earlier stage as this stage needs it: that of the micro-batch which is here now.

        The earlier stage writes it to a ring of as many entries as there are micro-batches on the way; this one reads.
        """
        start = self._stage_of(t._producer) if from_stage is None else from_stage
        if start is None:
            raise RuntimeError(f"no stage makes {t}, so `from_stage` has to say where it is stashed")
        if self._stage is None:
            raise RuntimeError("a tensor is restored for a stage: call this inside `with pipeline.stage(i)`")
        entries = self._stage - start + 1
        with self.stage(start):
            factories, graph = _Stash().create_graph(t, entries)
            ring = factories.init()
            graph.bind(ring).call(t)
        factories, graph = _Restore().create_graph(ring.stash, tuple(t.shape))
        (restored,) = graph.bind(factories.init()).call(ring.stash)
        return restored

    def stash_and_restore_activations(
        self, call_info: CallSiteInfo, grad_info: GradGraphInfo
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """What a gradient graph needs of a forward call, stashed where the call is in an earlier stage.

        Variables and other tensors that no stage makes need no stash.
        """
        activations = grad_info.inputs_dict(call_info)
        start = self._stage_of(call_info._op)
        if start == self._stage:
            return activations
        return {
            inner: self.stash_and_restore_tensor(outer, start) if self._stage_of(outer._producer) is not None else outer
            for inner, outer in activations.items()
        }


@contextmanager
def pipelined_execution(steps: int) -> Iterator[StageContext]:
    """Run the stages that are made inside for ``steps`` micro-batches.

    A pipeline computes what its stages compute for one micro-batch after the other: each stage meets the micro-batches
    in order, and no variable that one stage reads is written by another. So the ops become the body of a loop.
    """
    graph = popxl.gcg()
    stages = StageContext()
    handle = graph.register_op_created_hook(stages.hook)
    try:
        yield stages
    finally:
        graph.remove_op_created_hook(handle)
    if steps < 2 * stages.num_stages:
        raise ValueError(
            f"a pipeline of {stages.num_stages} stages needs at least twice as many micro-batches, not {steps}: "
            "raise `steps`"
        )
    body = graph.ir.create_empty_graph("pipeline_graph")
    own = set(map(id, stages.ops))
    staged = [op for op in list_ops(graph) if id(op) in own]
    outer = move_ops(staged, body)
    ops.repeat(body, steps, inputs_dict=outer)


class _Stash(Module):
    """Writes tensors into a ring."""

    def build(self, t: popxl.Tensor, stash_size: int) -> None:
        if stash_size <= 1:
            raise TypeError(
                f"a stash of {t} with {stash_size} entries: the stage that restores is not behind the one that stashes"
            )
        shape = tuple(t.shape) or (1,)
        place = _add_place(self)
        ring = self.add_variable_input("stash", partial(np.zeros, (stash_size, *shape)), t.dtype, by_ref=True)
        ops.dynamic_update_(ring, place, t.reshape((1, *shape)), [0], [1], True)
        ops.increment_mod_(place, 1, stash_size)


class _Restore(Module):
    """Reads them in the same order."""

    def build(self, stash: popxl.Tensor, shape: tuple[int, ...]) -> popxl.Tensor:
        place = _add_place(self)
        entry = ops.dynamic_slice(stash, place, [0], [1], True)
        ops.increment_mod_(place, 1, stash.shape[0])
        return entry.reshape(shape)


def _add_place(module: Module) -> popxl.Tensor:
    """Which entry of a ring is next: each side has its own."""
    return module.add_variable_input("counter", partial(np.zeros, 1), popxl.uint32, by_ref=True)
