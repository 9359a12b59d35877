"""The figures of a machine that a matmul or convolution plan depends on, as one hashable key.

In: a `CostContext` and the number format. Out: `Figures`. Everything below this module reads `Figures` alone, so plans
can be cached: a `Target` carries its sources and cannot be hashed.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.errors import PlanError
from openipu.ops.cost import CostContext

COEFFICIENT_BYTES_PER_UNIT = 32  # 32 float8, 16 half or 8 float32 weights
FLOAT8_ARCHITECTURES = ("ipu21",)  # elsewhere float8 operands are multiplied as half
FLOAT_CYCLES_PER_ROW = 8  # one worker, 8 input channels
HALF_CYCLES_PER_ROW = 4  # one worker, 16 input channels

# What the formulas divide by. A catalog file is checked when it is read, a target made in code only here.
_ABOVE_ZERO = (
    "workers_per_tile",
    "amp_coefficient_load_bytes_per_cycle",
    "exchange_bytes_per_cycle",
    "tile_memory_bytes",
    "vector_bytes",
    "store_bytes_per_cycle",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One chip as the planner sees it, for one number format."""

    architecture: str
    half: bool
    float8: bool
    half_partials: bool
    tiles: int
    workers: int
    amp_units: int
    coefficient_load_bytes_per_cycle: int
    exchange_bytes_per_cycle: float
    exchange_sharing_tiles: int
    tile_memory_bytes: int
    vector_bytes: int
    store_bytes_per_cycle: int
    launch_cycles: float
    compute_scale: float
    few_channel_scale: float = 1.0

    @property
    def element_bytes(self) -> int:
        if self.float8:
            return 1
        return 2 if self.half else 4

    @property
    def partial_bytes(self) -> int:
        return 2 if self.half_partials else 4

    @property
    def result_bytes(self) -> int:
        """Products of float8 come out in half."""
        return 2 if self.half or self.float8 else 4

    @property
    def in_channel_block(self) -> int:
        """Input channels of one coefficient block."""
        if self.float8:
            return 32
        return 16 if self.half else 8

    @property
    def cycles_per_row(self) -> int:
        """One row of one coefficient block through the AMP units."""
        return HALF_CYCLES_PER_ROW if self.half else FLOAT_CYCLES_PER_ROW

    @property
    def coefficient_load_cycles(self) -> float:
        """Filling all units with one coefficient block."""
        return self.amp_units * COEFFICIENT_BYTES_PER_UNIT / self.coefficient_load_bytes_per_cycle

    @property
    def peak_flops_per_cycle(self) -> float:
        """Of all tiles; zero for a machine without AMP units."""
        return 2 * self.amp_units * self.in_channel_block / self.cycles_per_row * self.tiles


def read_figures(context: CostContext, *, half: bool, float8: bool = False, name: str = "") -> Figures:
    """Picks what matters for this number format, and refuses a machine that cannot compute."""
    target = context.target
    where = f" for {name}" if name else ""
    if context.tiles < 1:
        raise PlanError(
            f"No tile of {target.name} is left to compute on{where}: {context.tiles} available. "
            "Reserve fewer tiles for I/O."
        )
    for field in _ABOVE_ZERO:
        value = getattr(target, field)
        if value <= 0:
            raise PlanError(f"Target {target.name} has {field} = {value}{where}. Give it a value above zero.")
    half_partials = half and (context.half_partials or float8)  # Poplibs sums float8 products in half only
    if not half:
        units = target.amp_units_float
    else:
        units = target.amp_units_half_half_partials if half_partials else target.amp_units_half
    return Figures(
        architecture=target.architecture,
        half=half,
        float8=float8 and target.architecture in FLOAT8_ARCHITECTURES,
        half_partials=half_partials,
        tiles=context.tiles,
        workers=target.workers_per_tile,
        amp_units=units,
        coefficient_load_bytes_per_cycle=target.amp_coefficient_load_bytes_per_cycle,
        exchange_bytes_per_cycle=target.exchange_bytes_per_cycle,
        exchange_sharing_tiles=max(1, target.exchange_sharing_tiles),
        tile_memory_bytes=target.tile_memory_bytes,
        vector_bytes=target.vector_bytes,
        store_bytes_per_cycle=target.store_bytes_per_cycle,
        launch_cycles=target.phase_launch_cycles,
        compute_scale=target.compute_scale,
        few_channel_scale=target.few_channel_scale,
    )
