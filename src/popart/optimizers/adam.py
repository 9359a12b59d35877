"""The Adam family of PopART: Adam, Lamb, AdaMax, with bias correction or without.

In: values, a mode, how weights decay. Out: openipu's settings of Adam, AdamW, LAMB or AdaMax.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch

from openipu.graph import OptimizerKind
from popart._enumerations.tensors import DataType
from popart._enumerations.training import AdamMode, WeightDecayMode
from popart._exceptions import popart_exception
from popart.optimizers.base import Factors, Field, Optimizer, to_torch
from popart.optimizers.clipping import ClipNormSettings
from popart.optimizers.values import OptimizerValueMap

_LAMB = (AdamMode.Lamb, AdamMode.LambNoBias)
_UNCORRECTED = (AdamMode.AdamNoBias, AdamMode.LambNoBias)


class Adam(Optimizer):
    """Two moments of the gradient; epsilon is added after the root."""

    NAME: ClassVar[str] = "Adam"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("defaultLearningRate", "learningRate", "learning rates", 0.1),
        Field("defaultWeightDecay", "weightDecay", "weight decays", 0.0),
        Field("defaultBeta1", "beta1", "beta1s", 0.9),
        Field("defaultBeta2", "beta2", "beta2s", 0.999),
        Field("defaultEps", "eps", "eps", 1e-6),
        Field("defaultMaxWeightNorm", "maxWeightNorm", "max weight norms", 10.0),
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdamMode = AdamMode.Adam,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: Iterable[ClipNormSettings] = (),
        scaled_optimizer_state: bool = False,
        debugContext: object = "adam",
    ) -> None:
        super().__init__(values, clip_norm_settings)
        self._mode = AdamMode(mode)
        self._decay_mode = WeightDecayMode(weight_decay_mode)
        self._accumulator = to_torch(accum_type, "accum_type")
        self._moments = (to_torch(accl1_type, "accl1_type"), to_torch(accl2_type, "accl2_type"))
        self.scaled_optimizer_state = bool(scaled_optimizer_state)

    def beta1s(self) -> OptimizerValueMap:
        return self._values["beta1"]

    def beta2s(self) -> OptimizerValueMap:
        return self._values["beta2"]

    def epss(self) -> OptimizerValueMap:
        return self._values["eps"]

    def maxWeightNorms(self) -> OptimizerValueMap:
        return self._values["maxWeightNorm"]

    @property
    def kind(self) -> OptimizerKind:
        if self._mode in _LAMB:
            return OptimizerKind.LAMB
        if self._mode is AdamMode.AdaMax:
            return OptimizerKind.ADAMAX
        return OptimizerKind.ADAMW if self._decay_mode is WeightDecayMode.Decay else OptimizerKind.ADAM

    @property
    def accumulator_dtype(self) -> torch.dtype | None:
        return self._accumulator

    def list_settings(self, weight: str) -> dict[str, Any]:
        return {
            "lr": self.value("learningRate", weight).val(),
            "weight_decay": self.value("weightDecay", weight).val(),
            "betas": (self.value("beta1", weight).val(), self.value("beta2", weight).val()),
            "eps": self.value("eps", weight).val(),
            "max_weight_norm": self.value("maxWeightNorm", weight).val(),
            "bias_correction": self._mode not in _UNCORRECTED,
            "decoupled_weight_decay": self._decay_mode is WeightDecayMode.Decay,
            "l2_penalty": self._decay_mode is WeightDecayMode.L2Regularization,
            "scaled_state": self.scaled_optimizer_state,
            "state_as_parameter": True,
        }

    def list_state_dtypes(self) -> dict[str, torch.dtype]:
        first, second = self._moments
        names = {"exp_avg": first, "exp_avg_sq": second, "exp_inf": second}
        return {name: dtype for name, dtype in names.items() if dtype is not None}

    def name_state(self, slot: str) -> str:
        return {"exp_avg": "Accl1", "exp_avg_sq": "Accl2", "exp_inf": "Accl2", "step": "Step"}[slot]

    def list_scalars(self, weight: str, factors: Factors) -> dict[str, tuple[float, bool]]:
        names = {
            "learningRate": "learningRate",
            "weightDecay": "weightDecay",
            "beta1": "adamBeta1",
            "beta2": "adamBeta2",
            "eps": "adamEps",
            "maxWeightNorm": "maxWeightNorm",
        }
        found = {name: self.value(own, weight) for own, name in names.items()}
        scale = self.loss_scaling
        if self.scaled_optimizer_state:
            return {name: (value.val(), value.isConst()) for name, value in found.items()}
        divisor = scale.val() * factors.after_accumulation * factors.after_replication
        return {
            **{name: (value.val(), value.isConst()) for name, value in found.items()},
            "adamGradientScaling": (1 / divisor, scale.isConst()),
            "lossScaling": (scale.val(), scale.isConst()),
        }

    def _check_variant(self, other: Any) -> None:
        if self._mode is not other._mode:
            raise popart_exception("Adam modes do not match")
        if self._decay_mode is not other._decay_mode:
            raise popart_exception("Weight decay modes do not match")
        if (self._accumulator, self._moments) != (other._accumulator, other._moments):
            raise popart_exception("Types of the accumulator or of the moments do not match")
        if self.scaled_optimizer_state != other.scaled_optimizer_state:
            raise popart_exception("Settings of scaled_optimizer_state do not match")
