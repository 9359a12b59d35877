"""Pipelines on IPUs: `pipeline("fill-mask", …)` and the classes behind it."""

from optimum.graphcore.pipelines.automatic_speech_recognition import IPUAutomaticSpeechRecognitionPipeline
from optimum.graphcore.pipelines.classification import (
    IPUAudioClassificationPipeline,
    IPUImageClassificationPipeline,
    IPUTextClassificationPipeline,
)
from optimum.graphcore.pipelines.executors import get_poplar_executor
from optimum.graphcore.pipelines.factory import pipeline
from optimum.graphcore.pipelines.fill_mask import IPUFillMaskPipeline
from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin, check_model_type
from optimum.graphcore.pipelines.question_answering import IPUQuestionAnsweringPipeline, QuestionAnsweringPipeline
from optimum.graphcore.pipelines.tasks import (
    NO_FEATURE_EXTRACTOR_TASKS,
    NO_TOKENIZER_TASKS,
    SUPPORTED_GENERATION_TASKS,
    SUPPORTED_SEQ2SEQ_GENERATION_TASKS,
    SUPPORTED_TASKS,
    TASK_ALIASES,
    list_tasks,
)
from optimum.graphcore.pipelines.text2text_generation import (
    IPUSummarizationPipeline,
    IPUText2TextGenerationPipeline,
    IPUTranslationPipeline,
    SummarizationPipeline,
    Text2TextGenerationPipeline,
    TranslationPipeline,
)
from optimum.graphcore.pipelines.text_generation import IPUTextGenerationPipeline
from optimum.graphcore.pipelines.token_classification import IPUTokenClassificationPipeline
from optimum.graphcore.pipelines.zero_shot_classification import IPUZeroShotClassificationPipeline

__all__ = [
    "NO_FEATURE_EXTRACTOR_TASKS",
    "NO_TOKENIZER_TASKS",
    "SUPPORTED_GENERATION_TASKS",
    "SUPPORTED_SEQ2SEQ_GENERATION_TASKS",
    "SUPPORTED_TASKS",
    "TASK_ALIASES",
    "IPUAudioClassificationPipeline",
    "IPUAutomaticSpeechRecognitionPipeline",
    "IPUFillMaskPipeline",
    "IPUImageClassificationPipeline",
    "IPUPipelineMixin",
    "IPUQuestionAnsweringPipeline",
    "IPUSummarizationPipeline",
    "IPUText2TextGenerationPipeline",
    "IPUTextClassificationPipeline",
    "IPUTextGenerationPipeline",
    "IPUTokenClassificationPipeline",
    "IPUTranslationPipeline",
    "IPUZeroShotClassificationPipeline",
    "QuestionAnsweringPipeline",
    "SummarizationPipeline",
    "Text2TextGenerationPipeline",
    "TranslationPipeline",
    "check_model_type",
    "get_poplar_executor",
    "list_tasks",
    "pipeline",
]
