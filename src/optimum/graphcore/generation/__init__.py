"""Text generation on IPUs: see `generation_mixin.py` for how `generate` runs."""

from optimum.graphcore.generation.attention import serialize_attention
from optimum.graphcore.generation.generation_mixin import (
    MODELS_SUPPORTING_KV_CACHE,
    IPUGenerationMixin,
    supports_kv_cache,
)
from optimum.graphcore.generation.on_device import OnDeviceGreedySearch
from optimum.graphcore.generation.on_device_beams import OnDeviceBeamSearch
from optimum.graphcore.generation.settings import GenerationSettings

__all__ = [
    "MODELS_SUPPORTING_KV_CACHE",
    "GenerationSettings",
    "IPUGenerationMixin",
    "OnDeviceBeamSearch",
    "OnDeviceGreedySearch",
    "serialize_attention",
    "supports_kv_cache",
]
