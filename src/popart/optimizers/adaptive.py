"""The RMSProp family of PopART: AdaGrad, RMSProp, centered RMSProp, AdaDelta.

In: values, a mode, how weights decay. Out: openipu's settings of RMSProp, AdaGrad or AdaDelta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from openipu.graph import OptimizerKind
from popart._enumerations.tensors import DataType
from popart._enumerations.training import AdaptiveMode, WeightDecayMode
from popart._exceptions import popart_exception
from popart.optimizers.base import Factors, Field, Optimizer, to_torch
from popart.optimizers.values import OptimizerValueMap

_RMSPROP = (AdaptiveMode.RMSProp, AdaptiveMode.CenteredRMSProp)
_PREFIXES = {"square_avg": "Accl1", "sum": "Accl1", "grad_avg": "Accl2", "acc_delta": "Accl2",
             "momentum_buffer": "Accl3"}  # fmt: skip


class Adaptive(Optimizer):
    """A step is divided by what earlier gradients were like."""

    NAME: ClassVar[str] = "Adaptive"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("defaultLearningRate", "learningRate", "learning rates", 0.01),
        Field("defaultWeightDecay", "weightDecay", "weight decays", 0.0),
        Field("defaultAlpha", "alpha", "alphas", 0.99),
        Field("defaultMomentum", "momentum", "momentums", 0.0),
        Field("defaultEps", "eps", "eps", 1e-6),
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdaptiveMode = AdaptiveMode.RMSProp,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: object = "adaptive",
    ) -> None:
        self._mode = AdaptiveMode(mode)
        if rmsprop_tf_variant and self._mode not in _RMSPROP:
            raise popart_exception(
                f"rmsprop_tf_variant is for AdaptiveMode.RMSProp and CenteredRMSProp, not for {self._mode}."
            )
        super().__init__(values)
        self._like_tensorflow = bool(rmsprop_tf_variant)
        self._decay_mode = WeightDecayMode(weight_decay_mode)
        self._accumulator = to_torch(accum_type, "accum_type")
        types = {"accl1_type": accl1_type, "accl2_type": accl2_type, "accl3_type": accl3_type}
        self._types = {name: to_torch(given, name) for name, given in types.items()}

    def alphas(self) -> OptimizerValueMap:
        return self._values["alpha"]

    def momentums(self) -> OptimizerValueMap:
        return self._values["momentum"]

    def epss(self) -> OptimizerValueMap:
        return self._values["eps"]

    @property
    def kind(self) -> OptimizerKind:
        kinds = {AdaptiveMode.AdaGrad: OptimizerKind.ADAGRAD, AdaptiveMode.AdaDelta: OptimizerKind.ADADELTA}
        return kinds.get(self._mode, OptimizerKind.RMSPROP)

    @property
    def accumulator_dtype(self) -> torch.dtype | None:
        return self._accumulator

    def list_settings(self, weight: str) -> dict[str, Any]:
        return {
            "lr": self.value("learningRate", weight).val(),
            "weight_decay": self.value("weightDecay", weight).val(),
            "alpha": self.value("alpha", weight).val(),
            "momentum": self.value("momentum", weight).val(),
            "eps": self.value("eps", weight).val(),
            "centered": self._mode is AdaptiveMode.CenteredRMSProp,
            "use_tf_variant": self._like_tensorflow,
            "decoupled_weight_decay": self._decay_mode is WeightDecayMode.Decay,
            "state_as_parameter": True,
        }

    def list_state_dtypes(self) -> dict[str, torch.dtype]:
        found = {slot: self._types[f"{prefix.lower()}_type"] for slot, prefix in _PREFIXES.items()}
        return {slot: dtype for slot, dtype in found.items() if dtype is not None}

    def name_state(self, slot: str) -> str:
        return _PREFIXES[slot]

    def list_scalars(self, weight: str, factors: Factors) -> dict[str, tuple[float, bool]]:
        names = {
            "learningRate": "learningRate",
            "weightDecay": "weightDecay",
            "alpha": "adaptiveAlpha",
            "momentum": "adaptiveMomentum",
            "eps": "adaptiveEps",
        }
        found = {name: self.value(own, weight) for own, name in names.items()}
        divisor = self.loss_scaling.val() * factors.after_accumulation * factors.after_replication
        return {
            **{name: (value.val(), value.isConst()) for name, value in found.items()},
            "adaptiveGradientScaling": (1 / divisor, self.loss_scaling.isConst()),
            "lossScaling": (self.loss_scaling.val(), self.loss_scaling.isConst()),
        }

    def _check_variant(self, other: Any) -> None:
        if self._mode is not other._mode or self._like_tensorflow != other._like_tensorflow:
            raise popart_exception("Adaptive modes do not match")
        if self._decay_mode is not other._decay_mode:
            raise popart_exception("Weight decay modes do not match")
        if (self._accumulator, self._types) != (other._accumulator, other._types):
            raise popart_exception("Types of the accumulator or of the state do not match")
