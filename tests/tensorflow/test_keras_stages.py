"""Pipeline stages of Sequential, functional and subclassed models."""

from __future__ import annotations

import keras
import pytest
from keras_help import LAYERS, make_strategy

import tensorflow as tf
from openipu_tensorflow import keras as ipu_keras
from openipu_tensorflow.graphs.places import STAGE
from openipu_tensorflow.keras.running.tracing import Mode, count_stages, trace_step
from openipu_tensorflow.keras.stages.assigning import find_assignments

PipelineStage = ipu_keras.PipelineStage


@pytest.fixture
def scope():
    with make_strategy(2).scope():
        yield


def make_sequential():
    return keras.Sequential([keras.Input((4,)), *(LAYERS.Dense(4, name=f"dense_{place}") for place in range(3))])


def make_functional():
    inputs = keras.Input((4,))
    with PipelineStage(0):
        left = LAYERS.Dense(4, name="left")(inputs)
        right = LAYERS.Dense(4, name="right")(inputs)
    with PipelineStage(1):
        both = LAYERS.Add(name="both")([left, right])
        outputs = LAYERS.Dense(2, name="out")(both)
    return keras.Model(inputs, outputs)


def test_a_stage_needs_the_scope_of_a_strategy():
    with pytest.raises(RuntimeError, match="within an IPUStrategy context"), PipelineStage(0):
        pass


@pytest.mark.usefixtures("scope")
def test_stages_are_counted_from_0_and_not_nested():
    with pytest.raises(ValueError, match="-1 is not a valid pipeline stage"), PipelineStage(-1):
        pass
    with PipelineStage(0), pytest.raises(RuntimeError, match="must not be nested"), PipelineStage(1):
        pass
    with PipelineStage(1):  # the scope before has ended
        pass


@pytest.mark.usefixtures("scope")
def test_stages_of_a_functional_model_come_from_its_code():
    found = make_functional().get_pipeline_stage_assignment()
    assert {entry.layer.name: entry.pipeline_stage for entry in found} == {"left": 0, "right": 0, "both": 1, "out": 1}
    assert str(found[-1]) == "Layer: out (node index 0) is assigned to pipeline stage: 1"


@pytest.mark.usefixtures("scope")
def test_where_a_layer_is_called_counts_before_where_it_is_made():
    inputs = keras.Input((4,))
    with PipelineStage(0):
        shared = LAYERS.Dense(4, name="shared")
        first = shared(inputs)
    with PipelineStage(1):
        model = keras.Model(inputs, shared(first))
    assert [entry.pipeline_stage for entry in model.get_pipeline_stage_assignment()] == [0, 1]


@pytest.mark.usefixtures("scope")
def test_a_layer_without_a_stage_beside_others_is_an_error():
    inputs = keras.Input((4,))
    with PipelineStage(0):
        hidden = LAYERS.Dense(4)(inputs)
    model = keras.Model(inputs, LAYERS.Dense(4, name="lonely")(hidden))
    with pytest.raises(ValueError, match="However, lonely has not been assigned to one"):
        find_assignments(model)


@pytest.mark.usefixtures("scope")
def test_a_sequential_model_takes_a_list_of_stages():
    model = make_sequential()
    assert find_assignments(model) is None
    model.set_pipeline_stage_assignment([0, 0, 1])
    assert [entry.pipeline_stage for entry in model.get_pipeline_stage_assignment()] == [0, 0, 1]
    assert count_stages(model, None) == 2
    model.reset_pipeline_stage_assignment()
    assert find_assignments(model) is None


@pytest.mark.usefixtures("scope")
@pytest.mark.parametrize(
    ("given", "phrase"),
    [
        ((0, 0, 1), "needs to be a list"),
        ([0, 1], r"\(2\) does not match the number of layers in the graph \(3\)"),
        ([1, 1, 2], "needs to be assigned to the 0th pipeline stage"),
        ([0, 2, 2], "has been assigned to pipeline stage 2, however the previous layer"),
        ([0, 1, 0], "has been assigned to pipeline stage 0, however the previous layer"),
        ([0, "1", 1], "must be an instance of"),
    ],
)
def test_lists_that_make_no_pipeline_are_refused(given, phrase):
    model = make_sequential()
    with pytest.raises(ValueError, match=phrase):
        model.set_pipeline_stage_assignment(given)
    assert find_assignments(model) is None


@pytest.mark.usefixtures("scope")
def test_no_layer_reads_from_a_later_stage():
    model = make_functional()
    found = model.get_pipeline_stage_assignment()
    for entry in found:
        entry.pipeline_stage = 1 if entry.layer.name == "left" else 0
    with pytest.raises(ValueError, match="dependency from a pipeline stage which has not yet been executed"):
        model.set_pipeline_stage_assignment(found)


@pytest.mark.usefixtures("scope")
def test_assignments_are_for_the_layers_of_the_model_in_their_order():
    model = make_functional()
    found = model.get_pipeline_stage_assignment()
    with pytest.raises(ValueError, match="does not match the post-order"):
        model.set_pipeline_stage_assignment([*found[1:], found[0]])


@pytest.mark.usefixtures("scope")
def test_the_summary_is_a_table():
    lines: list[str] = []
    make_functional().print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert lines[1] == "_" * 89
    assert lines[2].split() == ["Layer", "(type)", "(node", "index)", "Input", "Layers", "Pipeline", "Stage"]
    row = next(line for line in lines if line.startswith("both"))
    assert row.split() == ["both", "(Add)", "(0)", "left", "1"]
    assert lines[lines.index(row) + 1].split() == ["right"]
    lines.clear()
    model = make_sequential()
    model.set_pipeline_stage_assignment([0, 1, 1])
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert lines[1] == "_" * 60
    assert lines[4].split() == ["dense_0", "(Dense)", "0"]


def read_stages(model, mode=Mode.FIT):
    """The stages of the products in a traced step, by the layer in their names."""
    types = (tf.TensorSpec((2, 4), tf.float32), tf.TensorSpec((2,), tf.int32))
    graph = trace_step(model, mode, types).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert products
    return {(op.name, op.get_attr(STAGE)) for op in products}


def compile_for_tracing(model):
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)


@pytest.mark.usefixtures("scope")
def test_ops_and_their_gradients_are_on_the_stages_of_their_layers():
    model = make_functional()
    compile_for_tracing(model)
    found = read_stages(model)
    for name, stage in found:
        assert stage == (1 if "/out" in name else 0), name
    assert any(name.startswith("gradient_tape/") for name, _ in found)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        with PipelineStage(0):
            self.first = LAYERS.Dense(4, name="first")
        self.second = LAYERS.Dense(2, name="second")

    def call(self, x):
        x = self.first(x)
        with PipelineStage(1):
            return self.second(x)


@pytest.mark.usefixtures("scope")
def test_a_subclassed_model_says_its_stages_in_its_call():
    model = Subclassed()
    model(tf.zeros((2, 4)))
    compile_for_tracing(model)
    for name, stage in read_stages(model):
        assert stage == (1 if "second" in name else 0), name
