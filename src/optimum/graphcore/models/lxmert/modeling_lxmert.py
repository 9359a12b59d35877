"""Pipelined LXMERT: questions about pictures.

In: an `LxmertConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over 4 IPUs, or fewer.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

import torch
from torch.nn import functional
from transformers import LxmertForQuestionAnswering

from optimum.graphcore.modeling_utils import PipelineMixin, register

_LISTS = (  # in the order of `forward`: path, name, which of 4 IPUs
    ("lxmert.encoder.layer", "Language layer", 1),
    ("lxmert.encoder.r_layers", "Visual layer", 2),
    ("lxmert.encoder.x_layers", "Cross modality layer", 3),
)


@register(LxmertForQuestionAnswering)
class PipelinedLxmertForQuestionAnswering(PipelineMixin, LxmertForQuestionAnswering):
    """Embeddings, words, picture, and both together on an IPU each; `layers_per_ipu` has no say in it.

    On fewer IPUs the last ones are the same one. Labels may be the number of an answer, or a score for each answer.
    """

    def parallelize(self) -> Self:
        """Spread the model over IPUs."""
        super().parallelize()
        last_ipu = self.ipu_config._ipus_per_replica - 1
        self.begin_block("lxmert.embeddings", "Embedding", 0)
        self.begin_block("lxmert.encoder.visn_fc", "Image embedding", 0)
        for path, name, ipu in _LISTS:
            count = len(self.get_submodule(path))
            self.begin_layers(path, name, [min(ipu, last_ipu)] * count, keep_last=True)
        self.begin_block("lxmert.pooler", "Pooler", min(3, last_ipu))
        self.begin_block("answer_head", "Head", min(3, last_ipu))
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As in Transformers, and with labels of two dimensions the loss for scores: binary cross entropy."""
        bound = _SIGNATURE.bind(self, *args, **kwargs)
        labels: torch.Tensor | None = bound.arguments.get("labels")
        if labels is None or labels.dim() == 1:
            return super().forward(*args, **kwargs)
        bound.arguments["labels"] = None
        outputs = super().forward(*bound.args[1:], **bound.kwargs)
        scores = outputs[0]
        loss = functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))
        if isinstance(outputs, tuple):
            return (loss, *outputs)
        return type(outputs)(loss=loss, **outputs)


_SIGNATURE = inspect.signature(LxmertForQuestionAnswering.forward)
PipelinedLxmertForQuestionAnswering.forward.__signature__ = _SIGNATURE
