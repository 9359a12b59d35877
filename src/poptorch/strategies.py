"""Execution strategies: which block runs on which IPU in which stage or phase.

In: stages, phases or block ids. Out: objects that `Options.setExecutionStrategy` stores, and that `_blocks` asks for
the place of each block while a model is captured. None of them changes results: they decide where and when an op runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import openipu.graph as graph
from poptorch.enums import AutoStage, Liveness

_IDLE_PHASES = {Liveness.OffChipAfterFwdNoOverlap: 2, Liveness.OffChipAfterEachPhase: 4}


class Stage:
    """Blocks that run together on one IPU."""

    def __init__(self, *block_ids: str) -> None:
        assert all(isinstance(block, str) for block in block_ids), (
            f"Block IDs are supposed to be strings but got {block_ids}"
        )
        self._blocks = list(block_ids)
        self._ipu: int | None = None
        self._stage_id = -1
        self._phase_id = -1

    @property
    def blocks(self) -> list[str]:
        """The ids of the stage's blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> Stage:
        """Put this stage on one IPU."""
        valid = type(ipu) is int and ipu >= 0
        assert valid, f"An IPU is a number from 0 on, not {ipu!r}"
        self._ipu = ipu
        return self

    def __repr__(self) -> str:
        return f"Stage({', '.join(self._blocks)}, ipu={self._ipu})"


class Phase:
    """Stages that run in parallel in one phase of phased execution."""

    def __init__(self, *arg: Stage | str) -> None:
        kinds = {type(entry) for entry in arg}
        if all(isinstance(entry, Stage) for entry in arg):
            self.stages = [entry for entry in arg if isinstance(entry, Stage)]
        else:
            assert all(isinstance(entry, str) for entry in arg), (
                f"All arguments must either be block IDs (strings) or Stages: got {sorted(map(str, kinds))}"
            )
            self.stages = [Stage(*(entry for entry in arg if isinstance(entry, str)))]

    def stage(self, idx: int) -> Stage:
        """One of the phase's stages."""
        return self.stages[idx]

    def ipus(self, *ipus: int) -> Phase:
        """Put the stages on these IPUs, in order."""
        assert len(ipus) == len(self.stages), (
            f"Phase contains {len(self.stages)} stages but you provided {len(ipus)} ipus: give one for each stage"
        )
        for stage, ipu in zip(self.stages, ipus, strict=True):
            stage.ipu(ipu)
        return self

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self.stages))})"


class _Strategy:
    """Blocks by stage; each block belongs to one."""

    kind: graph.Strategy
    mode: str  # in logs

    def __init__(self) -> None:
        self._stage_of_block: dict[str, Stage] = {}

    def _add_stages(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            for block in stage.blocks:
                assert block not in self._stage_of_block, f"{block} associated with more than one stage"
                self._stage_of_block[block] = stage

    def stage(self, block_id: str) -> Stage:
        """The stage of a block."""
        blocks = list(self._stage_of_block)
        assert block_id in self._stage_of_block, f"Unknown Block '{block_id}' list of expected Blocks: {blocks}"
        return self._stage_of_block[block_id]

    def __repr__(self) -> str:
        stages = list(dict.fromkeys(self._stage_of_block.values()))
        return f"{type(self).__name__}({', '.join(map(repr, stages))})"


class PipelinedExecution(_Strategy):
    """Stages run at the same time on successive micro-batches."""

    kind = graph.Strategy.PIPELINED
    mode = "Pipelined"

    def __init__(self, *args: AutoStage | Stage | str | list[str]) -> None:
        super().__init__()
        self.auto_stage: AutoStage | None = None  # None: the stages are listed
        if not args:
            self.auto_stage = AutoStage.SameAsIpu
        elif isinstance(args[0], AutoStage):
            assert len(args) == 1, "An AutoStage comes alone: the stages are then made from the blocks"
            self.auto_stage = args[0]
        else:
            stages = [_make_stage(arg) for arg in args]
            for number, stage in enumerate(stages):
                stage._stage_id = number
            self._add_stages(stages)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.auto_stage!s})" if self.auto_stage is not None else super().__repr__()


class AutomaticExecution(PipelinedExecution):
    """Pipeline stages that openipu finds: those that fit the modelled system and are fastest. Blocks are not needed.

    It also chooses recomputation, where optimizer state is kept, and the memory proportion of each IPU. The batch, the
    gradient accumulation and the replicas stay as the options say. An addition: the original has no such strategy.
    """

    def __init__(self, ipus_per_replica: int | None = None) -> None:
        super().__init__(AutoStage.AutoIncrement)
        valid = ipus_per_replica is None or (type(ipus_per_replica) is int and ipus_per_replica >= 1)
        assert valid, f"ipus_per_replica is a whole number of at least 1, or None, not {ipus_per_replica!r}"
        self.ipus_per_replica = ipus_per_replica

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ipus_per_replica={self.ipus_per_replica})"


class ShardedExecution(PipelinedExecution):
    """Stages run one after the other."""

    kind = graph.Strategy.SHARDED
    mode = "Sharded"


class _PhasedExecution(_Strategy):
    """Phases with weights and activations off chip between them."""

    mode = "Phased"

    def __init__(self, *phases: Phase | list[Stage] | list[str] | Stage | str) -> None:
        super().__init__()
        assert phases, "There is no AutoStage for phased execution: list the phases"
        self._phases: list[Phase] = []
        for number, phase in enumerate(phases):
            made = phase if isinstance(phase, Phase) else Phase(*phase) if isinstance(phase, list) else Phase(phase)
            for stage in made.stages:
                stage._phase_id = number
            self._phases.append(made)
            self._add_stages(made.stages)
        self.separate_backward_phase = False
        self.liveness = Liveness.AlwaysLive

    def phase(self, phase: int) -> Phase:
        """One of the phases."""
        valid = type(phase) is int and phase >= 0
        assert valid, "Phases are identified by positive integers"
        return self._phases[phase]

    def useSeparateBackwardPhase(self, use: bool = True) -> _PhasedExecution:
        """Let the backward pass begin with a phase of its own, instead of within the last forward phase."""
        assert isinstance(use, bool), "useSeparateBackwardPhase takes True or False"
        self.separate_backward_phase = use
        return self

    @property
    def phase_stride(self) -> int:
        """Phases from one with work to the next: those between only move tensors on and off the chip."""
        return _IDLE_PHASES.get(self.liveness, 1)

    def count_phases(self, last_used: int) -> int:
        """Phases up to the beginning of the backward pass; `last_used` is the last one that a block ran in."""
        count = last_used * self.phase_stride + 1
        if self.liveness != Liveness.AlwaysLive:
            return count + 3  # tensors live through three phases: with fewer between they would never leave
        return count + 1 if self.separate_backward_phase else count


class ParallelPhasedExecution(_PhasedExecution):
    """Two sets of IPUs take phases in turn: even phases on even IPUs, odd phases on odd ones."""

    kind = graph.Strategy.PARALLEL_PHASES

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> ParallelPhasedExecution:
        """Move activations off the chip between forward and backward."""
        assert isinstance(off_chip, bool), "sendTensorsOffChipAfterFwd takes True or False"
        self.liveness = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        return self


class SerialPhasedExecution(_PhasedExecution):
    """All IPUs of a replica work on one phase at a time."""

    kind = graph.Strategy.SERIAL_PHASES

    def setTensorsLiveness(self, liveness: Liveness) -> SerialPhasedExecution:
        """When tensors leave the chip."""
        assert isinstance(liveness, Liveness), "setTensorsLiveness takes a poptorch.Liveness"
        self.liveness = liveness
        return self


def _make_stage(given: AutoStage | Stage | str | list[str]) -> Stage:
    if isinstance(given, Stage):
        return given
    if isinstance(given, str):
        return Stage(given)
    assert isinstance(given, list | tuple), f"A stage is a poptorch.Stage, a block ID or a list of those, not {given!r}"
    return Stage(*given)
