"""Values of optimizers: a number that is compiled in, or one that the host may change; for all weights or for one.

In: `(number, is constant)` pairs by key, as scripts write them. Out: `OptimizerValue`s, and what of a new optimizer may
take the place of an old one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popart._exceptions import popart_exception

CONSTANTS_DIFFER = "Values are constant but do not match."
NOT_CONSTANT = "Can not replace a constant value with a non constant value."


class OptimizerValue:
    """A number in float32, and whether it stays what it is."""

    def __init__(self, val: float | tuple[float, bool] = 0.0, isConst: bool = True) -> None:
        if isinstance(val, tuple):
            val, isConst = val
        self._value = float(np.float32(val))
        self._constant = bool(isConst)

    def val(self) -> float:
        return self._value

    def isConst(self) -> bool:
        return self._constant

    def validReplacement(self, other: OptimizerValue) -> None:
        """Raise where the other value cannot be set in a program that was compiled with this one."""
        if self._constant != other._constant:
            raise popart_exception(NOT_CONSTANT)
        if self._constant and self._value != other._value:
            raise popart_exception(CONSTANTS_DIFFER)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptimizerValue):
            return NotImplemented
        return (self._constant, self._constant and self._value) == (other._constant, other._constant and other._value)

    def __hash__(self) -> int:
        return hash((self._constant, self._constant and self._value))

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value!r}, isConst={self._constant})"


class OptimizerValueMap:
    """One value of an optimizer: for all weights, and for those that have their own."""

    def __init__(self, default: OptimizerValue) -> None:
        self._default = default
        self._specific: dict[str, OptimizerValue] = {}

    def getDefault(self) -> OptimizerValue:
        return self._default

    def get(self, weight: str) -> OptimizerValue:
        return self._specific.get(weight, self._default)

    def hasSpecific(self, weight: str | None = None) -> bool:
        return bool(self._specific) if weight is None else weight in self._specific

    def insertSpecific(self, weight: str, value: OptimizerValue) -> None:
        self._specific[weight] = value

    def validReplacement(self, other: OptimizerValueMap) -> None:
        """Raise where the other's values cannot be set in a program that was compiled with these."""
        try:
            self._default.validReplacement(other._default)
        except popart_exception as error:
            raise popart_exception(f"Default value is not a valid replacement. {error}") from error
        if self._specific.keys() != other._specific.keys():
            raise popart_exception(
                f"The new optimizer has values of their own for {sorted(other._specific) or 'no tensors'}, and the "
                f"program was compiled with such for {sorted(self._specific) or 'none'}."
            )
        for weight, value in self._specific.items():
            try:
                value.validReplacement(other._specific[weight])
            except popart_exception as error:
                raise popart_exception(f"The value for tensor {weight} is not a valid replacement. {error}") from error


def read_values(given: Mapping[str, Any]) -> dict[str, OptimizerValue]:
    """Check and convert what a script passed."""
    if not isinstance(given, Mapping):
        raise TypeError(f"An optimizer takes a dict of (value, is constant) tuples, not {type(given).__name__}.")
    values = {}
    for key, pair in given.items():
        if not isinstance(key, str):
            raise popart_exception(f"A key of an optimizer's values must be a str, not {key!r}.")
        if not isinstance(pair, tuple):
            raise popart_exception(
                f"The value of {key} must be a tuple of a number and whether it is constant, such as (0.1, False), "
                f"not {pair!r}."
            )
        if len(pair) != 2:
            raise RuntimeError(f"The value of {key} must be a tuple of a number and a bool, not {pair!r}.")
        values[key] = OptimizerValue(*pair)
    return values


def check_keys(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Refuse keys that nobody would read."""
    for key in given:
        if key not in known:
            raise popart_exception(f"Invalid key {key} in {what}. Permitted keys are ( {' '.join(known)} )")
