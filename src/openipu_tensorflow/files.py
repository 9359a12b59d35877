"""SavedModels and `.keras` files as modules to plan.

In: a folder with `saved_model.pb`, or a `.keras` file, and the shapes of inputs that it leaves open. Out: the module of
its inference, and one micro-batch without data. Graph and configuration are read, never weights: nothing of the file
runs, no variable takes memory, and an op without a rule is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tensorflow as tf
from openipu.errors import InputError, OpenIpuError, TranslationError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.plain import MIB, read_bytes
from openipu.files.zips import ZipLimits, read_zip
from openipu.jobs import PlanningJob
from openipu.translate.foreign import TensorType
from openipu.translate.splitting import list_read, take_needed
from openipu.translate.tensorflow.inlining import write_out_calls
from openipu.translate.tensorflow.module import ValueModule
from openipu.translate.tensorflow.table import TABLE
from openipu.translate.tensorflow.variables import use_values
from openipu_tensorflow.engine.describing import describe_step

SIGNATURE, TAG = "serving_default", "serve"
_GRAPH, _CONFIG = "saved_model.pb", "config.json"
_LARGEST_GRAPH = 2048 * MIB  # protocol buffers hold no more
_ADVICE = "Save the model again, or check that the whole file has arrived."


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A graph of TensorFlow, with the tensors to give and to compute. `inputs`: by the names that users give them."""

    graph: Any
    inputs: Mapping[str, Any]
    outputs: Sequence[Any]


def load_job(path: Path, shapes: Mapping[str, Sequence[int]]) -> PlanningJob:
    """An inference job with the shapes of one micro-batch."""
    try:
        opened = _open_keras(path) if path.suffix == ".keras" else _open_saved_model(path)
        titles = {tensor.name: title for title, tensor in opened.inputs.items()}
        step = describe_step(
            opened.graph, inputs=list(opened.inputs.values()), outputs=opened.outputs, name=path.stem or path.name
        )
        lowered = use_values(write_out_calls(dataclasses.replace(step.graph, file=str(path))), step.handles)
    except OpenIpuError:
        raise
    except Exception as error:  # what TensorFlow and Keras raise for damaged files is anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _say_origin(path).fail(f"cannot be read as a model of TensorFlow: {first}") from error
    nodes = take_needed(lowered.graph, lowered.graph.outputs)
    kinds = _choose_shapes(path, lowered.graph.inputs, titles, shapes)
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


def _say_origin(path: Path) -> Origin:
    return Origin(str(path), TranslationError, _ADVICE)


def _open_saved_model(path: Path) -> OpenedModel:
    """The graph of the signature. TensorFlow's own loader would run what the file says to run when it is loaded."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    file = path if path.suffix == ".pb" else path / _GRAPH
    saved.ParseFromString(read_bytes(file, _say_origin(file), _LARGEST_GRAPH))
    found = next((entry for entry in saved.meta_graphs if TAG in entry.meta_info_def.tags), None)
    if found is None:
        raise TranslationError(f"{path} has no graph with the tag {TAG!r}. Export it for serving.")
    signature = found.signature_def.get(SIGNATURE)
    if signature is None:
        known = ", ".join(sorted(found.signature_def)) or "none"
        raise TranslationError(f"{path} has no signature {SIGNATURE!r}; it has: {known}. Export it with that one.")
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(found.graph_def, name="")
    inputs, outputs = (
        {name: graph.get_tensor_by_name(entry.name) for name, entry in sorted(part.items())}
        for part in (signature.inputs, signature.outputs)
    )
    return OpenedModel(graph, inputs, list(outputs.values()))


def _open_keras(path: Path) -> OpenedModel:
    """The model that the configuration describes, in a graph: its variables have shapes and no values."""
    import keras

    origin = _say_origin(path)
    content = read_zip(path, origin, ZipLimits(members=1), only=(_CONFIG,))
    if _CONFIG not in content:
        raise origin.fail(f"has no {_CONFIG}")
    config = parse_json(content[_CONFIG], dict, origin.within(_CONFIG))
    graph = tf.Graph()
    with graph.as_default():
        model = keras.saving.deserialize_keras_object({**config, "compile_config": None}, safe_mode=True)
        if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
            raise origin.fail("describes no model whose inputs are known")
        inputs = {
            entry.name: tf.compat.v1.placeholder(entry.dtype, entry.shape, name=entry.name) for entry in model.inputs
        }
        given = list(inputs.values())
        outputs = tf.nest.flatten(model(given if len(given) > 1 else given[0], training=False))
    return OpenedModel(graph, inputs, outputs)


def _choose_shapes(
    path: Path, inputs: Mapping[str, TensorType], titles: Mapping[str, str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, TensorType]:
    """Inputs with all sizes known: as the file says, or as they are given by name."""
    names = {title: name for name, title in titles.items()} | {name: name for name in titles}
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise InputError(f"{path} has no input {unknown[0]!r}. Its inputs are: {', '.join(titles.values())}.")
    given = {names[name]: tuple(sizes) for name, sizes in shapes.items()}
    found: dict[str, TensorType] = {}
    for name, kind in inputs.items():
        title = titles.get(name, name)
        chosen = TensorType(kind.dtype, given.get(name, kind.shape))
        if chosen.fixed_shape is None:
            declared = "open" if kind.shape is None else list(kind.shape)
            raise InputError(f"{path}: the shape of input {title!r} is {declared}. Say it: --input {title}=8,…")
        if kind.shape is not None and not _agree(kind.shape, chosen.fixed_shape):
            raise InputError(f"{path}: input {title!r} is {list(kind.shape)}, and {list(chosen.fixed_shape)} is given.")
        found[name] = chosen
    return found


def _agree(declared: Sequence[Any], sizes: Sequence[int]) -> bool:
    return len(declared) == len(sizes) and all(
        entry is None or entry == size for entry, size in zip(declared, sizes, strict=True)
    )
