"""GroupBERT, for every task: BERT's embeddings and heads around layers of its own.

In: a `GroupBertConfig`. Out: models with the outputs of the BERT classes. Pipelined ones: pipelined_groupbert.py.
"""

from __future__ import annotations

from typing import Any

from transformers import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from transformers.models.bert.modeling_bert import BertEmbeddings, BertPooler, BertPreTrainedModel

from optimum.graphcore.models.bert.attention import BertFusedSelfAttention
from optimum.graphcore.models.bert.initial_weights import truncate_weights
from optimum.graphcore.models.groupbert.configuration_groupbert import GroupBertConfig
from optimum.graphcore.models.groupbert.layers import GroupBertEncoder, GroupBertLayer


class GroupBertModel(BertModel):
    """The encoder alone."""

    config_class: Any = GroupBertConfig
    _no_split_modules = ["BertEmbeddings", "GroupBertLayer"]  # noqa: RUF012  # as in every Transformers class
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": GroupBertLayer,
        "attentions": BertFusedSelfAttention,
    }

    def __init__(self, config: GroupBertConfig, add_pooling_layer: bool = True) -> None:
        BertPreTrainedModel.__init__(self, config)  # BertModel itself would make layers that nobody needs
        if config.is_decoder or config.add_cross_attention:
            raise ValueError(
                "GroupBERT is an encoder: its convolutions see the tokens that follow. Set is_decoder=False and "
                "add_cross_attention=False in its configuration."
            )
        self.config = config
        self.gradient_checkpointing = False
        self.embeddings = BertEmbeddings(config)
        self.encoder = GroupBertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()

    def post_init(self) -> None:
        super().post_init()
        truncate_weights(self, self.config.initializer_range)


class _WithGroupBert:
    """A BERT class whose encoder is GroupBERT's."""

    config_class: Any = GroupBertConfig
    bert: Any

    def __init__(self, config: GroupBertConfig) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self.bert = GroupBertModel(config, add_pooling_layer=self.bert.pooler is not None)
        self.post_init()  # type: ignore[attr-defined]  # ties the projection to the new embeddings


class GroupBertForPreTraining(_WithGroupBert, BertForPreTraining):
    """Masked tokens and next sentences."""


class GroupBertForMaskedLM(_WithGroupBert, BertForMaskedLM):
    """Masked tokens."""


class GroupBertForSequenceClassification(_WithGroupBert, BertForSequenceClassification):
    """One label for each text."""


class GroupBertForMultipleChoice(_WithGroupBert, BertForMultipleChoice):
    """One text of several."""


class GroupBertForTokenClassification(_WithGroupBert, BertForTokenClassification):
    """One label for each token."""


class GroupBertForQuestionAnswering(_WithGroupBert, BertForQuestionAnswering):
    """Where an answer starts and ends."""
