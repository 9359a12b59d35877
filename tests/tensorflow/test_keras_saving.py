"""Settings for IPUs in saved models and configs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import keras
import numpy
import pytest
from keras_help import LAYERS, compile_model, make_data, make_strategy

from openipu_tensorflow import keras as ipu_keras
from openipu_tensorflow.keras.methods import options_of


def make_pipelined():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((8,))
    with ipu_keras.PipelineStage(0):
        hidden = LAYERS.Dense(16, activation="tanh", name="hidden")(inputs)
    with ipu_keras.PipelineStage(1):
        return keras.Model(inputs, LAYERS.Dense(3, activation="softmax", name="classes")(hidden))


def make_sequential():
    model = keras.Sequential([keras.Input((8,)), LAYERS.Dense(4), LAYERS.Dense(3, activation="softmax")])
    model.set_pipeline_stage_assignment([0, 1])
    return model


def make_nested():
    """A model inside another, each layer on a stage of its own."""
    inner_input = keras.Input((8,))
    inner = keras.Model(inner_input, LAYERS.Dense(6, name="inside")(inner_input), name="inner")
    inputs = keras.Input((8,))
    model = keras.Model(inputs, LAYERS.Dense(3, activation="softmax", name="outside")(inner(inputs)))
    nested, outside = model.get_pipeline_stage_assignment()
    nested.pipeline_stage_assignments[0].pipeline_stage = 0
    outside.pipeline_stage = 1
    model.set_pipeline_stage_assignment([nested, outside])
    return model


def list_stages(assignments):
    return [
        list_stages(entry.pipeline_stage_assignments) if entry.is_nested_model else entry.pipeline_stage
        for entry in assignments
    ]


def set_all(model):
    model.set_gradient_accumulation_options(4, "mean")
    model.set_pipelining_options(8, device_mapping=[0, 1], gradient_accumulation_reduction_method="running_mean")
    model.set_replication_options("SUM")
    model.set_asynchronous_callbacks(True)


@pytest.mark.parametrize("way", ["file", "config"])
@pytest.mark.parametrize("make", [make_pipelined, make_sequential, make_nested])
def test_settings_come_back(make, way, tmp_path):
    with make_strategy(2).scope():
        model = make()
        set_all(model)
        if way == "file":
            model.save(tmp_path / "model.keras")
            loaded = keras.models.load_model(tmp_path / "model.keras")
        else:
            loaded = type(model).from_config(model.get_config())
    assert options_of(loaded) == options_of(model)
    stages = list_stages(model.get_pipeline_stage_assignment())
    assert list_stages(loaded.get_pipeline_stage_assignment()) == stages
    assert stages[-1] == 1


def test_a_loaded_pipeline_trains_as_the_saved_one_would(tmp_path):
    x, y = make_data(32)
    found = []
    with make_strategy(2).scope():
        model = make_pipelined()
        model.set_pipelining_options(4, gradient_accumulation_reduction_method="mean")
        compile_model(model, 4).save(tmp_path / "model.keras")
        for each in (model, keras.models.load_model(tmp_path / "model.keras")):
            each.fit(x, y, batch_size=8, shuffle=False, verbose=0)
            found.append(each.get_weights())
    for one, other in zip(*found, strict=True):
        numpy.testing.assert_array_equal(other, one)


def test_models_without_settings_have_the_config_of_stock_keras():
    with make_strategy().scope():
        model = keras.Sequential([keras.Input((8,)), LAYERS.Dense(4)])
    assert "ipu_config" not in model.get_config()


def test_stock_keras_reads_the_file(tmp_path):
    """In a process that has none of this: the start-up hook is left out with -S, and packages are put back by hand."""
    with make_strategy(2).scope():
        model = make_pipelined()
        set_all(model)
        model.save(tmp_path / "model.keras")
    code = (
        f"import sys; sys.path = {sys.path!r}\n"
        "import keras\n"
        f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r})\n"
        "assert not hasattr(model, 'set_pipelining_options')\n"
        "assert not any(name.startswith('openipu') for name in sys.modules)\n"
        "print(model.count_params())"
    )
    found = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=120)
    assert found.stdout.strip() == str(8 * 16 + 16 + 16 * 3 + 3), found.stderr[-2000:]


@pytest.mark.parametrize(
    ("settings", "phrase"),
    [
        (7, "are no dictionary"),
        ({"options": [1]}, "are no dictionary"),
        ({"options": {"gradient_accumulation_steps_per_replica": -3}}, "positive integer"),
        ({"options": {"pipelining_device_mapping": "all"}}, "list of integers"),
        ({"stages": [["hidden", 0]]}, "are not those of its layers"),
        ({"stages": [["hidden", 0], ["classes", "last"]]}, "layer classes was saved as 'last'"),
        ({"stages": [["hidden", 0], 1]}, "A stage that was saved"),
    ],
)
def test_damaged_settings_are_refused(settings, phrase, tmp_path):
    with make_strategy(2).scope():
        make_pipelined().save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    assert config["ipu_config"]["stages"] == [["hidden", 0], ["classes", 1]]
    parts["config.json"] = json.dumps({**config, "ipu_config": settings}).encode()
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=phrase):
        keras.models.load_model(tmp_path / "model.keras")
