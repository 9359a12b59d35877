"""Temporary bytes of a plan on the fullest tile: what `availableMemoryProportion` bounds, and what is really scratch.

In: sizes on the tile. Out: bytes that live only while the op runs. The bound is the vendor's own: it counts operands in
full, also the part that lies on the tile already. Scratch counts only what arrives, because the rest is a variable.
"""

from __future__ import annotations

from openipu.ops.linear.figures import Figures
from openipu.ops.linear.kernels import Floats, Ints


def temporary_bytes(
    *,
    input_elements: Ints,
    weight_elements: Ints,
    partial_elements: Ints,
    reduction_buffer_bytes: Floats,
    accumulator_bytes: float,
    transform_bytes: float,
    figures: Figures,
) -> Floats:
    """The larger of multiplying and reducing, on top of what lives throughout.

    A rearranged operand is counted twice: what arrives, and what is written in the new order.
    """
    partial_bytes = partial_elements * figures.partial_bytes
    operand_bytes = (input_elements + weight_elements) * figures.element_bytes
    working = partial_bytes + operand_bytes
    reducing = partial_bytes + reduction_buffer_bytes
    larger: Floats = working + (reducing - working).clip(min=0)
    return larger + accumulator_bytes + 2 * transform_bytes


def scratch_bytes(
    *,
    arriving_bytes: float,
    operand_bytes: float,
    partial_bytes: float,
    reduction_buffer_bytes: float,
    bound_bytes: float,
    is_serial: bool,
    partials_are_result: bool,
) -> float:
    """What a plan takes beyond its operands and its result.

    A serial plan works on slices, which are copies whatever lies where. Partials that nobody sums are the result.
    """
    if is_serial:
        return bound_bytes
    held_partials = 0.0 if partials_are_result else partial_bytes
    working = arriving_bytes + held_partials
    full_working = operand_bytes + partial_bytes
    full_reducing = partial_bytes + reduction_buffer_bytes
    rest = bound_bytes - max(full_working, full_reducing)  # accumulators and rearranged operands
    return max(working, held_partials + reduction_buffer_bytes) + rest
