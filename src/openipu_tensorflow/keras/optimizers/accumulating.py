"""`GradientAccumulationOptimizer`: gradients of several rounds of a loop become one update of an optimizer of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from openipu_tensorflow.ipu.clusters.tracing import current_trace
from openipu_tensorflow.ipu.clusters.updates import UpdateOptions, add_update
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.ipu.optimizers.gradient_accumulation_optimizer import cast_gradients
from openipu_tensorflow.keras.optimizers.loss_scaling import ALSOptimizer
from openipu_tensorflow.keras.optimizers.wrapping import WrappingOptimizer


@keras.saving.register_keras_serializable("openipu")
class GradientAccumulationOptimizer(WrappingOptimizer):
    """The optimizer `opt`, applied once every `num_mini_batches` rounds of the loop that it stands in."""

    def __new__(cls, opt: Any, num_mini_batches: int, *args: Any, **kwargs: Any) -> Any:
        return opt if num_mini_batches == 1 else super().__new__(cls)

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        if num_mini_batches < 1:
            raise ValueError(f"num_mini_batches must be >= 1, and is {num_mini_batches}.")
        super().__init__(opt, name)
        self._dtype = dtype
        self._update = UpdateOptions(
            accumulation=num_mini_batches,
            reduction=GradientAccumulationReductionMethod.parse(reduction_method).reduction,
            offload_state=bool(offload_weight_update_variables),
            shard_state=bool(replicated_optimizer_state_sharding),
        )

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        """The op of the update."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        return self.apply(list(gradients), list(variables))

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Cut the loop here."""
        variables = self._opt._trainable_variables if trainable_variables is None else list(trainable_variables)
        trace = current_trace()
        if trace is None:
            raise NotImplementedError(
                f"{type(self).__name__} accumulates over the rounds of ipu.loops.repeat. In `fit` say "
                "model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica="
                f"{self._update.accumulation}) instead, with the optimizer inside this one."
            )
        pairs = cast_gradients(zip(grads, variables, strict=True), self._dtype)
        if not self._opt.built:
            self._opt.build(variables)
        marker = add_update(pairs, self._opt.apply_gradients, self._update, type(self).__name__)
        trace.level.always.append(marker)  # Keras hands out no op that a function could return
        return marker

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_mini_batches": self._update.accumulation,
            "offload_weight_update_variables": self._update.offload_state,
            "replicated_optimizer_state_sharding": self._update.shard_state,
            "reduction_method": self._update.reduction.name,
        }


@keras.saving.register_keras_serializable("openipu")
class ALSGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """The same around an `ALSOptimizer`, whose scale counts the gradients of every round."""

    def __init__(self, opt: Any, *args: Any, name: str = "ALSGradientAccumulationOptimizer", **kwargs: Any) -> None:
        if not isinstance(opt, ALSOptimizer):
            raise ValueError(f"opt must be an instance of ALSOptimizer, not {type(opt).__name__}.")
        super().__init__(opt, *args, **{"name": name, **kwargs})

    def scale_loss(self, loss: Any) -> Any:
        return self._opt.scale_loss(loss)

    get_scaled_loss = scale_loss

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """Gradients of the scaled loss, in a graph."""
        return list(self._opt.get_gradients(loss, params))
