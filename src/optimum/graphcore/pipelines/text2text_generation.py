"""Text to text on IPUs: summaries, translations, and whatever else a model was trained for.

In: texts. Out: texts. Transformers 5 has no pipelines for these tasks any more; these return what those of version
4 did. Inputs are padded to `max_input_length`.
"""

from __future__ import annotations

from typing import Any

from optimum.utils import logging
from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, Pipeline

from optimum.graphcore.pipelines.ipu_pipeline import IPUPipelineMixin

logger = logging.get_logger(__name__)


class Text2TextGenerationPipeline(Pipeline):
    """Returns [{"generated_text": …}], or with `return_tensors` [{"generated_token_ids": …}]."""

    tokenizer: Any
    return_name = "generated"
    _pipeline_calls_generate = True
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check_model_type([kind.__name__ for kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING.values()])

    def _sanitize_parameters(
        self,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        truncation: Any = None,
        stop_sequence: str | list[str] | None = None,
        max_input_length: int | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        **generate_kwargs: Any,
    ) -> Any:
        given = {
            "truncation": truncation,
            "max_input_length": max_input_length,
            "src_lang": src_lang,
            "tgt_lang": tgt_lang,
        }
        preprocess = {name: value for name, value in given.items() if value is not None}
        if stop_sequence is not None:
            generate_kwargs |= {"stop_strings": stop_sequence, "tokenizer": self.tokenizer}
        postprocess: dict[str, Any] = {}
        if return_tensors is not None or return_text is not None:
            postprocess["return_tensors"] = bool(return_tensors) and not return_text
        if clean_up_tokenization_spaces is not None:
            postprocess["clean_up_tokenization_spaces"] = clean_up_tokenization_spaces
        return preprocess, generate_kwargs, postprocess

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One text, or a list of texts; a list gives one result for each text, or a list if several were asked for."""
        results = super().__call__(*args, **kwargs)
        is_list_of_texts = bool(args) and isinstance(args[0], list) and all(isinstance(text, str) for text in args[0])
        if is_list_of_texts and all(len(result) == 1 for result in results):
            return [result[0] for result in results]
        return results

    def check_inputs(self, input_length: int, min_length: int, max_length: int) -> bool:
        """Whether the lengths make sense for the task. If not, a warning says why."""
        return True

    def preprocess(
        self,
        text: str,
        truncation: Any = True,
        max_input_length: int | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> Any:
        if not isinstance(text, str):
            raise ValueError(
                f"{self.task} takes a text or a list of texts, not {text!r}. Give strings, one for each input."
            )
        settings = {"truncation": truncation, "return_tensors": "pt"}
        if max_input_length is not None:
            settings |= {"padding": "max_length", "max_length": max_input_length}
        if src_lang is not None and hasattr(self.tokenizer, "_build_translation_inputs"):
            inputs = self.tokenizer._build_translation_inputs(text, src_lang=src_lang, tgt_lang=tgt_lang, **settings)
        else:
            inputs = self.tokenizer(self._find_prefix() + text, **settings)
        inputs.pop("token_type_ids", None)  # no argument of `generate`
        return inputs

    def _forward(self, model_inputs: dict[str, Any], **generate_kwargs: Any) -> dict[str, Any]:
        settings = self._prepare_generate_kwargs(generate_kwargs)
        known = self._get_set_generation_params(settings)
        rows, length = model_inputs["input_ids"].shape
        self.check_inputs(length, known.get("min_length") or 0, known.get("max_length") or length)
        tokens = self.model.generate(**model_inputs, **settings)
        return {"output_ids": tokens.reshape(rows, len(tokens) // rows, *tokens.shape[1:])}

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        return_tensors: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[dict[str, Any]]:
        sequences = model_outputs["output_ids"][0]
        if return_tensors:
            return [{f"{self.return_name}_token_ids": sequence} for sequence in sequences]
        settings = {"skip_special_tokens": True, "clean_up_tokenization_spaces": clean_up_tokenization_spaces}
        return [{f"{self.return_name}_text": self.tokenizer.decode(sequence, **settings)} for sequence in sequences]

    def _find_prefix(self) -> str:
        """What a model such as T5 wants to read before the text, for this task."""
        config = self.model.config
        for_task = (getattr(config, "task_specific_params", None) or {}).get(self.task, {})
        return for_task.get("prefix") or getattr(config, "prefix", None) or ""


class SummarizationPipeline(Text2TextGenerationPipeline):
    """Returns [{"summary_text": …}]."""

    return_name = "summary"

    def check_inputs(self, input_length: int, min_length: int, max_length: int) -> bool:
        """A summary is shorter than the text."""
        if max_length < min_length:
            logger.warning(f"Your min_length={min_length} must be inferior than your max_length={max_length}.")
        if input_length < max_length:
            logger.warning(
                f"Your max_length is set to {max_length}, but your input_length is only {input_length}. A summary is "
                f"shorter than its text: choose a lower max_length, such as {max(1, input_length // 2)}."
            )
        return input_length >= max_length >= min_length


class TranslationPipeline(Text2TextGenerationPipeline):
    """Returns [{"translation_text": …}]. The languages may be in the task: "translation_en_to_de"."""

    return_name = "translation"

    def _sanitize_parameters(self, src_lang: str | None = None, tgt_lang: str | None = None, **kwargs: Any) -> Any:
        words = self.task.split("_")
        if len(words) == 4 and src_lang is None and tgt_lang is None:  # translation_en_to_de
            src_lang, tgt_lang = words[1], words[3]
        return super()._sanitize_parameters(src_lang=src_lang, tgt_lang=tgt_lang, **kwargs)


class IPUText2TextGenerationPipeline(IPUPipelineMixin, Text2TextGenerationPipeline):
    """Text to text on IPUs."""


class IPUSummarizationPipeline(IPUPipelineMixin, SummarizationPipeline):
    """Summaries on IPUs."""


class IPUTranslationPipeline(IPUPipelineMixin, TranslationPipeline):
    """Translations on IPUs."""
