"""The prefixes of PopART's own tensors, as functions: `reservedGradientPrefix()` and its kin.

In: nothing. Out: one function for each prefix. Default and specific ones differ in their ending only.
"""

from __future__ import annotations

from collections.abc import Callable

_SINGLE = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "AcclToReduce": "AcclIntoReduce___",
    "AcclToUpdate": "AcclIntoUpdate___",
    "AcclFinalOut": "AcclOutOfAcclUpdate___",
    "FinalReducedGrad": "FinalReducedGradient___",
    "AdamUpdater": "AdamUpdater___",
    "LambR1Sq": "LambR1Sq___",
    "LambR2Sq": "LambR2Sq___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "SeedModifier": "randomSeedModifier___",
    "RemoteArg": "RemoteArg___",
    "AutomaticLossScale": "AutomaticLossScaleProxy___",
}
_OF_VALUES = (
    *("WeightDecayScaleFactor0", "ScaledLearningRate0", "ScaledWeightDecay1", "ScaledLearningRate1"),
    *("DampeningScaleFactor1", "ScaledMomentum1", "LearningRate", "WeightDecay", "LossScaling", "MaxWeightNorm"),
    *("AdamBeta1", "AdamBeta2", "AdamEps", "Step"),
)


def _list_prefixes() -> dict[str, str]:
    found = {f"reserved{name}Prefix": prefix for name, prefix in _SINGLE.items()}
    for name in _OF_VALUES:
        small = name[0].lower() + name[1:]
        found[f"reservedDefault{name}Prefix"] = f"{small}___default___"
        found[f"reservedSpecific{name}Prefix"] = f"{small}___specific___"
    return found


def _make(name: str, prefix: str) -> Callable[[], str]:
    def answer() -> str:
        return prefix

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f'"{prefix}"'
    return answer


PREFIXES = {name: _make(name, prefix) for name, prefix in _list_prefixes().items()}
GRADIENT = _SINGLE["Gradient"]
UPDATED = _SINGLE["UpdatedVar"]
ACCUMULATOR = _SINGLE["Accum"]
RESTORED = _SINGLE["Restored"]
