"""`ipu.image_ops`: images as networks want them."""

from __future__ import annotations

from typing import Any


def normalise_image(image: Any, channel_offsets: Any, channel_scales: Any, scale: float = 1, name: str = "") -> Any:
    """(image * scale - offset) * channel scale, with a fourth channel of zeros."""
    from tensorflow.python.framework import dtypes, errors, ops
    from tensorflow.python.ops import array_ops, math_ops

    value = ops.convert_to_tensor(image)
    if value.dtype not in (dtypes.float16, dtypes.float32, dtypes.uint8):
        raise TypeError(f"The image is float16, float32 or uint8, not {value.dtype.name}.")
    channels = value.shape[-1] if value.shape.rank else None
    if channels != 3:
        raise errors.InvalidArgumentError(None, None, f"The image has {channels} channels, expected 3.")
    offsets, scales = ops.convert_to_tensor(channel_offsets), ops.convert_to_tensor(channel_scales)
    for given, what in ((offsets, "channel_offsets"), (scales, "channel_scales")):
        if given.shape.as_list() != [3]:
            problem = f"{what} must be the same size as the number of image channels 3, but was {given.shape}."
            raise errors.InvalidArgumentError(None, None, problem)
    kind = offsets.dtype if value.dtype == dtypes.uint8 else value.dtype
    made = (math_ops.cast(value, kind) * math_ops.cast(scale, kind) - math_ops.cast(offsets, kind)) * math_ops.cast(
        scales, kind
    )
    padding = [[0, 0]] * (value.shape.rank - 1) + [[0, 1]]
    return array_ops.pad(made, padding)
