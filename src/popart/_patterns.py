"""`popart.Patterns`: rewrites of PopART's graphs, by name.

In: a level, or names. Out: which are on. openipu rewrites graphs in passes of its own, whatever is chosen here: results
are the same. Names and their rules are kept, since programs set and ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart._enumerations.sessions import PatternsLevel
from popart._exceptions import popart_exception

_MANDATORY = (
    *(
        "AbsGradOp",
        "SinGradOp",
        "AllReduceToIdentity",
        "Atan2Arg0GradOp",
        "Atan2Arg1GradOp",
        "ConvDataGrad",
        "ConvFlipWeightsGradOp",
    ),
    *("ConvTranspose", "CosGradOp", "CoshOp", "DivArg0GradOp", "DivArg1GradOp", "ExpGradOp", "Expm1GradOp"),
    *("FmodArg0GradOp", "Log1pGradOp", "LogGradOp", "LoopScanOut", "MatMulLhsGradOp", "MatMulOp", "MatMulRhsGradOp"),
    *("MulArgGradOp", "PowArg0GradOp", "PowArg1GradOp", "ReciprocalGradOp", "ScanToLoop", "SqrtGradOp"),
    "SubtractArg1GradOp",
)
_USUAL = (
    *("AdamDecompose", "AdaptiveDecompose", "ContiguateIpuCopyIndicesPattern", "ConvFlipWeightsDoubleFlip"),
    *("DecomposeBinaryConstScalar", "ExpandCast", "InitAccumulate", "LambSerialisedWeight", "NegativeOneScale"),
    *("NlllWithSoftmaxGradDirect", "OpToIdentity", "PackedDataBlock", "PadSum", "PostNRepl", "PreUniRepl"),
    *("RemoveUnnecessaryLossGradCast", "SGD0Decompose", "SGD1Decompose", "SGD2Decompose", "SoftmaxGradDirect"),
    *("SplitGradOpToConcat", "SplitOp", "SumToAdd", "TransposeToIdentityOrReshapePattern", "UpsampleToResize"),
    *("ViewSimplifyPattern", "ZerosLikeOpPattern"),
)
_UNUSUAL = ("LSTMOp", "Slice2SliceSubsample", "SplitGather", "TiedGather", "TiedGatherAccumulate")
IN_PLACE = "InPlace"
PRIORITIES = "UpdateInplacePrioritiesForIpu"
KNOWN = (*_MANDATORY, *_USUAL, *_UNUSUAL, IN_PLACE, PRIORITIES)
_OTHER_NAMES = {  # attributes that are spelt otherwise than the pattern
    "SoftMaxGradDirect": "SoftmaxGradDirect",
    "NlllWithSoftMaxGradDirect": "NlllWithSoftmaxGradDirect",
}
ATTRIBUTES = (
    *("PreUniRepl", "PostNRepl", "SoftMaxGradDirect", "NlllWithSoftMaxGradDirect", "OpToIdentity"),
    *("SubtractArg1GradOp", "MulArgGradOp", "MatMulOp", "MatMulLhsGradOp", "MatMulRhsGradOp", "InPlace"),
)


class Patterns:
    """Which patterns are on: of a level, or those that are named."""

    _on: dict[str, bool]
    _asserts: bool

    def __init__(self, level: PatternsLevel | Sequence[str] = PatternsLevel.Default, **others: Any) -> None:
        chosen = others.pop("patterns", level)
        object.__setattr__(self, "_asserts", True)
        object.__setattr__(self, "_on", {})
        if isinstance(chosen, PatternsLevel):
            self._on.update(_choose_level(chosen))
        else:
            for name in chosen:
                _check_name(name)
                self._on[name] = True

    def __getattr__(self, name: str) -> bool:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in ATTRIBUTES:
            raise AttributeError(f"'Patterns' object has no attribute {name!r}")
        return self._on.get(_OTHER_NAMES.get(name, name), False)

    def __setattr__(self, name: str, value: bool) -> None:
        if name not in ATTRIBUTES:
            raise AttributeError(f"'Patterns' object has no attribute {name!r}")
        self.enablePattern(_OTHER_NAMES.get(name, name), value)

    def isPatternEnabled(self, name: str) -> bool:
        """Is a pattern on?"""
        _check_name(name)
        return self._on.get(name, False)

    def enablePattern(self, name: str, enable: bool) -> Patterns:
        """Turn a pattern on or off. Those that PopART cannot do without stay on."""
        _check_name(name)
        if not enable and self._asserts and name in _MANDATORY:
            raise popart_exception(f"Pattern '{name}' is mandatory and cannot be disabled")
        self._on[name] = bool(enable)
        return self

    def enableRuntimeAsserts(self, enable: bool) -> Patterns:
        """Whether mandatory patterns are insisted on."""
        object.__setattr__(self, "_asserts", bool(enable))
        return self

    def _check(self) -> None:
        """Refuse a session without a pattern that PopART cannot do without."""
        for name in _MANDATORY if self._asserts else ():
            if not self._on.get(name, False):
                raise popart_exception(
                    f"Pattern '{name}' must be enabled. Turn it on, or call enableRuntimeAsserts(False)."
                )

    def __repr__(self) -> str:
        return " ".join(name for name, on in self._on.items() if on)


def _check_name(name: str) -> None:
    if name not in KNOWN:
        hint = ", did you mean InPlace?" if name.lower() == "inplace" else f". Known are {', '.join(KNOWN)}."
        raise popart_exception(f"Unknown pattern {name}{hint}")


def _choose_level(level: PatternsLevel) -> dict[str, bool]:
    names = (*_MANDATORY, *_USUAL, *_UNUSUAL)
    if level is PatternsLevel.NoPatterns:
        return {}
    if level is PatternsLevel.All:
        return dict.fromkeys((*names, IN_PLACE, PRIORITIES), True)
    if level is PatternsLevel.Minimal:
        return {name: name in _MANDATORY for name in names}
    return {**{name: name not in _UNUSUAL for name in names}, IN_PLACE: True}
