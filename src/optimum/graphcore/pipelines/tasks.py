"""The tasks of `pipeline()`: which pipeline class, which kind of model, and what if nothing else is said.

In: the name of a task. Out: its row.
"""

from __future__ import annotations

from typing import Any

from transformers import (
    AutoModelForAudioClassification,
    AutoModelForCausalLM,
    AutoModelForCTC,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
    AutoModelForTokenClassification,
)

from optimum.graphcore.ipu_configuration import IPUConfig
from optimum.graphcore.pipelines.automatic_speech_recognition import IPUAutomaticSpeechRecognitionPipeline
from optimum.graphcore.pipelines.classification import (
    IPUAudioClassificationPipeline,
    IPUImageClassificationPipeline,
    IPUTextClassificationPipeline,
)
from optimum.graphcore.pipelines.fill_mask import IPUFillMaskPipeline
from optimum.graphcore.pipelines.question_answering import IPUQuestionAnsweringPipeline
from optimum.graphcore.pipelines.text2text_generation import (
    IPUSummarizationPipeline,
    IPUText2TextGenerationPipeline,
    IPUTranslationPipeline,
)
from optimum.graphcore.pipelines.text_generation import IPUTextGenerationPipeline
from optimum.graphcore.pipelines.token_classification import IPUTokenClassificationPipeline
from optimum.graphcore.pipelines.zero_shot_classification import IPUZeroShotClassificationPipeline

TASK_ALIASES = {"sentiment-analysis": "text-classification", "ner": "token-classification"}


def _row(
    kind: str, impl: type[Any], classes: tuple[type[Any], ...], model: str, ipu_config: str | IPUConfig, **more: Any
) -> dict[str, Any]:
    return {"impl": impl, "class": classes, "type": kind, "default": {"model": model, "ipu_config": ipu_config, **more}}


def _row_of_texts(impl: type[Any], model: str, **more: Any) -> dict[str, Any]:
    """Texts to texts: an encoder and a decoder, which are programs of their own."""
    config = IPUConfig(ipus_per_replica=2)
    return _row("text", impl, (AutoModelForSeq2SeqLM,), model, config, truncation="only_first", **more)


SUPPORTED_TASKS: dict[str, dict[str, Any]] = {
    "audio-classification": _row(
        "audio",
        IPUAudioClassificationPipeline,
        (AutoModelForAudioClassification,),
        "superb/hubert-base-superb-ks",
        "Graphcore/hubert-base-ipu",
    ),
    "automatic-speech-recognition": _row(
        "multimodal",
        IPUAutomaticSpeechRecognitionPipeline,
        (AutoModelForCTC, AutoModelForSpeechSeq2Seq),
        "facebook/wav2vec2-base-960h",
        "Graphcore/wav2vec2-ctc-base-ipu",
    ),
    "fill-mask": _row(
        "text",
        IPUFillMaskPipeline,
        (AutoModelForMaskedLM,),
        "distilbert/distilroberta-base",
        "Graphcore/distilroberta-base-ipu",
        max_length=128,
    ),
    "image-classification": _row(
        "image",
        IPUImageClassificationPipeline,
        (AutoModelForImageClassification,),
        "google/vit-base-patch16-224",
        "Graphcore/vit-base-ipu",
    ),
    "question-answering": _row(
        "text",
        IPUQuestionAnsweringPipeline,
        (AutoModelForQuestionAnswering,),
        "distilbert/distilbert-base-cased-distilled-squad",
        "Graphcore/distilbert-base-ipu",
    ),
    "text-classification": _row(
        "text",
        IPUTextClassificationPipeline,
        (AutoModelForSequenceClassification,),
        "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
        "Graphcore/distilbert-base-ipu",
        max_length=128,
        truncation=True,
    ),
    "token-classification": _row(
        "text",
        IPUTokenClassificationPipeline,
        (AutoModelForTokenClassification,),
        "dbmdz/bert-large-cased-finetuned-conll03-english",
        "Graphcore/bert-large-ipu",
        max_length=128,
    ),
    "text-generation": _row(
        "text", IPUTextGenerationPipeline, (AutoModelForCausalLM,), "openai-community/gpt2", IPUConfig(), max_length=50
    ),
    "summarization": _row_of_texts(
        IPUSummarizationPipeline, "ainize/bart-base-cnn", max_length=20, max_input_length=50
    ),
    "translation": _row_of_texts(IPUTranslationPipeline, "google-t5/t5-small", max_length=50, max_input_length=45),
    "text2text-generation": _row_of_texts(
        IPUText2TextGenerationPipeline, "google-t5/t5-small", max_length=50, max_input_length=50
    ),
    "zero-shot-classification": _row(
        "text",
        IPUZeroShotClassificationPipeline,
        (AutoModelForSequenceClassification,),
        "FacebookAI/roberta-large-mnli",
        "Graphcore/roberta-large-ipu",
        max_length=128,
    ),
}

SUPPORTED_SEQ2SEQ_GENERATION_TASKS = {"summarization", "text2text-generation", "translation"}
SUPPORTED_GENERATION_TASKS = SUPPORTED_SEQ2SEQ_GENERATION_TASKS | {"text-generation"}
NO_FEATURE_EXTRACTOR_TASKS = {task for task, row in SUPPORTED_TASKS.items() if row["type"] == "text"}
NO_TOKENIZER_TASKS = {task for task, row in SUPPORTED_TASKS.items() if row["type"] in ("audio", "image")}


def list_tasks() -> list[str]:
    """The supported tasks and their other names."""
    return sorted({*SUPPORTED_TASKS, *TASK_ALIASES})


def find_task(task: str) -> str:
    """The row that a task belongs to: "ner" and "translation_en_to_de" have those of other names."""
    task = TASK_ALIASES.get(task, task)
    row = "translation" if task.startswith("translation") else task
    if row not in SUPPORTED_TASKS:
        raise ValueError(f"Task {row} is not supported. Supported tasks are {list(SUPPORTED_TASKS)}")
    return row
