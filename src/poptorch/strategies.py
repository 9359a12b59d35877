"""Execution strategies: which block runs on which IPU in which stage or phase.

In: stages, phases or block ids. Out: objects that `Options.setExecutionStrategy` stores. None of them changes results:
on an IPU they decide where and when an op runs, here they are kept for the plan.
"""

from __future__ import annotations

from collections.abc import Iterable

from poptorch.enums import AutoStage, Liveness


class Stage:
    """Blocks that run together on one IPU."""

    def __init__(self, *block_ids: str) -> None:
        assert all(isinstance(block, str) for block in block_ids), "Block ids are supposed to be strings."
        self._blocks = list(block_ids)
        self._ipu_id: int | None = None

    @property
    def blocks(self) -> list[str]:
        return self._blocks

    def ipu(self, ipu_id: int) -> Stage:
        """Put this stage on one IPU."""
        self._ipu_id = ipu_id
        return self

    def __repr__(self) -> str:
        return f"Stage({', '.join(self._blocks)}, ipu={self._ipu_id})"


class Phase:
    """Stages that run in parallel in one phase of phased execution."""

    def __init__(self, *stages: Stage | str) -> None:
        kinds = {isinstance(stage, Stage) for stage in stages}
        assert len(kinds) <= 1, "A Phase takes either Stages or block ids, not both."
        if kinds == {True}:
            self.stages = [stage for stage in stages if isinstance(stage, Stage)]
        else:
            self.stages = [Stage(*(stage for stage in stages if isinstance(stage, str)))]

    def stage(self, index: int) -> Stage:
        return self.stages[index]

    def ipus(self, *ipus: int) -> Phase:
        """Put the stages on these IPUs, in order."""
        assert len(ipus) == len(self.stages), f"Expected {len(self.stages)} IPU ids, one a stage, but got {len(ipus)}"
        for stage, ipu in zip(self.stages, ipus, strict=True):
            stage.ipu(ipu)
        return self

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self.stages))})"


class _Strategy:
    """Blocks by stage; each block belongs to one."""

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
        return f"{type(self).__name__}({', '.join(map(repr, self._stage_of_block.values()))})"


class PipelinedExecution(_Strategy):
    """Stages run at the same time on successive micro-batches."""

    def __init__(self, *args: AutoStage | Stage | str) -> None:
        super().__init__()
        self.auto_stage: AutoStage | None = None
        if not args:
            self.auto_stage = AutoStage.SameAsIpu
        elif isinstance(args[0], AutoStage):
            assert len(args) == 1, "Only one AutoStage can be given."
            self.auto_stage = args[0]
        else:
            self._add_stages(arg if isinstance(arg, Stage) else Stage(str(arg)) for arg in args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.auto_stage!s})" if self.auto_stage is not None else super().__repr__()


class ShardedExecution(PipelinedExecution):
    """Stages run one after the other."""


class _PhasedExecution(_Strategy):
    """Phases with weights and activations off chip between them."""

    def __init__(self, *phases: Phase | list[Stage] | Stage | str) -> None:
        super().__init__()
        assert phases, "Must have at least one phase"
        self._phases: list[Phase] = []
        for phase in phases:
            made = phase if isinstance(phase, Phase) else Phase(*phase) if isinstance(phase, list) else Phase(phase)
            self._phases.append(made)
            self._add_stages(made.stages)
        self.separate_backward_phase = False

    def phase(self, index: int) -> Phase:
        return self._phases[index]

    def useSeparateBackwardPhase(self, use: bool = True) -> _PhasedExecution:
        assert isinstance(use, bool), "useSeparateBackwardPhase takes True or False"
        self.separate_backward_phase = use
        return self


class ParallelPhasedExecution(_PhasedExecution):
    """Two IPUs a replica, taking phases in turn."""

    def __init__(self, *phases: Phase | list[Stage] | Stage | str) -> None:
        super().__init__(*phases)
        self.off_chip_after_forward = False

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> ParallelPhasedExecution:
        assert isinstance(off_chip, bool), "sendTensorsOffChipAfterFwd takes True or False"
        self.off_chip_after_forward = off_chip
        return self


class SerialPhasedExecution(_PhasedExecution):
    """All IPUs of a replica work on one phase at a time."""

    def __init__(self, *phases: Phase | list[Stage] | Stage | str) -> None:
        super().__init__(*phases)
        self.liveness = Liveness.AlwaysLive

    def setTensorsLiveness(self, liveness: Liveness) -> SerialPhasedExecution:
        assert isinstance(liveness, Liveness), "setTensorsLiveness takes a poptorch.Liveness"
        self.liveness = liveness
        return self
