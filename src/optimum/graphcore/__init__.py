"""Optimum Graphcore's names on openipu: Transformers models as IPU programs on any machine. Unofficial.

In: names. Out: the objects behind them; a module is imported when one of its names is first asked for.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import poptorch
from openipu.environment.extras import explain_missing
from optimum.graphcore.version import __version__

_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering")
_HEADS: dict[str, tuple[str, ...]] = {  # module of models: what follows "Pipelined" in the names of its classes
    "bart": ("BartForConditionalGeneration", "BartForSequenceClassification"),
    "bert": ("BertModel", "BertForPreTraining", "BertForMaskedLM", *(f"Bert{head}" for head in _CLASSIFIERS)),
    "convnext": ("ConvNextForImageClassification",),
    "deberta": (
        "DebertaForMaskedLM",
        "DebertaForSequenceClassification",
        "DebertaForTokenClassification",
        "DebertaForQuestionAnswering",
    ),
    "distilbert": ("DistilBertForMaskedLM", *(f"DistilBert{head}" for head in _CLASSIFIERS)),
    "gpt2": ("GPT2LMHeadModel", "GPT2ForSequenceClassification", "GPT2ForTokenClassification"),
    "groupbert": ("GroupBertForPreTraining", "GroupBertForMaskedLM", *(f"GroupBert{head}" for head in _CLASSIFIERS)),
    "hubert": ("HubertForSequenceClassification", "HubertCTC"),
    "lxmert": ("LxmertForQuestionAnswering",),
    "mpnet": ("MPNetModel", "MPNetForMaskedLM"),
    "mt5": ("MT5ForConditionalGeneration",),
    "roberta": ("RobertaForMaskedLM", *(f"Roberta{head}" for head in _CLASSIFIERS)),
    "t5": ("T5ForConditionalGeneration", "T5EncoderModel"),
    "vit": ("ViTForImageClassification",),
    "wav2vec2": ("Wav2Vec2ForPreTraining", "Wav2Vec2ForCTC"),
    "whisper": ("WhisperForConditionalGeneration",),
}
_EXPORTS: dict[str, tuple[str, ...]] = {  # module: its public names
    "ipu_configuration": ("IPUConfig", "IncompatibleIPUConfigError"),
    "metrics_callback": ("IPUMetricsCallback",),
    "modeling_utils": ("PipelineMixin", "to_pipelined"),
    "pipelines": ("pipeline", "IPUFillMaskPipeline", "IPUTokenClassificationPipeline"),
    "trainer": ("IPUTrainer", "IPUTrainerState"),
    "trainer_seq2seq": ("IPUSeq2SeqTrainer",),
    "training_args": ("IPUTrainingArguments",),
    "training_args_seq2seq": ("IPUSeq2SeqTrainingArguments",),
    **{f"models.{family}": tuple(f"Pipelined{name}" for name in names) for family, names in _HEADS.items()},
}
_HOMES = {name: module for module, names in _EXPORTS.items() for name in names}

if "POPTORCH_LOG_LEVEL" not in os.environ:
    # What PopTorch warns of, such as random numbers without a device, is about code that users of models did not write.
    poptorch.setLogLevel("ERR")

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (they are strings)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optimum.graphcore' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if f"{error.name}.".startswith(f"{__name__}."):
            raise
        raise explain_missing(error, f"{__name__}.{name}", "hf") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
