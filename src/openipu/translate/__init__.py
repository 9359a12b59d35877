"""Foreign graph x table -> function over torch ops -> `Program`.

A reader (`translate/onnx/`, later TensorFlow's and Paddle's) delivers a `ForeignGraph`; a table says what each of its
ops is in torch; `interpret` runs the one with the other. Capture then sees an ordinary module.
"""

from openipu.translate.foreign import ForeignGraph, ForeignNode, Place, TensorType, Weight
from openipu.translate.interpret import DEEPEST_BODY
from openipu.translate.kit.resize import Axis as ResizeAxis
from openipu.translate.kit.resize import Sampling, resize
from openipu.translate.kit.seeded import make_bits
from openipu.translate.module import ForeignModule, Goal
from openipu.translate.rules import Results, Rule, Table, collect
from openipu.translate.site import Site

__all__ = [
    "DEEPEST_BODY",
    "ForeignGraph",
    "ForeignModule",
    "ForeignNode",
    "Goal",
    "Place",
    "ResizeAxis",
    "Results",
    "Rule",
    "Sampling",
    "Site",
    "Table",
    "TensorType",
    "Weight",
    "collect",
    "make_bits",
    "resize",
]
