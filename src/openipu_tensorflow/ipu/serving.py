"""`ipu.serving`: models as SavedModels, to be loaded and run on an IPU elsewhere.

In: a function, or the stages of a pipeline, with the shapes of their inputs. Out: a folder that `tf.saved_model.load`
reads; `IPUStrategy.run` of its signature runs the model on a device, and so does what is returned here. A SavedModel
holds the graph with the stages of its ops, and the values of its variables; programs are compiled where it is loaded,
so that `iterations` is only checked.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from openipu_tensorflow.graphs.places import STAGE
from openipu_tensorflow.ipu.pipelines.enums import PipelineSchedule, parse_enumeration
from openipu_tensorflow.ipu.scopes import ipu_shard
from openipu_tensorflow.ipu.serving_graphs import FirstValues, save_graph

_SIGNATURE = "serving_default"


def export_single_step(
    predict_step: Callable[..., Any],
    export_dir: Any,
    iterations: int,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
    variable_initializer: Callable[[Any], Any] | None = None,
    checkpoint_restore_dir: Any = None,
) -> Any:
    """Save a function of one step, with functions of the host before and after it.

    variable_initializer, checkpoint_restore_dir: in graphs of TensorFlow 1, what gives variables their values.
    """
    first_values = FirstValues(variable_initializer, checkpoint_restore_dir)
    _check_iterations(iterations)
    first, given = preprocessing_step or predict_step, preprocessing_step_signature
    given = given if preprocessing_step is not None else predict_step_signature
    specs = _find_specs(first, given, input_dataset)
    steps = [step for step in (preprocessing_step, predict_step, postprocessing_step) if step is not None]
    return _save(_chain(steps), _name_specs(first, specs), export_dir, output_names, purge_export_dir, first_values)


def export_pipeline(
    computational_stages: Sequence[Callable[..., Any]],
    export_dir: Any,
    iterations: int,
    inputs: Sequence[Any] | None = None,
    device_mapping: Sequence[int] | None = None,
    pipeline_schedule: Any = None,
    poplar_options: Any = None,
    name: str | None = None,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
    variable_initializer: Callable[[Any], Any] | None = None,
    checkpoint_restore_dir: Any = None,
) -> Any:
    """Save stages, each marked with its IPU; `inputs` are values of the first one's first arguments."""
    first_values = FirstValues(variable_initializer, checkpoint_restore_dir)
    _check_iterations(iterations)
    parse_enumeration(pipeline_schedule, PipelineSchedule, PipelineSchedule.Grouped, "pipeline_schedule")
    if poplar_options is not None:
        raise NotImplementedError("poplar_options: a saved model has no options of libraries. Leave them out.")
    places = list(range(len(computational_stages))) if device_mapping is None else list(device_mapping)
    if len(places) != len(computational_stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: {len(places)} mappings != {len(computational_stages)} stages"
        )
    fixed = list(inputs or ())
    stages = [
        _place(stage, number, place)
        for number, (stage, place) in enumerate(zip(computational_stages, places, strict=True))
    ]
    stages[0] = _bind(stages[0], fixed)
    first = computational_stages[0]
    if preprocessing_step is None:
        specs = _find_specs(first, predict_step_signature, input_dataset, len(fixed))
        named = _name_specs(first, specs, len(fixed))
    else:
        named = _name_specs(
            preprocessing_step, _find_specs(preprocessing_step, preprocessing_step_signature, input_dataset)
        )
    steps = [step for step in (preprocessing_step, *stages, postprocessing_step) if step is not None]
    return _save(_chain(steps), named, export_dir, output_names, purge_export_dir, first_values)


def export_keras(
    model: Any,
    export_dir: Any,
    batch_size: int | None = None,
    output_names: Any = None,
    preprocessing_step: Callable[..., Any] | None = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Callable[..., Any] | None = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Save what `model.predict` computes for one batch."""
    specs = []
    for entry in model.inputs:
        shape = [batch_size if entry.shape[0] is None else entry.shape[0], *entry.shape[1:]]
        if None in shape:
            raise ValueError(f"The shape of {entry.name} is {tuple(shape)}: say the batch_size.")
        specs.append(tf.TensorSpec(shape, entry.dtype, entry.name))

    def predict(*values: Any) -> Any:
        return model(values[0] if len(values) == 1 else list(values), training=False)

    first, given = preprocessing_step or predict, preprocessing_step_signature
    found = specs if preprocessing_step is None else _find_specs(first, given, None)
    steps = [step for step in (preprocessing_step, predict, postprocessing_step) if step is not None]
    return _save(_chain(steps), _name_specs(first, found), export_dir, output_names, purge_export_dir)


def _check_iterations(iterations: Any) -> None:
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"iterations must be a whole number of at least 1, not {iterations!r}.")


def _find_specs(function: Any, given: Any, dataset: Any, skipped: int = 0) -> list[Any]:
    """The inputs of the exported function: as given, or as the function or a data set has them."""
    own = getattr(function, "input_signature", None)
    if given is not None:
        found = list(given) if isinstance(given, (list, tuple)) else [given]
        named = _list_parameters(function)
        return found[skipped:] if named and len(found) == len(named) else found
    if own is not None:
        return list(own)[skipped:]
    if dataset is None:
        raise ValueError(
            "The shapes of the inputs are not known: give a signature, an input_dataset, or a tf.function with an "
            "input_signature."
        )
    element = dataset.element_spec
    return list(element) if isinstance(element, (list, tuple)) else [element]


def _list_parameters(function: Any) -> list[str]:
    plain = getattr(function, "python_function", function)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, entry in inspect.signature(plain).parameters.items() if entry.kind in kinds]


def _name_specs(function: Any, specs: Sequence[Any], skipped: int = 0) -> list[Any]:
    names = _list_parameters(function)[skipped:]
    names += [f"input_{place}" for place in range(len(names), len(specs))]
    return [
        tf.TensorSpec(spec.shape, spec.dtype, _clean(spec.name or name))
        for spec, name in zip(specs, names, strict=False)
    ]


def _chain(steps: Sequence[Callable[..., Any]]) -> Callable[..., list[Any]]:
    """One function after the other; each gets what the one before it returned."""

    def run(*values: Any) -> list[Any]:
        given = list(values)
        for step in steps:
            returned = _unwrap(step)(*given)
            given = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        return list(tf.nest.flatten(given))

    return run


def _unwrap(step: Callable[..., Any]) -> Callable[..., Any]:
    """In a graph of TensorFlow 1, the ops of a function are the graph's own."""
    from tensorflow.python.framework import ops

    return step if tf.executing_eagerly() or ops.inside_function() else getattr(step, "python_function", step)


def _bind(stage: Callable[..., Any], fixed: Sequence[Any]) -> Callable[..., Any]:
    """Values of its first arguments: tensors of the graph that is saved, whichever graph is the script's."""

    def run(*values: Any) -> Any:
        given = [tf.convert_to_tensor(value) for value in fixed]
        return stage(*given, *values)

    return run if fixed else stage


def _place(stage: Callable[..., Any], number: int, place: int) -> Callable[..., Any]:
    @contextlib.contextmanager
    def mark() -> Iterator[None]:
        from tensorflow.core.framework import attr_value_pb2

        graph = tf.compat.v1.get_default_graph()
        with graph._attr_scope({STAGE: attr_value_pb2.AttrValue(i=number)}), ipu_shard(place):
            yield

    def run(*values: Any) -> Any:
        with mark():
            return _unwrap(stage)(*values)

    return run


def _save(
    run: Callable[..., list[Any]],
    specs: Sequence[Any],
    export_dir: Any,
    output_names: Any,
    purge: bool,
    first: FirstValues = FirstValues(),  # noqa: B008 (frozen)
) -> Any:
    folder = os.fspath(export_dir)
    if os.path.isdir(folder) and os.listdir(folder):
        if not purge:
            raise ValueError(f"Directory {folder} is not empty. Choose another one, or set purge_export_dir=True.")
        shutil.rmtree(folder)
    names = [output_names] if isinstance(output_names, str) else output_names
    if not tf.executing_eagerly():
        return save_graph(run, specs, folder, names, first)
    if first != FirstValues():
        raise ValueError(
            "variable_initializer and checkpoint_restore_dir are for graphs of TensorFlow 1. With eager execution, "
            "give variables their values before the export."
        )

    def serve(*values: Any) -> dict[str, Any]:
        found = run(*values)
        titles = [f"output_{place}" for place in range(len(found))] if names is None else list(names)
        if len(titles) != len(found):
            raise ValueError(f"The model has {len(found)} outputs, and output_names are {titles}.")
        return dict(zip(titles, found, strict=True))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(spec.name, kind) for spec in specs]
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function = tf.function(serve, input_signature=list(specs), autograph=False)
    concrete = function.get_concrete_function()
    module = tf.Module()
    module.function = function
    module.held = list(concrete.graph.variables)
    tf.saved_model.save(module, folder, signatures={_SIGNATURE: concrete})
    return tf.function(run, input_signature=list(specs), autograph=False)


def _clean(name: str) -> str:
    """As an argument of Python."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
