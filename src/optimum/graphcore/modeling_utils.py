"""Pipelined models: the classes and functions that they are made of.

In: a Transformers model and an `IPUConfig`. Out: by `to_pipelined`, a model with `parallelize` and `deparallelize`.
"""

from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError, IPUConfig
from optimum.graphcore.modeling.hooks import outline_attribute, recomputation_checkpoint
from optimum.graphcore.modeling.layer_split import (
    _expand_layers_per_ipu_wildcard as _expand_layers_per_ipu_wildcard,
)
from optimum.graphcore.modeling.layer_split import get_layer_ipu, split_encoder_decoder_ipu_config
from optimum.graphcore.modeling.layout import Layers, Part, PipelineLayout, Place, read_serialization
from optimum.graphcore.modeling.mixin import PipelineMixin, find_original_class
from optimum.graphcore.modeling.outputs import return_marked_loss, return_only_loss
from optimum.graphcore.modeling.registry import (
    _PRETRAINED_TO_PIPELINED_REGISTRY as _PRETRAINED_TO_PIPELINED_REGISTRY,
)
from optimum.graphcore.modeling.registry import find_pipelined_class, register, register_generic, to_pipelined
from optimum.graphcore.modeling.serialized import (
    SerializedEmbedding,
    SerializedLinear,
    SharedEmbedding,
    SplitProjection,
)
from optimum.graphcore.modeling.tokens import OnehotGather, select_masked_tokens, shift_tokens_right

__all__ = [
    "IPUConfig",
    "IncompatibleIPUConfigError",
    "Layers",
    "OnehotGather",
    "Part",
    "PipelineLayout",
    "PipelineMixin",
    "Place",
    "SerializedEmbedding",
    "SerializedLinear",
    "SharedEmbedding",
    "SplitProjection",
    "find_original_class",
    "find_pipelined_class",
    "get_layer_ipu",
    "outline_attribute",
    "read_serialization",
    "recomputation_checkpoint",
    "register",
    "register_generic",
    "return_marked_loss",
    "return_only_loss",
    "select_masked_tokens",
    "shift_tokens_right",
    "split_encoder_decoder_ipu_config",
    "to_pipelined",
]
