"""GroupBERT, plain and pipelined. Importing this package makes the Auto classes of Transformers know it."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from optimum.graphcore.models.groupbert.configuration_groupbert import GroupBertConfig
from optimum.graphcore.models.groupbert.modeling_groupbert import (
    GroupBertForMaskedLM,
    GroupBertForMultipleChoice,
    GroupBertForPreTraining,
    GroupBertForQuestionAnswering,
    GroupBertForSequenceClassification,
    GroupBertForTokenClassification,
    GroupBertModel,
)
from optimum.graphcore.models.groupbert.pipelined_groupbert import (
    PipelinedGroupBertForMaskedLM,
    PipelinedGroupBertForMultipleChoice,
    PipelinedGroupBertForPreTraining,
    PipelinedGroupBertForQuestionAnswering,
    PipelinedGroupBertForSequenceClassification,
    PipelinedGroupBertForTokenClassification,
)

AutoConfig.register(GroupBertConfig.model_type, GroupBertConfig)
for _auto, _model in (
    (AutoModel, GroupBertModel),
    (AutoModelForPreTraining, GroupBertForPreTraining),
    (AutoModelForMaskedLM, GroupBertForMaskedLM),
    (AutoModelForMultipleChoice, GroupBertForMultipleChoice),
    (AutoModelForQuestionAnswering, GroupBertForQuestionAnswering),
    (AutoModelForSequenceClassification, GroupBertForSequenceClassification),
    (AutoModelForTokenClassification, GroupBertForTokenClassification),
):
    _auto.register(GroupBertConfig, _model)

__all__ = [
    "GroupBertConfig",
    "GroupBertForMaskedLM",
    "GroupBertForMultipleChoice",
    "GroupBertForPreTraining",
    "GroupBertForQuestionAnswering",
    "GroupBertForSequenceClassification",
    "GroupBertForTokenClassification",
    "GroupBertModel",
    "PipelinedGroupBertForMaskedLM",
    "PipelinedGroupBertForMultipleChoice",
    "PipelinedGroupBertForPreTraining",
    "PipelinedGroupBertForQuestionAnswering",
    "PipelinedGroupBertForSequenceClassification",
    "PipelinedGroupBertForTokenClassification",
]
