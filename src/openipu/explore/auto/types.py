"""What the automatic split is about: segments of a program, stages made of them, and the split that was found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from openipu.graph import Recompute, RunOptions, TensorLocation, TensorRole
from openipu.plan import Plan


class Keep(StrEnum):
    """What a training stage keeps of its forward pass for backward."""

    ALL = "all activations"
    STAGE_INPUTS = "stage inputs"  # the rest of the stage is computed again
    LAYER_INPUTS = "layer inputs"  # a checkpoint before every segment: each is computed again by itself

    @property
    def recompute(self) -> Recompute:
        return Recompute.NONE if self is Keep.ALL else Recompute.PIPELINE


class StateHome(StrEnum):
    """Where optimizer state is kept between updates."""

    ON_CHIP = "on chip"
    SHARED = "on chip, one share per replica"
    OFF_CHIP = "off chip"

    def locate(self, replicas: int) -> TensorLocation:
        """The location of optimizer state for so many replicas: what can be shared is shared."""
        return TensorLocation(
            on_chip=self is not StateHome.OFF_CHIP,
            replicated_sharding=self is not StateHome.ON_CHIP and replicas > 1,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring forward ops that stay on one IPU: a layer, an embedding, a head."""

    index: int
    module: str  # "bert.encoder.layer.3"; "" for what belongs to no module
    block: str | None  # the user's block, if any


@dataclass(frozen=True, slots=True)
class Stage:
    """Segments `first` to `last` (both included), on one IPU."""

    first: int
    last: int
    ipu: int

    @property
    def segments(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to cut a chain of segments, and how the pieces run."""

    stages: tuple[Stage, ...]
    proportions: tuple[float, ...]  # available-memory proportion of each IPU
    keep: Keep = Keep.ALL
    state_home: StateHome = StateHome.ON_CHIP

    @property
    def ipus(self) -> int:
        return 1 + max(stage.ipu for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why no layout can fit: what every one of them has to hold. Counted for one replica."""

    least_tile_bytes: int  # the fullest tile of any layout holds at least so many
    limit_tile_bytes: int
    variable_bytes: int  # weights, accumulators and optimizer state, where they are smallest
    ipus: int  # that hold them
    ipu_bytes: int  # what programs may use of one IPU
    module: str | None  # a segment that is too large for an IPU of its own
    module_bytes: int
    any_micro_batch: bool  # variables alone are too large: no micro-batch helps

    @property
    def fewest_ipus(self) -> int:
        """IPUs below which the variables cannot fit."""
        return -(-self.variable_bytes // self.ipu_bytes)


@dataclass(frozen=True, eq=False)
class Split:
    """The split that was found. `plan` is the full plan of it: `plan.fit.fits` says whether it fits."""

    segments: tuple[Segment, ...]
    layout: Layout
    options: RunOptions  # with accumulation, replicas, recomputation, proportions and locations of this split
    micro_batch: int  # samples
    plan: Plan
    plans_made: int  # full plans, the measuring ones included
    most_stages: int  # how finely modules were opened to make the segments
    complete: bool  # every layout was tried or ruled out: where `plan` does not fit, none does
    seconds: float
    timed_out: bool = False  # a limit of time ended the search: more time might find a faster one
    shortage: Shortage | None = None  # the proof, where no layout can fit; None: tried, or not proven

    @property
    def fits(self) -> bool:
        return self.plan.fit.fits

    @property
    def samples_per_second(self) -> float:
        return self.plan.timing.samples_per_second

    @property
    def ipus_per_replica(self) -> int:
        return self.layout.ipus

    @property
    def memory_proportions(self) -> list[float]:
        """One an IPU: `matmul_proportion` of an IPUConfig, `setAvailableMemoryProportion` of PopTorch."""
        return list(self.layout.proportions)

    @property
    def checkpoint_every_layer(self) -> bool:
        return self.layout.keep is Keep.LAYER_INPUTS

    @property
    def recompute(self) -> bool:
        return self.layout.keep is not Keep.ALL

    @property
    def state_off_chip(self) -> bool:
        return self.layout.state_home is StateHome.OFF_CHIP

    def count_layers(self, layer_list: str) -> list[int]:
        """How many members of a module list, such as "bert.encoder.layer", each IPU holds: `layers_per_ipu`."""
        counts = [0] * self.layout.ipus
        seen: set[str] = set()
        prefix = f"{layer_list}."
        for stage in self.layout.stages:
            for index in stage.segments:
                module = self.segments[index].module
                member = module.removeprefix(prefix).partition(".")[0]
                if module.startswith(prefix) and member not in seen:
                    seen.add(member)
                    counts[stage.ipu] += 1
        return counts

    def describe(self) -> str:
        """One line a stage, then how it runs."""
        lines = []
        for number, stage in enumerate(self.layout.stages):
            first, last = self.segments[stage.first].module or "start", self.segments[stage.last].module or "end"
            names = first if first == last else f"{first} … {last}"
            share = self.layout.proportions[stage.ipu]
            lines.append(f"stage {number} on IPU {stage.ipu}: {names} (memory proportion {share:g})")
        run = self.options
        lines.append(
            f"micro-batch {self.micro_batch}, accumulation {run.gradient_accumulation}, replicas {run.replicas}, "
            f"device iterations {run.device_iterations}"
        )
        if run.training:
            state = run.location_of(TensorRole.OPTIMIZER)
            shared = ", one share per replica" if state.replicated_sharding else ""
            lines.append(
                f"kept for backward: {self.layout.keep}; optimizer state "
                f"{'on chip' if state.on_chip else 'off chip'}{shared}"
            )
        return "\n".join(lines)
