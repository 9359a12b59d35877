"""A model made ready for a pipeline.

In: a Transformers model and an `IPUConfig`, by value, name or fields. Out: an executor, or for `generate` the pipelined
model, which has executors of its own.
"""

from __future__ import annotations

import copy
from typing import Any

from transformers import PreTrainedModel

import poptorch
from optimum.graphcore.generation import MODELS_SUPPORTING_KV_CACHE, IPUGenerationMixin
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError, IPUConfig
from optimum.graphcore.modeling_utils import to_pipelined


def read_ipu_config(ipu_config: IPUConfig | str | dict[str, Any] | None) -> IPUConfig:
    """A configuration of our own, in the mode for inference."""
    if isinstance(ipu_config, str):
        return IPUConfig.from_pretrained(ipu_config).eval()
    if isinstance(ipu_config, dict):
        return IPUConfig.from_dict(ipu_config).eval()
    if not isinstance(ipu_config, IPUConfig):
        raise ValueError("ipu_config must be an IPUConfig, string, or a dictionary.")
    return copy.deepcopy(ipu_config).eval()


def get_poplar_executor(
    task: str,
    model: PreTrainedModel,
    ipu_config: IPUConfig | str | dict[str, Any] | None = None,
    fp16: bool = True,
    for_generation: bool = False,
    **parallelize_kwargs: Any,
) -> Any:
    """Spread the model over IPUs for inference, in half precision unless `fp16` is False."""
    config = read_ipu_config(ipu_config)
    arguments = {**config.inference_parallelize_kwargs, **parallelize_kwargs}
    config.inference_device_iterations = 1
    if not arguments.get("use_cond_encoder", False):
        config.inference_replication_factor = 1
    if not fp16:
        config.enable_half_partials = False
    try:
        pipelined = to_pipelined(model, config)
        if for_generation and isinstance(pipelined, IPUGenerationMixin):
            if type(pipelined) not in MODELS_SUPPORTING_KV_CACHE:
                arguments.setdefault("use_cache", False)
            pipelined.parallelize(for_generation=True, **arguments)
        else:
            pipelined.parallelize(**arguments)
    except Exception as error:
        raise IncompatibleIPUConfigError(
            "The model and ipu_config seem to be incompatible, please try a different IPU config or customize it for "
            f"the model. The config provided is '{_describe(ipu_config)}'\n{error}"
        ) from error
    pipelined = (pipelined.half() if fp16 else pipelined).eval()
    if for_generation:
        return pipelined
    options = config.to_options(for_inference=True)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    return poptorch.inferenceModel(pipelined, options)


def _describe(ipu_config: IPUConfig | str | dict[str, Any] | None) -> Any:
    """A configuration by name, or by what it says other than the default."""
    if not isinstance(ipu_config, IPUConfig):
        return ipu_config
    usual = IPUConfig().to_dict()
    return {name: value for name, value in ipu_config.to_dict().items() if value != usual.get(name)}
