"""C++ of our own, compiled on the user's machine: each module's `SOURCE`, and the names of its functions."""

from openipu.run.native.sources import (
    convolution,
    draws,
    dropout,
    gelu,
    half_products,
    lstm,
    norms,
    products,
    rounding,
    row,
    tiles,
)

__all__ = [
    "convolution",
    "draws",
    "dropout",
    "gelu",
    "half_products",
    "lstm",
    "norms",
    "products",
    "rounding",
    "row",
    "tiles",
]
