"""SavedModels and `.keras` files on the command line."""

from __future__ import annotations

import json

import keras
import pytest

import tensorflow as tf
from openipu.cli.main import main
from openipu.errors import InputError, TranslationError
from openipu_tensorflow.files import load_job


@pytest.fixture(scope="module")
def model():
    layers = keras.layers
    parts = [layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
    return keras.Sequential([keras.Input((8, 8, 3), name="image"), *parts])


def read_plan(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["keras", "saved"])
def test_a_model_is_planned_for_a_given_batch(kind, model, tmp_path, capsys):
    path = tmp_path / ("small.keras" if kind == "keras" else "small")
    if kind == "keras":
        model.save(path)
        name = "image"
    else:
        model.export(path, verbose=False)
        name = next(iter(tf.saved_model.load(path).signatures["serving_default"].structured_input_signature[1]))
    assert main(["plan", "--json", str(path), "--input", f"{name}=4,8,8,3"]) == 0
    assert "small" in json.dumps(read_plan(capsys))


def test_an_open_batch_is_asked_for(model, tmp_path):
    model.save(tmp_path / "small.keras")
    with pytest.raises(InputError, match="--input image=8"):
        load_job(tmp_path / "small.keras", {})
    with pytest.raises(InputError, match="is given"):
        load_job(tmp_path / "small.keras", {"image": [4, 9, 8, 3]})
    with pytest.raises(InputError, match="has no input 'picture'"):
        load_job(tmp_path / "small.keras", {"picture": [4, 8, 8, 3]})


@pytest.mark.parametrize("name", ["damaged.keras", "damaged/saved_model.pb"])
def test_a_damaged_file_is_refused_with_its_name(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x08\x01\x12\xff\xff no model")
    with pytest.raises(TranslationError, match=r"damaged.*cannot be read"):
        load_job(path if path.suffix == ".keras" else path.parent, {})


def test_an_op_of_the_host_is_refused_and_does_not_run(tmp_path):
    class Writer(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((2,))])
        def __call__(self, x):
            return tf.numpy_function(lambda x: x, [x], tf.float32) + 1

    module = Writer()
    tf.saved_model.save(module, str(tmp_path / "writer"), signatures=module.__call__)
    job = load_job(tmp_path / "writer", {})
    from openipu.jobs import run_job

    with pytest.raises(TranslationError, match="PyFunc"):
        run_job(job)
