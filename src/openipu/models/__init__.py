"""Models that published figures and the garden name, each built once, at any size and in the number formats of an IPU.

In: a `ModelSpec`, which is data. Out: a module and the inputs of one micro-batch. `builders` and `smaller` have one
line a kind; layers stand by what they work on: `images`, `text`, `sound`, `graphs`, `tables`, …
"""

from openipu.models.builders import BUILDERS, build_model
from openipu.models.spec import ModelSpec

__all__ = ["BUILDERS", "ModelSpec", "build_model"]
