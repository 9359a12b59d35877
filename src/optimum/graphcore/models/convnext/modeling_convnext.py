"""Pipelined ConvNeXt.

In: a `ConvNextConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from typing import Self

from transformers import ConvNextForImageClassification

from optimum.graphcore.modeling.sequences import begin_sequence, name_layers
from optimum.graphcore.modeling_utils import PipelineMixin, register


@register(ConvNextForImageClassification)
class PipelinedConvNextForImageClassification(PipelineMixin, ConvNextForImageClassification):
    """`layers_per_ipu` counts the layers of all stages together.

    What makes an image smaller between two stages runs where the layer before it does: then less goes over the links.
    """

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        layers = [
            (path, name)
            for stage in range(len(self.convnext.encoder.stages))
            for path, name in name_layers(self, f"convnext.encoder.stages.{stage}.layers", f"Stage{stage} Layer")
        ]
        self.begin_block("convnext.embeddings", "Embedding", 0)
        begin_sequence(self, layers, checkpoints=[path for path, _ in layers[:-1]])
        self.begin_block("convnext.layernorm", "LayerNorm", self.ipu_config._ipus_per_replica - 1)
        self.begin_block("classifier", "Head", self.ipu_config._ipus_per_replica - 1)
        return self
