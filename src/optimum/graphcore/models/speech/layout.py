"""How a speech model lies on IPUs: convolutions, the position convolution, encoder layers and heads, as one sequence.

In: a pipelined HuBERT or Wav2Vec2. Out: the model with blocks, and with a graph that depends on no random number.
"""

from __future__ import annotations

from typing import Any

from optimum.graphcore.modeling.extension import extend_class
from optimum.graphcore.modeling.layer_drop import make_layer_drop_static
from optimum.graphcore.modeling.sequences import begin_sequence, name_layers
from optimum.graphcore.models.speech.spec_augment import StaticSpecAugment


def make_random_choices_static(model: Any, path: str) -> None:
    """LayerDrop and SpecAugment of the base model at `path` by random numbers of the graph."""
    base_model = model.get_submodule(path)
    model.exchange_class(path, extend_class(StaticSpecAugment, type(base_model)))
    make_layer_drop_static(model, f"{path}.encoder", base_model.encoder.layers)
    if getattr(base_model, "adapter", None) is not None:
        make_layer_drop_static(model, f"{path}.adapter", ())  # they shorten the sequence: none can be left out


def begin_speech_sequence(model: Any, path: str, heads: dict[str, str]) -> None:
    """Spread the base model at `path` and the heads (path: name). `layers_per_ipu` counts all of them."""
    layers = name_layers(model, f"{path}.encoder.layers", "Encoder ")
    modules = [
        *name_layers(model, f"{path}.feature_extractor.conv_layers", "Conv "),
        (f"{path}.encoder.pos_conv_embed", "Positional Embedding"),
        *layers,
        *heads.items(),
    ]
    begin_sequence(model, modules, checkpoints=[layer for layer, _ in layers])
