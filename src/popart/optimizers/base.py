"""What all optimizers of PopART have in common.

In: values by key, with those of single weights. Out: `OptimizerValueMap`s by field, and whether another optimizer may
take this one's place in a compiled program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from openipu.capture import compute_hyper_parameters, describe_groups
from openipu.graph import OptimizerGroup, OptimizerKind
from popart._enumerations.tensors import DataType
from popart._exceptions import popart_exception
from popart.optimizers.clipping import ClipNormSettings, read_settings
from popart.optimizers.values import OptimizerValue, OptimizerValueMap, check_keys, read_values

__all__ = ["Field", "Optimizer", "compute_hyper_parameters", "to_torch"]

_TORCH = {DataType.FLOAT: torch.float32, DataType.FLOAT16: torch.float16}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an optimizer: its key for all weights, for one weight, and in words."""

    default_key: str
    specific_key: str
    words: str
    unset: float
    replaceable: bool = True  # a replacement is checked


class Optimizer:
    """Values by field; a loss scale; gradients to clip."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    NAME: ClassVar[str] = "Optimizer"
    LOSS_SCALING: ClassVar[str] = "lossScaling"

    def __init__(
        self,
        given: Mapping[str, Any],
        clip_norm_settings: Iterable[ClipNormSettings] = (),
    ) -> None:
        values = read_values(given)
        keys = [*(field.default_key for field in self.FIELDS), self.LOSS_SCALING]
        check_keys(values, keys, f"popart.{self.NAME}")
        self._loss_scaling = values.get(self.LOSS_SCALING, OptimizerValue(1.0))
        if not self._loss_scaling.val() or self._loss_scaling.val() != self._loss_scaling.val():
            raise popart_exception("Loss scaling cannot be 0")
        self._values = {
            field.specific_key: OptimizerValueMap(values.get(field.default_key, OptimizerValue(field.unset)))
            for field in self.FIELDS
        }
        self._clipping = read_settings(clip_norm_settings)
        self._check({name: entry.getDefault() for name, entry in self._values.items()})

    def insertSpecific(self, weight: str, given: Mapping[str, Any]) -> None:
        """Give one weight values of its own; what is not named is as for all others."""
        values = read_values(given)
        check_keys(values, list(self._values), f"{self.NAME}::insertSpecific")
        complete = {name: values.get(name, entry.getDefault()) for name, entry in self._values.items()}
        if any(entry.hasSpecific(weight) for entry in self._values.values()):
            raise popart_exception(
                f"Tensor {weight} has values of its own in this optimizer already: insert all of them at once."
            )
        for name, value in complete.items():
            self._values[name].insertSpecific(weight, value)
        self._check(complete)

    def hasSpecific(self, weight: str | None = None) -> bool:
        """Whether this weight, or any, has values of its own."""
        return any(entry.hasSpecific(weight) for entry in self._values.values())

    def learningRates(self) -> OptimizerValueMap:
        return self._values["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        return self._values["weightDecay"]

    def getLossScalingVal(self) -> float:
        return self._loss_scaling.val()

    # What a session asks ------------------------------------------------------------------------------------------

    @property
    def loss_scaling(self) -> OptimizerValue:
        return self._loss_scaling

    @property
    def clipping(self) -> tuple[ClipNormSettings, ...]:
        return self._clipping

    @property
    def accumulator_dtype(self) -> torch.dtype | None:
        """Of gradients that are added up; None: as the weight."""
        raise NotImplementedError

    @property
    def kind(self) -> OptimizerKind:
        raise NotImplementedError

    def list_settings(self, weight: str) -> dict[str, Any]:
        """The values of a weight, as openipu names them."""
        raise NotImplementedError

    def list_variable(self, weight: str) -> frozenset[str]:
        """Names of openipu's settings that the host may change even where they change the graph's shape."""
        names = {"weightDecay": "weight_decay", "momentum": "momentum"}
        return frozenset(
            name for own, name in names.items() if own in self._values and not self._values[own].get(weight).isConst()
        )

    def list_state_dtypes(self) -> dict[str, torch.dtype]:
        """Types of state that were asked for, by openipu's names; all other state is as its weight."""
        raise NotImplementedError

    def name_state(self, slot: str) -> str:
        """The prefix that PopART has for a kind of state."""
        raise NotImplementedError

    def list_scalars(self, weight: str, factors: Factors) -> dict[str, tuple[float, bool]]:
        """Scalars of the update that are tensors of their own: name -> value, and whether it is constant."""
        raise NotImplementedError

    def value(self, field: str, weight: str) -> OptimizerValue:
        return self._values[field].get(weight)

    def describe_group(self, weights: Iterable[str], first: str) -> OptimizerGroup:
        """Weights that share the values of the first one."""
        [group] = describe_groups(self.kind, [list(weights)], [self.list_settings(first)], self.list_variable(first))
        return group

    def check_replacement(self, other: Optimizer) -> None:
        """Raise where the other optimizer cannot be set in a program that was compiled with this one."""
        if len(self._clipping) != len(other._clipping):
            raise popart_exception("Clip norm settings do not match.")
        for index, (one, another) in enumerate(zip(self._clipping, other._clipping, strict=True)):
            if one != another:
                raise popart_exception(f"Clip norm settings at index {index} do not match.")
        if not isinstance(other, Optimizer) or type(self).NAME != type(other).NAME:
            raise popart_exception(
                f"Can not replace optimizer of type {self.NAME} with new optimizer of type {type(other).NAME}"
            )
        self._check_variant(other)
        self._compare("loss scaling", self._loss_scaling, other._loss_scaling)
        for field in self.FIELDS:
            if field.replaceable:
                self._compare(field.words, self._values[field.specific_key], other._values[field.specific_key])

    def _check_variant(self, other: Any) -> None:
        """Raise where the other is of another mode."""

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        """Raise where values make no sense."""
        rate = values["learningRate"]
        if rate.val() < 0:
            raise popart_exception(f"Negative learning rate ({rate.val():g}) in {self.NAME}: check its sign.")
        if rate.val() == 0 and rate.isConst():
            raise popart_exception(
                f"Constant, zero learning rate in {self.NAME}: nothing would ever be learnt. Make it (0.0, False) "
                "if it is to change later."
            )
        for field in self.FIELDS:
            value = values[field.specific_key].val()
            if field.specific_key == "eps" and value <= 0:
                raise popart_exception(f"Non-positive eps ({value:g}) in {self.NAME} is not supported")
            if field.specific_key not in ("learningRate", "nesterov", "maxWeightNorm") and value < 0:
                raise popart_exception(f"Negative {field.words} ({value:g}) in {self.NAME}: check its sign.")

    @staticmethod
    def _compare(words: str, old: Any, new: Any) -> None:
        try:
            old.validReplacement(new)
        except popart_exception as error:
            raise popart_exception(f"Problem with {words}. {error}") from error


@dataclass(frozen=True, slots=True)
class Factors:
    """How many gradients an update is made of, as far as its scalars say."""

    accumulates: bool = False
    accumulation: int = 1
    replicas: int = 1
    mean: bool = False
    divides_last: bool = True  # a mean is divided after all gradients were added

    @property
    def after_accumulation(self) -> int:
        return self.accumulation if self.accumulates and self.mean and self.divides_last else 1

    @property
    def after_replication(self) -> int:
        return self.replicas if self.replicas > 1 and self.mean and self.divides_last else 1


def to_torch(given: DataType, what: str) -> torch.dtype | None:
    """The type of state or accumulators; None: as the weight."""
    chosen = DataType(given)
    if chosen is DataType.UNDEFINED:
        return None
    if chosen not in _TORCH:
        raise popart_exception(f"{what} can be FLOAT, FLOAT16 or UNDEFINED (as the weight), not {chosen.name}.")
    return _TORCH[chosen]
