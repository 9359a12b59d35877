"""`ipu.image_ops`: images as networks want them."""

from __future__ import annotations

from typing import Any


def normalise_image(image: Any, channel_offsets: Any, channel_scales: Any, scale: float = 1, name: str = "") -> Any:
    """(image * scale - offset) * channel scale, with a fourth channel of zeros."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import array_ops, math_ops

    value = ops.convert_to_tensor(image)
    if value.shape.rank is None or value.shape.rank < 1 or value.shape[-1] != 3:
        raise ValueError(f"The image has 3 channels as its last dimension, and this one has shape {value.shape}.")
    kind = dtypes.float32 if value.dtype in (dtypes.float32, dtypes.uint8) else value.dtype
    offsets = ops.convert_to_tensor(channel_offsets)
    kind = offsets.dtype if value.dtype == dtypes.uint8 else kind
    for given, what in ((offsets, "channel_offsets"), (ops.convert_to_tensor(channel_scales), "channel_scales")):
        if given.shape.as_list() != [3]:
            raise ValueError(f"{what} has one entry for each of 3 channels, and its shape is {given.shape}.")
    made = (math_ops.cast(value, kind) * math_ops.cast(scale, kind) - math_ops.cast(offsets, kind)) * math_ops.cast(
        channel_scales, kind
    )
    padding = [[0, 0]] * (value.shape.rank - 1) + [[0, 1]]
    return array_ops.pad(made, padding)
