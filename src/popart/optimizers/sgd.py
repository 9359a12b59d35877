"""Stochastic gradient descent as PopART has it.

In: values; whether momentum and accumulated gradients share a tensor. Out: openipu's settings of SGD. Dampening acts
from the first step on, and without momentum too. Combined, the momentum is kept ahead: values take effect one update
later (but for the learning rate).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from openipu.graph import OptimizerKind
from popart._enumerations.tensors import DataType
from popart._enumerations.training import SGDAccumulatorAndMomentum
from popart._exceptions import popart_exception
from popart.optimizers.base import Factors, Field, Optimizer, to_torch
from popart.optimizers.clipping import ClipNormSettings
from popart.optimizers.values import OptimizerValue, OptimizerValueMap

COMBINED = SGDAccumulatorAndMomentum.Combined


class SGD(Optimizer):
    """g += decay w; v = momentum v + (1 - dampening) g; w -= lr v."""

    NAME: ClassVar[str] = "SGD"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("defaultLearningRate", "learningRate", "learning rates", 0.1),
        Field("defaultWeightDecay", "weightDecay", "weight decays", 0.0),
        Field("defaultMomentum", "momentum", "momentums", 0.0),
        Field("defaultDampening", "dampening", "dampenings", 0.0, replaceable=False),
        Field("defaultVelocityScaling", "velocityScaling", "velocity scalings", 1.0),
        Field("nesterov", "nesterov", "nesterov", 0.0),
    )

    def __init__(
        self,
        pyd: Mapping[str, Any],
        clip_norm_settings: Iterable[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = COMBINED,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: object = "sgd",
    ) -> None:
        super().__init__(pyd, clip_norm_settings)
        self._layout = SGDAccumulatorAndMomentum(accumulatorAndMomentum)
        self._accumulator = to_torch(accumType, "accumType")
        self._momentum = to_torch(accl1Type, "accl1Type")

    def momentums(self) -> OptimizerValueMap:
        return self._values["momentum"]

    def dampenings(self) -> OptimizerValueMap:
        return self._values["dampening"]

    def velocityScalings(self) -> OptimizerValueMap:
        return self._values["velocityScaling"]

    def nesterov(self) -> OptimizerValueMap:
        return self._values["nesterov"]

    @property
    def combined(self) -> bool:
        return self._layout is COMBINED

    def has_momentum(self, weight: str) -> bool:
        value = self.value("momentum", weight)
        return not value.isConst() or value.val() != 0

    def has_nesterov(self, weight: str) -> bool:
        return self.value("nesterov", weight).val() != 0 and self.value("momentum", weight).val() > 0

    @property
    def kind(self) -> OptimizerKind:
        return OptimizerKind.SGD

    @property
    def accumulator_dtype(self) -> torch.dtype | None:
        return self._accumulator

    def list_settings(self, weight: str) -> dict[str, Any]:
        return {
            "lr": self.value("learningRate", weight).val(),
            "weight_decay": self.value("weightDecay", weight).val(),
            "momentum": self.value("momentum", weight).val(),
            "dampening": self.value("dampening", weight).val(),
            "velocity_scaling": self.value("velocityScaling", weight).val(),
            "nesterov": self.has_nesterov(weight),
            "always_dampened": True,
            "ahead": self.combined,
            "state_as_parameter": True,
        }

    def list_variable(self, weight: str) -> frozenset[str]:
        names = {"dampening": "dampening", "velocityScaling": "velocity_scaling"}
        return super().list_variable(weight) | {
            name for own, name in names.items() if not self.value(own, weight).isConst()
        }

    def list_state_dtypes(self) -> dict[str, torch.dtype]:
        return {} if self.combined or self._momentum is None else {"momentum_buffer": self._momentum}

    def name_state(self, slot: str) -> str:
        return {"momentum_buffer": "Accl" if self.combined else "Accl1"}[slot]

    def list_scalars(self, weight: str, factors: Factors) -> dict[str, tuple[float, bool]]:
        names = ("learningRate", "weightDecay", "momentum", "dampening", "velocityScaling")
        values = {name: self.value(name, weight) for name in names} | {"lossScaling": self.loss_scaling}
        fixed = {name: value.isConst() for name, value in values.items()}
        rate, decay, momentum, dampening, velocity, scale = (np.float32(value.val()) for value in values.values())
        kept = 1 - dampening

        def is_fixed(*used: str) -> bool:
            return all(fixed[name] for name in used)

        found: dict[str, tuple[Any, bool]]
        if not self.has_momentum(weight):
            gradients = np.float32(factors.after_accumulation * factors.after_replication)
            found = {
                "scaledLearningRate0": (
                    rate * kept / (scale * gradients),
                    is_fixed("learningRate", "dampening", "lossScaling"),
                ),
                "weightDecayScaleFactor0": (
                    1 - rate * kept * decay,
                    is_fixed("weightDecay", "learningRate", "dampening"),
                ),
            }
            return {name: (float(value), constant) for name, (value, constant) in found.items()}
        number = "1" if self.combined else "2"
        # Combined momentum of accumulated gradients is summed over replicas as a whole, and so divided by their number.
        summed = np.float32(factors.replicas if self.combined and factors.accumulates else 1)
        found = {
            "scaledWeightDecay1": (kept * decay * velocity, is_fixed("dampening", "weightDecay", "velocityScaling")),
            f"scaledLearningRate{number}": (rate / (velocity * summed), is_fixed("learningRate", "velocityScaling")),
            f"scaledMomentum{number}": (momentum / summed, is_fixed("momentum")),
            f"dampeningScaleFactor{number}": (
                kept * velocity / (scale * self._count_gradients(factors)),
                is_fixed("dampening", "velocityScaling", "lossScaling"),
            ),
        }
        if self.has_nesterov(weight):
            found |= {
                "sgdMomentum": (momentum, is_fixed("momentum")),
                "sgdWeightDecay": (decay, is_fixed("weightDecay")),
                f"nesterovGradScaleFactor{number}": (velocity * summed, is_fixed("velocityScaling")),
            }
        return {name: (float(value), constant) for name, (value, constant) in found.items()}

    def _count_gradients(self, factors: Factors) -> np.float32:
        """What a gradient is divided by where it meets the momentum."""
        if not self.combined:
            return np.float32(factors.after_accumulation * factors.after_replication)
        count = factors.accumulation if factors.mean else 1
        if factors.accumulates and not factors.mean:
            return np.float32(count / factors.replicas)
        return np.float32(count * (factors.replicas if factors.mean and not factors.accumulates else 1))

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        super()._check(values)
        velocity, dampening = values["velocityScaling"].val(), values["dampening"].val()
        if velocity <= 0:
            raise popart_exception(f"Non-positive velocity scaling ({velocity:g}) in SGD is not supported")
        if values["nesterov"].val() and dampening > 0:
            raise popart_exception(
                f"Nesterov's momentum in SGD takes no dampening, and it is {dampening:g}: make it 0."
            )

    def _check_variant(self, other: Any) -> None:
        had, has = not self._is_still(), not other._is_still()
        if had != has:
            raise popart_exception(
                f"The program was compiled {'with' if had else 'without'} momentum, and the new optimizer is "
                f"{'with' if has else 'without'} it: momentum that is to change must not be constant."
            )
        if had and self._layout is not other._layout:
            raise popart_exception(
                f"The program was compiled with accumulatorAndMomentum {self._layout}, and the new optimizer has "
                f"{other._layout}."
            )
        types = (self._accumulator, self._momentum), (other._accumulator, other._momentum)
        if had and not self.combined and types[0] != types[1]:
            raise popart_exception(f"accumType and accl1Type were compiled as {types[0]}, and are now {types[1]}.")

    def _is_still(self) -> bool:
        default = self._values["momentum"].getDefault()
        return default.isConst() and default.val() == 0


class ConstSGD(SGD):
    """Gradient descent whose values never change."""

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        loss_scaling: float = 1.0,
        clip_norm_settings: Iterable[ClipNormSettings] = (),
    ) -> None:
        values = {
            "defaultLearningRate": (learning_rate, True),
            "defaultWeightDecay": (weight_decay, True),
            "lossScaling": (loss_scaling, True),
        }
        super().__init__(values, clip_norm_settings)
