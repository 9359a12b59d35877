"""Pipelined classes for models without one of their own.

In: a name, such as `PipelinedLlamaForCausalLM`. Out: the class, made from the Transformers class of that name.
"""

from __future__ import annotations

from typing import Any

from optimum.graphcore.models.generic.chain import LayerChain, find_layer_chain
from optimum.graphcore.models.generic.modeling_generic import (
    GenericPipelineMixin,
    make_pipelined_class,
    to_generic_pipelined,
)

__all__ = [
    "GenericPipelineMixin",
    "LayerChain",
    "find_layer_chain",
    "make_pipelined_class",
    "to_generic_pipelined",
]


def __getattr__(name: str) -> Any:
    import transformers

    original = getattr(transformers, name.removeprefix("Pipelined"), None) if name.startswith("Pipelined") else None
    if original is None or not hasattr(original, "from_pretrained") or not hasattr(original, "forward"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return make_pipelined_class(original)
