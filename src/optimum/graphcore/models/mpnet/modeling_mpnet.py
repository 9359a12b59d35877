"""Pipelined MPNet: the encoder, and masked tokens.

In: an `MPNetConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from transformers import MPNetForMaskedLM, MPNetModel
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_only_loss,
)
from optimum.graphcore.models.mpnet.attention import MPNetFusedSelfAttention
from optimum.graphcore.models.text_encoder import describe_encoder

_ENCODER = describe_encoder(exchanges={MPNetSelfAttention: MPNetFusedSelfAttention})


@register(MPNetModel)
class PipelinedMPNetModel(PipelineMixin, MPNetModel):
    """The encoder alone; its pooler is on the first IPU."""

    layout = _ENCODER.add(Part("pooler", "Pooler", Place.FIRST))


@register(MPNetForMaskedLM)
class PipelinedMPNetForMaskedLM(PipelineMixin, MPNetForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _ENCODER.nest("mpnet").add(Part("lm_head", "Classifier", Place.FIRST), projection="lm_head.decoder")
    forward = return_only_loss(MPNetForMaskedLM.forward, head="lm_head")
