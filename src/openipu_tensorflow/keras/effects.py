"""What each option of a Keras model does here.

In: nothing. Out: tables by the options' names. An option acts ("acts: …"), or says why results and plan are the same
without it ("no effect: …").
"""

from __future__ import annotations

from collections.abc import Mapping

_FLOAT = "acts: gradients are accumulated in their own type; another one is refused"

GRADIENT_ACCUMULATION_OPTIONS: Mapping[str, str] = {
    "offload_weight_update_variables": "acts: optimizer state is kept beside the IPU; None means on the IPU",
    "replicated_optimizer_state_sharding": "acts: each replica keeps one share of the optimizer state",
    "dtype": _FLOAT,
    "verify_usage": "no effect: the update is always cut where the optimizer is applied, and a program that cannot be "
    "cut is refused",
    "name": "no effect: names an op that is not there",
}
PIPELINING_OPTIONS: Mapping[str, str] = {
    "gradient_accumulation_dtype": _FLOAT,
    "gradient_accumulation_for_captured_grads": "no effect: no gradients are captured",
    "pipeline_schedule": "acts: Grouped and Interleaved overlap stages; Sequential runs one after the other",
    "recomputation_mode": "acts: RecomputeThenBackpropagate and RecomputeAndBackpropagateInterleaved recompute as Auto "
    "does where allow_recompute is set",
    "forward_propagation_stages_poplar_options": "acts: availableMemoryProportion of a stage's products",
    "backward_propagation_stages_poplar_options": "no effect: backward products have the forward stage's proportion",
    "weight_update_poplar_options": "no effect: an update has no products with options",
    "offload_weight_update_variables": "acts: optimizer state is kept beside the IPU",
    "replicated_optimizer_state_sharding": "acts: each replica keeps one share of the optimizer state",
    "offload_activations": "acts: activations between stages are kept beside the IPU",
    "offload_gradient_accumulation_buffers": "acts: accumulated gradients are kept beside the IPU",
    "replicated_weight_sharding": "acts: each replica keeps one share of the weights",
    "offload_weights": "acts: weights are kept beside the IPU",
    "continuous_weight_updates": "acts: True is refused, as by the original",
    "accumulate_outfeed": "no effect: metrics of every step come back, and those of the last are shown",
    "accumulate_outfeed_dtype": "no effect: what is accumulated keeps its type",
    "name": "no effect: names an op that is not there",
}
INFEED_OPTIONS: Mapping[str, str] = {
    "prefetch_depth": "acts: so many batches at least are made ready ahead",
    "optimise_latency": "no effect: chooses how buffers are connected to the IPU",
    "device_ordinal": "no effect: the strategy's device is the model's",
}
OUTFEED_OPTIONS: Mapping[str, str] = {
    "buffer_depth": "no effect: results are read after each execution, and none is lost",
    "optimise_latency": "no effect: chooses how buffers are connected to the IPU",
}
