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


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """A whole `.keras` file, and the graph of a whole SavedModel."""
    folder = tmp_path_factory.mktemp("saved")
    model.save(folder / "small.keras")
    model.export(folder / "small", verbose=False)
    return {"keras": folder / "small.keras", "saved": folder / "small" / "saved_model.pb"}


@pytest.mark.parametrize("share", [0.05, 0.5, 0.97])
@pytest.mark.parametrize("kind", ["keras", "saved"])
def test_a_file_that_has_arrived_in_part_is_refused_on_the_command_line(kind, share, saved, tmp_path, capsys):
    whole = saved[kind].read_bytes()
    path = tmp_path / ("part.keras" if kind == "keras" else "part/saved_model.pb")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(whole[: int(len(whole) * share)])
    target = path if kind == "keras" else path.parent
    assert main(["plan", str(target), "--input", "image=4,8,8,3"]) == 2
    told = capsys.readouterr().err
    assert "part" in told
    assert "Traceback" not in told


def test_only_the_configuration_of_a_keras_file_is_read(saved, tmp_path):
    """Neither its weights, which are random bytes here, nor what else is in the zip."""
    import zipfile

    path = tmp_path / "small.keras"
    with zipfile.ZipFile(saved["keras"]) as found, zipfile.ZipFile(path, "w") as written:
        written.writestr("config.json", found.read("config.json"))
        written.writestr("model.weights.h5", b"no weights")
        written.writestr("../outside", b"")
    assert load_job(path, {"image": [4, 8, 8, 3]}).args[0].shape == (4, 8, 8, 3)


def test_a_configuration_that_would_fill_memory_is_refused(tmp_path):
    import zipfile

    path = tmp_path / "bomb.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("config.json", b" " * (200 << 20))
    with pytest.raises(TranslationError, match="too much"):
        load_job(path, {})


def test_large_layers_take_no_memory(tmp_path):
    """128 GiB of weights, which nobody makes."""
    layers = [keras.Input((1 << 17,), 1, name="x"), keras.layers.Dense(4)]
    small = keras.Sequential(layers)
    small.save(tmp_path / "large.keras")
    import zipfile

    with zipfile.ZipFile(tmp_path / "large.keras") as found:
        config = found.read("config.json").replace(b'"units": 4', b'"units": 262144')
    with zipfile.ZipFile(tmp_path / "large.keras", "w") as written:
        written.writestr("config.json", config)
    job = load_job(tmp_path / "large.keras", {})
    assert max(weight.numel() for weight in job.model.parameters()) == 1 << 35


def test_nothing_of_a_saved_model_runs_when_it_is_read(tmp_path):
    """TensorFlow's loader would fill the table from its file."""
    words = tmp_path / "words.txt"
    words.write_text("one\ntwo\n")
    fill = tf.lookup.TextFileInitializer(
        str(words), tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
    )

    class Lookup(tf.Module):
        def __init__(self):
            self.table = tf.lookup.StaticHashTable(fill, "")

        @tf.function(input_signature=[tf.TensorSpec((2,), tf.int64)])
        def __call__(self, x):
            return tf.strings.length(self.table.lookup(x))

    module = Lookup()
    tf.saved_model.save(module, str(tmp_path / "lookup"), signatures=module.__call__)
    words.unlink()
    (tmp_path / "lookup" / "assets" / "words.txt").unlink()
    from openipu.jobs import run_job

    with pytest.raises(TranslationError, match=r"a text|HashTable"):
        run_job(load_job(tmp_path / "lookup", {}))
