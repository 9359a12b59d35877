"""Temporary bytes of a plan on the fullest tile: what `availableMemoryProportion` bounds, and what is really scratch.

In: sizes on the tile. Out: bytes that live only while the op runs. The bound is the vendor's own: it counts operands in
full. Scratch leaves out what is worked on where it lies, because that is a variable.
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
    input_bytes: float,
    weight_bytes: float,
    partial_bytes: float,
    reduction_buffer_bytes: float,
    bound_bytes: float,
    inputs_lie_ready: bool,
    weights_lie_ready: bool,
    partials_are_result: bool,
) -> float:
    """What a plan takes beyond its operands and its result; operands are those that the tile works on in one pass.

    A vertex reads an operand from one stretch of memory. So an operand of which any part arrives, or is cut from a
    larger one, is held once more in full, also the part that lay on the tile. Partials that nobody sums are the result.
    """
    held_partials = 0.0 if partials_are_result else partial_bytes
    working = held_partials
    working += 0.0 if inputs_lie_ready else input_bytes
    working += 0.0 if weights_lie_ready else weight_bytes
    reducing = held_partials + reduction_buffer_bytes
    counted = max(input_bytes + weight_bytes + partial_bytes, partial_bytes + reduction_buffer_bytes)
    rest = bound_bytes - counted  # accumulators and rearranged operands
    return max(working, reducing) + rest
