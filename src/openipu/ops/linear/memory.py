"""Temporary bytes of a plan on the fullest tile: what `availableMemoryProportion` bounds.

In: sizes on the tile. Out: bytes that live only while the op runs; operands and the result at rest are not counted.
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
