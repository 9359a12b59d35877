"""Sessions of a task: state by name, checkpoints, and state from another session."""

import json

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Linear
from popxl_addons.memory_maps import initialise_memmap_dir_from_checkpoint


class Loader:
    def __init__(self):
        self.position = 0

    def save(self, filename):
        with open(filename, "w") as file:
            file.write(str(self.position))

    def resume(self, filename):
        with open(filename) as file:
            self.position = int(file.read())


def make_session(features=3, **init):
    np.random.seed(features)
    ir = popxl.Ir()
    with ir.main_graph:
        inputs = addons.InputStreams(x=((2, 4), popxl.float32))
        x = ops.host_load(inputs.x)
        factories, graph = Linear(features).create_graph(x)
        state = factories.init(**init)
        (y,) = graph.bind(state).call(x)
        outputs = addons.OutputStreams(y=(y.shape, y.dtype))
        ops.host_store(outputs.y, y)
    return addons.TaskSession(inputs, outputs, addons.NamedTensors(layer=state), ir=ir, device_desc="ipu_hw")


def test_state_by_name_and_counted_runs():
    session = make_session()
    with session:
        out = session.run({session.inputs.x: np.ones((2, 4), np.float32)})
        data = session.get_named_tensors_data()
    assert session.session_state == {"steps": 1}
    np.testing.assert_allclose(out[session.outputs.y][0], data.layer.weight.sum(0), rtol=1e-5, atol=1e-6)


def test_a_checkpoint_is_loaded_again(tmp_path):
    first = make_session()
    first.dataloader = Loader()
    first.dataloader.position = 17
    first.add_session_state_info({"schedule": "linear"})
    with first:
        first.run({first.inputs.x: np.ones((2, 4), np.float32)})
        first.save_checkpoint(str(tmp_path / "one"))
        first.save_checkpoint(str(tmp_path / "two"))
        saved = first.get_named_tensors_data()
    assert not (tmp_path / "one").exists()  # one is kept
    assert json.loads((tmp_path / "two" / "session_info.json").read_text())["schedule"] == "linear"
    second = make_session()
    second.dataloader = Loader()
    with second:
        second.write_variables_data({t: np.zeros(t.shape, np.float32) for t in second.state.tensors})
        second.load_checkpoint(str(tmp_path / "two"))
        loaded = second.get_named_tensors_data()
    assert second.session_state == {"steps": 1, "schedule": "linear"}
    assert second.dataloader.position == 17
    for name, value in saved.to_dict().items():
        np.testing.assert_array_equal(loaded.get(name), value)


def test_state_of_another_session():
    train, test = make_session(), make_session()
    with train:
        train.write_variables_data({t: np.full(t.shape, 5, np.float32) for t in train.state.tensors})
        with test:
            test.load_from_session(train, report_missing="error")
            assert (test.get_named_tensors_data().layer.bias == 5).all()


def test_what_is_missing_is_reported(tmp_path):
    first = make_session()
    with first:
        first.save_checkpoint(str(tmp_path / "one"))
    (tmp_path / "one" / "model" / "layer.bias.npz").unlink()
    with first, pytest.raises(ValueError, match=r"lacks \['layer\.bias'\]"):
        first.load_checkpoint(str(tmp_path / "one"), report_missing="error")
    with pytest.raises(ValueError, match="`save` and `resume`"):
        first.dataloader = object()


def test_variables_in_mapped_files(tmp_path):
    folder = tmp_path / "variables"
    first = make_session(memmap_dir=str(folder))
    assert sorted(file.name for file in folder.iterdir()) == ["bias.npy", "weight.npy"]
    with first:
        first.write_variables_data({first.state.layer.bias: np.full(3, 4, np.float32)})
        value = first.get_named_tensors_data().layer.weight.copy()
        first.save_checkpoint(str(tmp_path / "one"))
        first.write_variables_data({first.state.layer.bias: np.full(3, 5, np.float32)})
        first.load_checkpoint(str(tmp_path / "one"), report_missing="error", skip_memmap=True)
        np.testing.assert_array_equal(first.get_named_tensors_data().layer.bias, np.full(3, 5))
        first.load_checkpoint(str(tmp_path / "one"), report_missing="error")
        np.testing.assert_array_equal(first.get_named_tensors_data().layer.bias, np.full(3, 4))
    again = make_session(memmap_dir=str(folder), read_only_if_exists=True)
    with again:
        np.testing.assert_array_equal(again.get_named_tensors_data().layer.weight, value)
    copies = tmp_path / "copies"
    copies.mkdir()
    initialise_memmap_dir_from_checkpoint(str(tmp_path / "one"), str(copies))
    assert sorted(file.name for file in copies.iterdir()) == ["bias.npy", "weight.npy"]


def test_streams_by_name_and_position():
    ir = popxl.Ir()
    with ir.main_graph:
        streams = addons.InputStreams(a=((2,), popxl.float32), b=((), popxl.int32))
        assert streams.a is streams["a"] is streams[0]
        assert streams[:] == [streams.a, streams.b]
        assert list(streams) == [streams.a, streams.b]
        assert list(addons.InputStreams.from_streams(streams)) == list(streams)
        with pytest.raises(AttributeError, match="a, b"):
            _ = streams.c
