"""On-tile speed of elementwise vertices, as data: cycles of one worker for so many elements.

In: nothing. Out: one `Kernel` an operation, for half, float and whole numbers.
Published rates are those of the Poplibs cycle estimators (popops, popnn; SDK 3.3). An operation that Poplibs builds
from several is the sum of its parts ("derived"), as a generated vertex that runs them one after another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from openipu.machine import Provenance

Rate = tuple[int, int]  # cycles, elements: 3, 4 is three cycles for a vector of four

_WHOLE: Rate = (7, 1)  # published: integer operations
UNARY_SETUP_CYCLES = 17  # published: a worker's fixed part, one operand
EXPONENTIAL_SETUP_CYCLES = 33  # published: the same for exp-like operations


_MOVES = ("Copy", "Fill", "Select")


@dataclass(frozen=True, slots=True)
class Part:
    """One operation in a vertex."""

    half: Rate
    single: Rate
    whole: Rate = _WHOLE

    def rate(self, dtype: torch.dtype) -> Rate:
        if dtype is torch.float16:
            return self.half
        return self.single if dtype.is_floating_point else self.whole


@dataclass(frozen=True, slots=True)
class Kernel:
    """A vertex that touches each element once."""

    vertex: str
    parts: tuple[Part, ...]
    setup_cycles: int = UNARY_SETUP_CYCLES
    provenance: Provenance = Provenance.PUBLISHED

    @property
    def flops_per_element(self) -> int:
        """Operations an element; moving and choosing are none."""
        return 0 if self.vertex.startswith(_MOVES) else len(self.parts)


def _published(vertex: str, half: Rate, single: Rate, whole: Rate = _WHOLE, setup: int = UNARY_SETUP_CYCLES) -> Kernel:
    return Kernel(vertex, (Part(half, single, whole),), setup)


def _guessed(vertex: str, half: Rate, single: Rate, whole: Rate = _WHOLE) -> Kernel:
    return Kernel(vertex, (Part(half, single, whole),), provenance=Provenance.GUESSED)


def weakest(provenances: Iterable[Provenance]) -> Provenance:
    """What a sum is worth: guessed if any part is, else derived if any is."""
    found = set(provenances)
    for worst in (Provenance.GUESSED, Provenance.DERIVED, Provenance.USER):
        if worst in found:
            return worst
    return Provenance.PUBLISHED


def fuse(vertex: str, *kernels: Kernel) -> Kernel:
    """One vertex that does the work of several after another."""
    return Kernel(
        vertex,
        tuple(part for kernel in kernels for part in kernel.parts),
        max(kernel.setup_cycles for kernel in kernels),
        weakest([Provenance.DERIVED, *(kernel.provenance for kernel in kernels)]),
    )


def stand_in(vertex: str, kernel: Kernel) -> Kernel:
    """An operation without a rate of its own, judged to cost what a similar one does: a guess, whatever that one is."""
    return replace(kernel, vertex=vertex, provenance=Provenance.GUESSED)


# Published rates.                    half      float
ADD = _published("Add", (3, 4), (3, 2))
MULTIPLY = _published("Multiply", (3, 4), (3, 2))
SCALED_ADD = _published("ScaledAdd", (3, 4), (3, 2))  # two cycles when operands lie in different memory elements
MAXIMUM = _published("Maximum", (4, 4), (3, 2))
DIVIDE = _published("Divide", (21, 4), (10, 2))
COMPARE = _published("Compare", (9, 4), (14, 4))
SQUARE = _published("Square", (2, 4), (2, 2))
NEGATE = _published("Negate", (2, 4), (2, 2))
SQRT = _published("Sqrt", (23, 4), (10, 2))
RSQRT = _published("Rsqrt", (19, 4), (8, 2))
INVERSE = _published("Inverse", (15, 4), (6, 2))
EXP = _published("Exp", (4, 4), (6, 2), setup=EXPONENTIAL_SETUP_CYCLES)
LOG = _published("Log", (4, 4), (12, 2), setup=EXPONENTIAL_SETUP_CYCLES)
TANH = _published("Tanh", (4, 4), (12, 2), setup=EXPONENTIAL_SETUP_CYCLES)
SIGMOID = _published("Sigmoid", (6, 4), (12, 2), setup=EXPONENTIAL_SETUP_CYCLES)
RELU = _published("Relu", (3, 4), (3, 2))
GELU = _published("Gelu", (5, 4), (10, 2), setup=EXPONENTIAL_SETUP_CYCLES)  # popnn's, which PopTorch uses
SWISH = _published("Swish", (5, 4), (11, 2), setup=EXPONENTIAL_SETUP_CYCLES)
EXACT_GELU = _published("ExactGelu", (16, 1), (22, 1), setup=EXPONENTIAL_SETUP_CYCLES)  # by the error function
ERF = _published("Erf", (13, 1), (41, 1), setup=EXPONENTIAL_SETUP_CYCLES)
SINE = _published("Sin", (25, 1), (2300, 1), setup=EXPONENTIAL_SETUP_CYCLES)
BROADCAST_ADD = _published("BroadcastAdd", (2, 4), (2, 2))  # bias add: two cycles a vector
BROADCAST_MULTIPLY = _published("BroadcastMultiply", (2, 4), (2, 2))

# Derived from the width of loads and stores: eight bytes a cycle.
COPY = Kernel("Copy", (Part((1, 4), (1, 2), (1, 2)),), provenance=Provenance.DERIVED)
FILL = Kernel("Fill", (Part((1, 4), (1, 2), (1, 2)),), provenance=Provenance.DERIVED)

# No source: judged from the published neighbours.
ABSOLUTE = _guessed("Absolute", (2, 4), (2, 2), (2, 1))  # clears a bit, as negate flips one
LOGIC = _guessed("Logic", (3, 4), (3, 2), (3, 4))  # bytes of truth values, four at a time
SELECT = _guessed("Select", (5, 4), (5, 2), (5, 1))  # reads a byte of condition for each element
ROUND = stand_in("Round", COMPARE)  # no vector instruction
SIGN = stand_in("Sign", COMPARE)
IS_NAN = stand_in("IsNan", COMPARE)
COMPLEMENT_ERF = stand_in("Erfc", ERF)
INDEX = _guessed("Index", (7, 1), (7, 1))  # computes its value from the position
LOG_GAMMA = _guessed("LogGamma", (100, 1), (100, 1))  # a polynomial of about 25 steps

# Sums of published rates.
SUBTRACT_SQUARE = fuse("SubtractSquare", ADD, SQUARE)
SUBTRACT_ABSOLUTE = fuse("SubtractAbsolute", ADD, ABSOLUTE)
CLAMP = fuse("Clamp", MAXIMUM, MAXIMUM)
MULTIPLY_TWICE = fuse("MultiplyTwice", MULTIPLY, MULTIPLY)
CROSS = fuse("Cross", MULTIPLY, MULTIPLY, ADD)
FRACTION = fuse("Fraction", ROUND, ADD)
# One element at a time. In three published pairs BERT takes 0.2 ms a sample longer on C600 with its GELU in parts than
# with one GELU vertex: 45 cycles an element, 6 of which are the other parts. Poplibs' estimators state 312 and 325.
POWER = Kernel("Power", (Part((39, 1), (39, 1)),), provenance=Provenance.DERIVED)
CUBE = fuse("Cube", SQUARE, MULTIPLY)
REMAINDER = fuse("Remainder", DIVIDE, ROUND, MULTIPLY, ADD)
FLOOR_DIVIDE = fuse("FloorDivide", DIVIDE, ROUND)
LOG1P = fuse("Log1p", ADD, LOG)
EXPM1 = fuse("Expm1", EXP, ADD)
LOG_SCALED = fuse("LogScaled", LOG, MULTIPLY)
EXP_SCALED = fuse("ExpScaled", MULTIPLY, EXP)
TANGENT = fuse("Tan", SINE, SINE, DIVIDE)
ARC_SINE = stand_in("Asin", fuse("Asin", SQUARE, ADD, SQRT, DIVIDE, SINE))
HYPERBOLIC = fuse("Hyperbolic", EXP, INVERSE, ADD, MULTIPLY)
ARC_HYPERBOLIC = fuse("ArcHyperbolic", SQUARE, ADD, SQRT, ADD, LOG)
HYPOT = fuse("Hypot", SQUARE, SQUARE, ADD, SQRT)
LOG_ADD_EXP = fuse("LogAddExp", MAXIMUM, ADD, EXP, ADD, LOG, ADD)
LOGIT = fuse("Logit", ADD, DIVIDE, LOG)
XLOGY = fuse("Xlogy", LOG, MULTIPLY, COMPARE, SELECT)
LERP = fuse("Lerp", ADD, SCALED_ADD)
MULTIPLY_ADD = fuse("MultiplyAdd", MULTIPLY, SCALED_ADD)
DIVIDE_ADD = fuse("DivideAdd", DIVIDE, SCALED_ADD)
BROADCAST_SUBTRACT_MULTIPLY = fuse("BroadcastSubtractMultiply", BROADCAST_ADD, MULTIPLY)
BROADCAST_SCALE_ADD = fuse("BroadcastScaleAdd", BROADCAST_MULTIPLY, BROADCAST_ADD)

# Activations that popnn does not have, and gradients.
ELU = fuse("Elu", EXP, ADD, COMPARE, SELECT)
LEAKY_RELU = fuse("LeakyRelu", MULTIPLY, MAXIMUM)
HARD_SIGMOID = fuse("HardSigmoid", MULTIPLY, ADD, CLAMP)
HARD_SWISH = fuse("HardSwish", HARD_SIGMOID, MULTIPLY)
SOFTPLUS = fuse("Softplus", EXP, LOG1P)
MISH = fuse("Mish", SOFTPLUS, TANH, MULTIPLY)
SHRINK = fuse("Shrink", ABSOLUTE, COMPARE, SELECT)
GLU = fuse("Glu", SIGMOID, MULTIPLY)
MASKED = fuse("Masked", COMPARE, SELECT)
RELU_GRADIENT = _guessed("ReluGradient", (3, 4), (3, 2))  # reads two vectors where relu reads one
TANH_GRADIENT = fuse("TanhGradient", SQUARE, ADD, MULTIPLY)
SIGMOID_GRADIENT = fuse("SigmoidGradient", ADD, MULTIPLY, MULTIPLY)
GELU_GRADIENT = fuse("GeluGradient", GELU, SQUARE, MULTIPLY, ADD, MULTIPLY, ADD, MULTIPLY)
SWISH_GRADIENT = fuse("SwishGradient", SWISH, ADD, MULTIPLY, ADD, MULTIPLY)
ELU_GRADIENT = fuse("EluGradient", EXP, MULTIPLY, COMPARE, SELECT)
SOFTPLUS_GRADIENT = fuse("SoftplusGradient", SIGMOID, MULTIPLY)
MISH_GRADIENT = fuse("MishGradient", MISH, SIGMOID, TANH_GRADIENT, MULTIPLY, ADD)
GLU_GRADIENT = fuse("GluGradient", SIGMOID, MULTIPLY, MULTIPLY, ADD, MULTIPLY)
MASKED_GRADIENT = fuse("MaskedGradient", COMPARE, SELECT, MULTIPLY)
CROSS_ENTROPY = fuse("BinaryCrossEntropy", LOG, MULTIPLY, ADD, LOG, MULTIPLY, ADD)
CROSS_ENTROPY_LOGITS = fuse("BinaryCrossEntropyLogits", MAXIMUM, MULTIPLY, ADD, SOFTPLUS, ADD)
CROSS_ENTROPY_GRADIENT = fuse("BinaryCrossEntropyGradient", ADD, ADD, MULTIPLY, DIVIDE, MULTIPLY)
LOGIT_GRADIENT = stand_in("LogitGradient", CROSS_ENTROPY_GRADIENT)
SMOOTH_L1 = fuse("SmoothL1", SUBTRACT_ABSOLUTE, SQUARE, COMPARE, SELECT)
SMOOTH_L1_GRADIENT = fuse("SmoothL1Gradient", ADD, CLAMP, MULTIPLY)
SQUARE_GRADIENT = fuse("SquareGradient", ADD, MULTIPLY, MULTIPLY)
SOFT_MARGIN = fuse("SoftMargin", MULTIPLY, SOFTPLUS)
SOFT_MARGIN_GRADIENT = fuse("SoftMarginGradient", MULTIPLY, SIGMOID, MULTIPLY, MULTIPLY)
ADAM = fuse("Adam", LERP, SQUARE, SCALED_ADD, SQRT, ADD, DIVIDE, SCALED_ADD, SCALED_ADD)
SGD = fuse("SgdMomentum", SCALED_ADD, SCALED_ADD)
