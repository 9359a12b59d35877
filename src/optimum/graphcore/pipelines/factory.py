"""`pipeline()`: a task, done by a model on IPUs.

In: the name of a task; a model by name, directory or value; what else one wants to choose. Out: a pipeline, to be
called with texts, pictures or sounds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from optimum.utils import logging
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer, Pipeline, PreTrainedModel
from transformers.pipelines import get_task

import poptorch
from optimum.graphcore.ipu_configuration import IPU_CONFIG_NAME, IncompatibleIPUConfigError, IPUConfig
from optimum.graphcore.pipelines.executors import get_poplar_executor
from optimum.graphcore.pipelines.ipu_pipeline import make_ipu_class
from optimum.graphcore.pipelines.tasks import (
    NO_FEATURE_EXTRACTOR_TASKS,
    NO_TOKENIZER_TASKS,
    SUPPORTED_GENERATION_TASKS,
    SUPPORTED_SEQ2SEQ_GENERATION_TASKS,
    SUPPORTED_TASKS,
    TASK_ALIASES,
    find_task,
)

logger = logging.get_logger(__name__)

QUESTION_ANSWERING_LENGTH = 384


def pipeline(
    task: str | None = None,
    model: Any = None,
    ipu_config: IPUConfig | str | dict[str, Any] | None = None,
    tokenizer: Any = None,
    feature_extractor: Any = None,
    revision: str | None = None,
    use_auth_token: str | bool | None = None,
    pipeline_class: type[Any] | None = None,
    fp16: bool = True,
    parallelize_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Pipeline:
    """A pipeline for a task, as `transformers.pipeline` makes them, with its model on IPUs.

    `ipu_config` says how the model is spread. Without it the model's own `ipu_config.json` counts, else that of the
    task's usual model if it suits, else everything is on one IPU. `fp16=False` computes in float32.
    `parallelize_kwargs` go to `parallelize` of the model, all other arguments to the pipeline class.
    """
    if task is None:
        task = _find_task_of_model(model, use_auth_token)
    row = find_task(task)
    task = TASK_ALIASES.get(task, task)
    source = SUPPORTED_TASKS[row]["default"]["model"] if model is None else model
    if model is None:
        logger.warning(
            f"No model was supplied, defaulted to {source}. Using a pipeline without specifying a model name and "
            "revision in production is not recommended."
        )
    loading = {"revision": revision or "main", "token": use_auth_token}
    _check_processors(row, source, tokenizer, feature_extractor)
    loaded = _load_model(row, source, loading)
    for_generation = row in SUPPORTED_GENERATION_TASKS or (
        row == "automatic-speech-recognition" and loaded.config.is_encoder_decoder
    )
    if isinstance(loaded, PreTrainedModel):
        loaded = _spread(row, source, loaded, ipu_config, fp16, for_generation, parallelize_kwargs or {})
    if row not in NO_TOKENIZER_TASKS:
        tokenizer = _load(AutoTokenizer, source if tokenizer is None else tokenizer, loading)
    if row not in NO_FEATURE_EXTRACTOR_TASKS:
        loader = AutoImageProcessor if SUPPORTED_TASKS[row]["type"] == "image" else AutoFeatureExtractor
        feature_extractor = _load(loader, source if feature_extractor is None else feature_extractor, loading)
    if tokenizer is not None and tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # GPT-2 and its like: padding is masked anyhow
        loaded.config.pad_token_id = tokenizer.pad_token_id
    made = make_ipu_class(pipeline_class or SUPPORTED_TASKS[row]["impl"])
    arguments = {**_choose_lengths(row, for_generation, tokenizer, kwargs), **kwargs}
    return made(
        model=loaded, tokenizer=tokenizer, feature_extractor=feature_extractor, task=task, device="cpu", **arguments
    )


def _find_task_of_model(model: Any, token: str | bool | None) -> str:
    if model is None:
        raise RuntimeError(
            "Impossible to instantiate a pipeline without either a task or a model being specified. Please provide a "
            "task class or a model"
        )
    if not isinstance(model, str):
        raise RuntimeError(
            "Inferring the task automatically requires to check the Hub with a model_id defined as a `str`. "
            f"{type(model).__name__} is not a valid model_id: name the task."
        )
    task: str = get_task(model, token=token)
    return task


def _check_processors(row: str, model: Any, tokenizer: Any, feature_extractor: Any) -> None:
    """A model that is given as an object says nothing of its tokenizer."""
    if any(base.__name__ == "PeftModel" for base in type(model).__mro__):
        raise TypeError(
            "Instead of providing `model` as an instance of `PeftModel`, please call `merge_and_unload()` if LoRA or "
            "equivalent to obtain the original `PreTrainedModel` back with adapter weights merged in."
        )
    if isinstance(model, str | os.PathLike):
        return
    name = "PreTrainedModel" if isinstance(model, PreTrainedModel) else "poptorch._poplar_executor.PoplarExecutor"
    if not isinstance(model, PreTrainedModel | poptorch.PoplarExecutor):
        raise ValueError(
            f"Model {model} is not supported. Please provide a valid model either as string, PreTrainedModel or "
            "poptorch._poplar_executor.PoplarExecutor. If you don't provide a model, a default model will be used."
        )
    if tokenizer is None and row not in NO_TOKENIZER_TASKS:
        raise ValueError(f"If you pass a model as a {name}, you must pass a tokenizer as well")
    if feature_extractor is None and row not in NO_FEATURE_EXTRACTOR_TASKS:
        raise ValueError(f"If you pass a model as a {name}, you must pass a feature extractor as well")


def _load(loader: Any, source: Any, loading: dict[str, Any]) -> Any:
    """A tokenizer and its like by name or directory; an object is taken as it is."""
    return loader.from_pretrained(source, **loading) if isinstance(source, str | os.PathLike) else source


def _load_model(row: str, model: Any, loading: dict[str, Any]) -> Any:
    """The first class of the task that knows models of this kind."""
    if not isinstance(model, str | os.PathLike):
        return model
    *others, last = SUPPORTED_TASKS[row]["class"]
    for model_class in others:
        try:
            return model_class.from_pretrained(model, **loading)
        except ValueError:  # another kind of model
            continue
    return last.from_pretrained(model, **loading)


def _spread(
    row: str,
    source: Any,
    model: PreTrainedModel,
    ipu_config: IPUConfig | str | dict[str, Any] | None,
    fp16: bool,
    for_generation: bool,
    parallelize_kwargs: dict[str, Any],
) -> Any:
    if ipu_config is None and isinstance(source, str | os.PathLike) and (Path(source) / IPU_CONFIG_NAME).exists():
        ipu_config = str(source)
    if ipu_config is not None:
        return get_poplar_executor(row, model, ipu_config, fp16, for_generation, **parallelize_kwargs)
    usual = SUPPORTED_TASKS[row]["default"]["ipu_config"]
    try:
        return get_poplar_executor(row, model, usual, fp16, for_generation, **parallelize_kwargs)
    except IncompatibleIPUConfigError:
        logger.warning(
            f"No ipu_config was supplied, and {usual}, that of the usual model for {row}, does not suit "
            f"{type(model).__name__}. The model goes to one IPU. Pass ipu_config to choose."
        )
        return get_poplar_executor(row, model, IPUConfig(), fp16, for_generation, **parallelize_kwargs)


def _choose_lengths(row: str, for_generation: bool, tokenizer: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A static graph needs one length for all inputs: what the pipeline gets unless the caller says otherwise."""
    default = SUPPORTED_TASKS[row]["default"]
    names = ("max_length", "truncation", "max_input_length")
    chosen = {name: default[name] for name in names if name in default}
    if for_generation and given.keys() & {"max_new_tokens", "generation_config"}:
        chosen.pop("max_length", None)
    if row in SUPPORTED_SEQ2SEQ_GENERATION_TASKS or for_generation:
        return chosen
    length = QUESTION_ANSWERING_LENGTH if row == "question-answering" else chosen.get("max_length")
    if length is None:
        return chosen
    length = min(length, tokenizer.model_max_length)
    chosen["padding"] = "max_length"
    if "max_length" in chosen:
        chosen["max_length"] = length
    if not given.keys() & {"max_length", "max_seq_len", "padding"}:
        logger.warning(
            f"No padding arguments specified, so padding to {length} by default. Inputs longer than {length} will be "
            "truncated. Pass `padding='max_length'` and `max_length`, or for question-answering `max_seq_len`, to "
            "choose another length."
        )
    return chosen
