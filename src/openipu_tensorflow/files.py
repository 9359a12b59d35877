"""SavedModels and `.keras` files as modules to plan.

In: a folder with `saved_model.pb`, or a `.keras` file, and the shapes of inputs that it leaves open. Out: the module of
its inference, and one micro-batch without data. TensorFlow reads the file; nothing of its graph runs on the host, so
that an op without a rule is refused here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import tensorflow as tf
from openipu.errors import InputError, OpenIpuError, TranslationError
from openipu.jobs import PlanningJob
from openipu.translate.foreign import TensorType
from openipu.translate.splitting import list_read, take_needed
from openipu.translate.tensorflow.inlining import write_out_calls
from openipu.translate.tensorflow.module import ValueModule
from openipu.translate.tensorflow.table import TABLE
from openipu.translate.tensorflow.variables import use_values
from openipu_tensorflow.engine.describing import describe_step

SIGNATURE = "serving_default"


def load_job(path: Path, shapes: Mapping[str, Sequence[int]]) -> PlanningJob:
    """An inference job with the shapes of one micro-batch; weights are not looked at."""
    try:
        function = _load_keras(path) if path.suffix == ".keras" else _load_saved_model(path)
    except OpenIpuError:
        raise
    except Exception as error:  # what TensorFlow and Keras raise for damaged files is anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TranslationError(f"{path} cannot be read as a model of TensorFlow: {first}") from error
    graph = function.graph
    captured = {inner.name for _, inner in graph.captures}
    inputs = [tensor for tensor in graph.inputs if tensor.name not in captured]
    step = describe_step(graph, inputs=inputs, outputs=graph.outputs, name=path.stem or path.name)
    lowered = use_values(write_out_calls(dataclasses.replace(step.graph, file=str(path))), step.handles)
    nodes = take_needed(lowered.graph, lowered.graph.outputs)
    kinds = _choose_shapes(path, lowered.graph.inputs, shapes)
    variables = {name: step.variables[name] for name in list_read(nodes, lowered.graph.outputs, step.variables)}
    module = ValueModule(
        dataclasses.replace(lowered.graph, nodes=nodes, inputs=kinds),
        TABLE,
        variables=variables,
        wanted=lowered.graph.outputs,
        written={},
        constants=step.constants,
    )
    given = tuple(torch.empty(kind.fixed_shape or (), dtype=kind.dtype, device="meta") for kind in kinds.values())
    return PlanningJob(model=module, args=given, name=path.stem or path.name)


def _load_saved_model(path: Path) -> Any:
    loaded = tf.saved_model.load(str(path))
    found = loaded.signatures.get(SIGNATURE)
    if found is None:
        known = ", ".join(sorted(loaded.signatures)) or "none"
        raise TranslationError(f"{path} has no signature {SIGNATURE!r}; it has: {known}. Export it with that one.")
    found._openipu_owner = loaded  # its variables live as long as it does
    return found


def _load_keras(path: Path) -> Any:
    import keras

    model = keras.models.load_model(path, compile=False, safe_mode=True)
    specs = [tf.TensorSpec(entry.shape, entry.dtype, name=entry.name) for entry in model.inputs]
    return tf.function(
        lambda *inputs: model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)
    ).get_concrete_function(*specs)


def _choose_shapes(
    path: Path, inputs: Mapping[str, TensorType], shapes: Mapping[str, Sequence[int]]
) -> dict[str, TensorType]:
    """Inputs with all sizes known: as the file says, or as they are given by name, with or without its `:0`."""
    short = {name.rpartition(":")[0]: name for name in inputs}
    given = {short.get(name, name): tuple(sizes) for name, sizes in shapes.items()}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise InputError(f"{path} has no input {unknown[0]!r}. Its inputs are: {', '.join(short)}.")
    found: dict[str, TensorType] = {}
    for name, kind in inputs.items():
        chosen = TensorType(kind.dtype, given.get(name, kind.shape))
        if chosen.fixed_shape is None:
            title = name.rpartition(":")[0]
            declared = "open" if kind.shape is None else list(kind.shape)
            raise InputError(f"{path}: the shape of input {title!r} is {declared}. Say it: --input {title}=8,…")
        if kind.shape is not None and not _agree(kind.shape, chosen.fixed_shape):
            raise InputError(f"{path}: input {name!r} is {list(kind.shape)}, and {list(chosen.fixed_shape)} is given.")
        found[name] = chosen
    return found


def _agree(declared: Sequence[Any], sizes: Sequence[int]) -> bool:
    return len(declared) == len(sizes) and all(
        entry is None or entry == size for entry, size in zip(declared, sizes, strict=True)
    )
