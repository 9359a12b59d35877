"""Keras 2's places for weights and models: names without an ending.

In: `model.save_weights("run/weights")`, `load_weights` of that, `model.save("folder")`, `load_model` of that, and
`ModelCheckpoint`s with such names. Out: weights as a checkpoint of TensorFlow (`weights.index`, `weights.data-…`, and
the file `checkpoint` beside them, which `tf.train.latest_checkpoint` reads), or, by a name that ends in `.h5`, as
Keras 2 wrote such files; models as a folder with a `.keras` file.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format
from tensorflow.python.checkpoint import checkpoint_management

import tensorflow as tf
from openipu.files.saving import save_bytes

INSIDE = "model.keras"
_FILES = (".keras", ".h5", ".hdf5", ".json", ".zip")
_IGNORED = (
    "options",
    "include_optimizer",
    "load_weights_on_restart",
    "period",
)  # Keras 2 took any name, without effect


class LoadStatus:
    """What `load_weights` of Keras 2 returned. Everything that the model has was found, or it was an error."""

    def expect_partial(self) -> LoadStatus:
        return self

    assert_consumed = assert_existing_objects_matched = assert_nontrivial_match = expect_partial


def names_a_file(path: Any) -> bool:
    """Does it end as a file of Keras 3 does?"""
    return str(path).endswith(_FILES)


def list_variables(model: Any) -> Iterator[tuple[str, Any]]:
    """By place and name: layers that are made again in one process get other names, and the same places."""
    parts = {"model": model.variables, "optimizer": getattr(getattr(model, "optimizer", None), "variables", ())}
    for part, variables in parts.items():
        for place, variable in enumerate(variables):
            yield f"{part}/{place}/.ATTRIBUTES/VARIABLE_VALUE", variable


def write_checkpoint(model: Any, prefix: str) -> None:
    """Whole or not at all, as TensorFlow writes them."""
    Path(prefix).absolute().parent.mkdir(parents=True, exist_ok=True)
    held = {name: np.asarray(variable) for name, variable in list_variables(model)}
    if not held:
        raise ValueError(f"The model {model.name} has no weights yet: call it on data, or build it, before saving.")
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=list(held), shape_and_slices=[""] * len(held), tensors=list(held.values())
    )
    folder = os.path.dirname(prefix) or "."
    checkpoint_management.update_checkpoint_state_internal(folder, prefix, all_model_checkpoint_paths=[prefix])


def read_checkpoint(model: Any, prefix: str) -> LoadStatus:
    """Weights of the model, and the state of its optimizer if the file has all of it."""
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    found = dict(list_variables(model))
    inner = {name: variable for name, variable in found.items() if name.startswith("model/")}
    for name, variable in inner.items():
        if shapes.get(name) != list(variable.shape):
            raise ValueError(
                f"{prefix} has no weights of this model: for {variable.path} {list(variable.shape)} it has "
                f"{shapes.get(name, 'nothing')}. Load it into the model that it was saved from."
            )
    state = {name: variable for name, variable in found.items() if name not in inner}
    complete = all(shapes.get(name) == list(variable.shape) for name, variable in state.items())
    for name, variable in {**inner, **(state if complete else {})}.items():
        variable.assign(reader.get_tensor(name))
    return LoadStatus()


def write_h5(model: Any, path: str) -> None:
    """Keras 2's file of weights, which Keras 3 reads and does not write. Whole or not at all."""
    content = io.BytesIO()
    with legacy_h5_format.h5py.File(content, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)
    save_bytes(Path(path).absolute(), content.getvalue())


def save_weights(original: Any, self: Any, filepath: Any, overwrite: bool = True, *args: Any, **kwargs: Any) -> None:
    kind = kwargs.pop("save_format", None)
    kwargs.pop("options", None)
    path = os.fspath(filepath)
    if path.endswith((".h5", ".hdf5")) and not path.endswith(".weights.h5"):
        write_h5(self, path)
    elif names_a_file(filepath) and kind != "tf":
        original(self, filepath, overwrite, *args, **kwargs)
    else:
        write_checkpoint(self, os.fspath(filepath))


def load_weights(original: Any, self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    prefix = os.fspath(filepath)
    if os.path.exists(f"{prefix}.index"):
        return read_checkpoint(self, prefix)
    kwargs.pop("options", None)
    original(self, filepath, *args, **kwargs)
    return LoadStatus()


def save(original: Any, self: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
    for name in ("save_format", "signatures", "options", "save_traces"):
        kwargs.pop(name, None)
    if names_a_file(filepath):
        original(self, filepath, *args, **kwargs)
        return
    Path(filepath).mkdir(parents=True, exist_ok=True)
    original(self, os.path.join(filepath, INSIDE), *args, **kwargs)


def load_model(original: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    inside = os.path.join(os.fspath(filepath), INSIDE) if isinstance(filepath, str | os.PathLike) else ""
    return original(inside if inside and os.path.isfile(inside) else filepath, *args, **kwargs)


def make_callback(original: Any, self: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
    """`ModelCheckpoint`: Keras 3 takes the names of its own files alone."""
    options = kwargs.get("options")
    given = {name: value for name, value in kwargs.items() if name not in _IGNORED}
    weights = given.get("save_weights_only", args[3] if len(args) > 3 else False)
    ending = ".weights.h5" if weights else ".keras"
    original(self, f"{os.fspath(filepath).removesuffix(ending)}{ending}", *args, **given)
    self.filepath = os.fspath(filepath)
    self._options = options


def restore_checkpoints() -> None:
    """Only what Keras 3 refuses changes."""
    _replace(keras.Model, "save_weights", save_weights)
    _replace(keras.Model, "load_weights", load_weights)
    _replace(keras.Model, "save", save)
    _replace(keras.callbacks.ModelCheckpoint, "__init__", make_callback)
    import keras._tf_keras.keras as tf_keras

    places = {id(place): place for place in (keras.models, keras.saving, tf_keras.models)}
    for place in places.values():
        _replace(place, "load_model", load_model)


def _replace(place: Any, name: str, ours: Any) -> None:
    original = getattr(place, name)

    @functools.wraps(original)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return ours(original, *args, **kwargs)

    setattr(place, name, changed)
