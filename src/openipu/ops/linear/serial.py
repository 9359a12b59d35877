"""The loop around a multiply that takes channels in turns to save memory.

In: a `Variant` with its serial splits. Out: cycles of the slices and updates of one pass, and the bytes of the
accumulator that lives through the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.ops.linear.figures import Figures
from openipu.ops.linear.variants import Variant

_CALL_CYCLES = 25  # supervisor
_WORKER_CYCLES = 63


@dataclass(frozen=True, slots=True)
class SerialLoop:
    """One pass; all zero when the loop runs once."""

    slice_weights_cycles: float = 0.0
    slice_inputs_cycles: float = 0.0
    update_cycles: float = 0.0  # writes the slice of the result, or adds to all of it
    accumulator_bytes: float = 0.0

    @property
    def cycles(self) -> float:
        return self.slice_weights_cycles + self.slice_inputs_cycles + self.update_cycles


def price_serial_loop(variant: Variant, figures: Figures) -> SerialLoop:
    """Slices are cut from operands as they rest, spread over all tiles, before they are sent where they are used."""
    if variant.serial == 1:
        return SerialLoop()
    view, passes = variant.view, variant.serial
    call = _CALL_CYCLES + figures.workers * _WORKER_CYCLES
    vectors_per_element = figures.element_bytes / figures.vector_bytes
    weights_held = view.weight_elements / figures.tiles
    result_held = view.result_elements / figures.tiles
    result_vectors = result_held * figures.partial_bytes / figures.vector_bytes
    slice_weights = call + 2 * vectors_per_element * weights_held / passes
    if variant.serial_out > 1:
        return SerialLoop(slice_weights, 0.0, call + 2 * result_vectors / passes, 0.0)
    slice_inputs = call + 2 * vectors_per_element * view.input_elements / figures.tiles / passes
    # Every pass adds to the whole result: two loads and a store a vector.
    return SerialLoop(slice_weights, slice_inputs, call + 3 * result_vectors, result_held * figures.partial_bytes)
