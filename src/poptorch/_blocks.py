"""From blocks to places: the strategy of the options, applied to one capture.

In: block ids and IPU numbers, in the order in which `forward` meets them. Out: a `BlockPlace` for each, and how often
the IPU changed, from which the number of pipeline stages follows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from openipu.capture import BlockPlace
from poptorch._logging import logger
from poptorch.enums import AutoStage
from poptorch.errors import createPoptorchError
from poptorch.strategies import ParallelPhasedExecution, PipelinedExecution, Stage, _PhasedExecution, _Strategy

OUTSIDE = ""  # name of the block of an op that comes after the end of one and before the start of the next


class BlockResolver:
    """The places of one capture's blocks."""

    def __init__(self, strategy: _Strategy) -> None:
        self.strategy = strategy
        self.ipu_changes = 0
        self._last = BlockPlace()
        self._next_name = 0
        self._next_stage = 1  # ops before the first block are stage 0
        self._stages: dict[str, Stage] = {}
        self._names: dict[int, str] = {}

    def choose_name(self, owner: object = None) -> str:
        """The number of a block without a name. The same owner, a module that is called again, keeps its own."""
        if owner is not None and id(owner) in self._names:
            return self._names[id(owner)]
        name = str(self._next_name)
        self._next_name += 1
        if owner is not None:
            self._names[id(owner)] = name
        return name

    def restart_names(self) -> None:
        self._next_name = 0

    def enter(self, name: str, ipu: int | None) -> BlockPlace:
        """Where the ops of this block go."""
        assert isinstance(name, str), f"Block IDs are supposed to be strings but got {name!r}"
        stage = self._find_stage(name, ipu)
        chosen = stage._ipu if stage._ipu is not None else ipu
        phased = isinstance(self.strategy, _PhasedExecution)
        if chosen is None and phased:
            raise createPoptorchError(
                f"Block '{name}' belongs to phase {stage._phase_id}, which has no IPU. "
                "Give it one: strategy.phase(n).ipus(…), poptorch.Stage(…).ipu(n), or the block's ipu_id."
            )
        if chosen is None:
            logger.debug("No IPU specified for block %s: default to stage_id %d", name, stage._stage_id)
            chosen = stage._stage_id
        number = stage._phase_id if phased else stage._stage_id
        if isinstance(self.strategy, ParallelPhasedExecution) and number % 2 != chosen % 2:
            raise createPoptorchError(
                "When phases are executed in parallel: even phases must run on even IPUs and odd phases on odd IPUs. "
                f"Block '{name}' is in phase {number} on IPU {chosen}: move it with Phase.ipus or Stage.ipu."
            )
        logger.debug("Starting block id=%s stage=%d phase=%d ipu=%d", name, stage._stage_id, stage._phase_id, chosen)
        self.ipu_changes += chosen != self._last.ipu
        self._last = BlockPlace(name, chosen, number)
        return self._last

    def leave(self) -> BlockPlace:
        """After the end of a block: no op may come here, but tensors that forward makes from nothing may."""
        return BlockPlace(OUTSIDE, self._last.ipu, self._last.stage)

    def _find_stage(self, name: str, ipu: int | None) -> Stage:
        automatic = self.strategy.auto_stage if isinstance(self.strategy, PipelinedExecution) else None
        if automatic is None:
            return self.strategy.stage(name)
        if name not in self._stages:
            stage = Stage(name)
            if automatic == AutoStage.SameAsIpu:
                assert ipu is not None, (
                    "poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block "
                    f"{name}: give the block an ipu_id, or use poptorch.AutoStage.AutoIncrement"
                )
                stage._stage_id = ipu
            else:
                stage._stage_id = self._next_stage
                self._next_stage += 1
            self._stages[name] = stage
        return self._stages[name]


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.active: list[BlockResolver] = []


_state = _ThreadState()


def find_resolver() -> BlockResolver | None:
    """The resolver of the model that this thread compiles."""
    return _state.active[-1] if _state.active else None


@contextmanager
def resolve_blocks(strategy: _Strategy) -> Iterator[BlockResolver]:
    """While this lasts, blocks find their places by `strategy`."""
    resolver = BlockResolver(strategy)
    _state.active.append(resolver)
    try:
        yield resolver
    finally:
        _state.active.remove(resolver)
