"""What text encoders of BERT's pattern have in common: embeddings, then layers, then a head by its usual name.

In: where a family keeps its encoder, and the classes that quicker ones stand in for. Out: the layout of the encoder, to
which each class of the family adds its head.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from optimum.graphcore.modeling_utils import Layers, Part, PipelineLayout, Place

CLASSIFIER = Part("classifier", "Classifier Output")
QUESTION_ANSWERING = Part("qa_outputs", "QA Outputs")


def describe_encoder(
    path: str = "",
    layers: str = "encoder.layer",
    exchanges: Mapping[type[nn.Module], type[nn.Module]] | None = None,
) -> PipelineLayout:
    """The layout of the encoder at `path` of a model; without one, the encoder is the model."""
    encoder = PipelineLayout(
        parts=(Part("embeddings", "Embedding", Place.FIRST), Layers(layers, "Encoder")),
        word_embeddings="embeddings.word_embeddings",
        outlined="embeddings.LayerNorm",
        exchanges=exchanges or {},
    )
    return encoder.nest(path) if path else encoder
