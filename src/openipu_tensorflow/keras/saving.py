"""Settings for IPUs in what Keras saves: accumulation, pipelines, the stage of each layer.

In: models that are saved, or made into a config. Out: the settings beside the model's config, in a `.keras` file and in
`get_config()`; they hold again for the model that is made from it. As with the original, options that were given by
keyword are not kept. Stock Keras reads such a file too, and knows nothing of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras.src.models.functional import Functional
from keras.src.saving import saving_lib, serialization_lib

from openipu_tensorflow.keras.methods import options_of, set_options
from openipu_tensorflow.keras.options import (
    ModelOptions,
    replace_options,
    set_accumulation,
    set_pipelining,
)
from openipu_tensorflow.keras.reductions import ReplicatedMetricReductionMethod
from openipu_tensorflow.keras.stages import assigning

_KEY = "ipu_config"


def describe_settings(model: Any) -> dict[str, Any] | None:
    """What was set, as JSON has it; None where nothing was."""
    found: dict[str, Any] = {}
    options, usual = options_of(model), ModelOptions()
    if options != usual:
        found["options"] = {
            "gradient_accumulation_steps_per_replica": options.accumulation,
            "gradient_accumulation_reduction_method": options.accumulation_reduction.name,
            "pipelining_gradient_accumulation_steps_per_replica": options.pipeline_accumulation,
            "pipelining_gradient_accumulation_reduction_method": options.pipeline_reduction.name,
            "pipelining_device_mapping": None if options.device_mapping is None else list(options.device_mapping),
            "pipelining_accumulate_outfeed": options.accumulate_outfeed,
            "replicated_metric_reduction_method": options.metric_reduction.name,
            "asynchronous_callbacks": options.asynchronous_callbacks,
        }
    stages = _describe_stages(assigning.describe(model)) if assigning.has_assignments(model) else []
    if stages:
        found["stages"] = stages
    return found or None


def _describe_stages(assignments: Sequence[Any]) -> list[Any]:
    return [
        [entry.layer.name, _describe_stages(entry.pipeline_stage_assignments)]
        if entry.is_nested_model
        else [entry.layer.name, entry.pipeline_stage]
        for entry in assignments
    ]


def restore_settings(model: Any, settings: Any) -> None:
    """Set them again. They may come from a file of others."""
    if not isinstance(settings, Mapping) or not isinstance(settings.get("options", {}), Mapping):
        raise ValueError(f"The settings for IPUs of {model.name} are no dictionary, but {settings!r}: {_REMEDY}")
    given = settings.get("options")
    if given:
        set_options(model, _read_options(given))
    if settings.get("stages"):
        current = assigning.describe(model)
        _set_stages(model, current, settings["stages"])
        assigning.keep(model, current)


_REMEDY = "the file is damaged. Save the model again, or remove its ipu_config."


def _read_options(given: Mapping[str, Any]) -> ModelOptions:
    """Checked like those that a script sets."""
    prefix = "pipelining_"
    steps, method = "gradient_accumulation_steps_per_replica", "gradient_accumulation_reduction_method"
    options = set_accumulation(ModelOptions(), given.get(steps), given.get(method, "sum"), {})
    options = set_pipelining(
        options,
        given.get(prefix + steps),
        given.get(f"{prefix}device_mapping"),
        given.get(f"{prefix}accumulate_outfeed"),
        given.get(prefix + method, "sum"),
        {},
    )
    return replace_options(
        options,
        metric_reduction=ReplicatedMetricReductionMethod.parse(given.get("replicated_metric_reduction_method", "NONE")),
        asynchronous_callbacks=bool(given.get("asynchronous_callbacks", False)),
    )


def _set_stages(model: Any, current: Sequence[Any], said: Any) -> None:
    if not isinstance(said, Sequence) or len(said) != len(current):
        raise ValueError(f"The stages that were saved with {model.name} are not those of its layers: {_REMEDY}")
    for entry, pair in zip(current, said, strict=True):
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"A stage that was saved with {model.name} is {pair!r}: {_REMEDY}")
        stage = pair[1]
        if entry.is_nested_model:
            _set_stages(entry.layer, entry.pipeline_stage_assignments, stage)
        elif stage is not None and (type(stage) is not int or stage < 0):
            raise ValueError(f"The stage of layer {entry.layer.name} was saved as {stage!r}: {_REMEDY}")
        else:
            entry.pipeline_stage = stage


def install_saving() -> None:
    """From now on Keras saves them."""
    for kind in (Functional, keras.Sequential):
        kind.get_config = _add_settings(kind.get_config)
    for kind in (keras.Model, keras.Sequential):
        kind.from_config = classmethod(_take_settings(kind.__dict__["from_config"].__func__))
    _write_beside_config()
    serialization_lib.deserialize_keras_object = _read_beside_config(serialization_lib.deserialize_keras_object)
    saving_lib.deserialize_keras_object = serialization_lib.deserialize_keras_object


def _add_settings(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_config(self: Any) -> Any:
        config, settings = original(self), describe_settings(self)
        return config if settings is None else {**config, _KEY: settings}

    return get_config


def _take_settings(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def from_config(cls: Any, config: Any, custom_objects: Any = None) -> Any:
        settings = config.get(_KEY)
        if settings is None:
            return original(cls, config, custom_objects)
        model = original(cls, {key: value for key, value in config.items() if key != _KEY}, custom_objects)
        restore_settings(model, settings)
        return model

    return from_config


def _write_beside_config() -> None:
    original = serialization_lib.get_build_and_compile_config

    @functools.wraps(original)
    def write(obj: Any, config: Any) -> None:
        original(obj, config)
        if isinstance(obj, keras.Model) and isinstance(config.get("config"), dict):
            config["config"].pop(_KEY, None)
            settings = describe_settings(obj)
            if settings is not None:
                config[_KEY] = settings

    serialization_lib.get_build_and_compile_config = write


def _read_beside_config(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read(config: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(config, *args, **kwargs)
        if isinstance(config, dict) and _KEY in config and isinstance(found, keras.Model):
            restore_settings(found, config[_KEY])
        return found

    return read
