"""TensorFlow's table and training steps against what TensorFlow computed: `record_tensorflow.py` wrote it down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorflow_cases import CASES, TITLES
from tensorflow_records import unpack_graph

from openipu.errors import TranslationError
from openipu.graph import RunOptions
from openipu.run import Executable
from openipu.session import plan_captured
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.interpret import Interpreter
from openipu.translate.tensorflow.steps import StepGraph, capture_step
from openipu.translate.tensorflow.table import TABLE

FOLDER = Path(__file__).parent
VALUES = np.load(FOLDER / "tensorflow_values.npz")
STEPS = np.load(FOLDER / "tensorflow_steps.npz")
FIRST = {title.split(" ")[1]: title for title in reversed(TITLES)}  # one case of each op
# The 103 kinds of ops in training steps of a CNN, ResNet-50, EfficientNet, LSTM, GRU, transformer and U-Net; handles of
# variables are not among them, as they become values.
CENSUS = """
    Conv2D Const Reshape Squeeze BiasAdd Relu MaxPool Mul AddV2 FloorMod Cast StatelessRandomGetKeyCounter
    StatelessRandomUniformV2 Sub GreaterEqual SelectV2 MatMul Softmax Pack Slice ConcatV2
    SoftmaxCrossEntropyWithLogits Sum Prod DivNoNan Neg Tile ExpandDims LogSoftmax BiasAddGrad MaxPoolGrad
    ReluGrad ShapeN Conv2DBackpropInput Conv2DBackpropFilter Identity IdentityN NoOp Less StridedSlice GatherV2
    Transpose TensorListReserve TensorListFromTensor Split Sigmoid Tanh Range Max While TensorListStack Select Exp
    Log1p Mean Maximum FloorDiv RealDiv Reciprocal AddN StridedSliceGrad ZerosLike VariableShape Fill
    EmptyTensorList StatelessWhile InvertPermutation Pow Sqrt UnsortedSegmentSum Square TensorListGetItem
    TensorListSetItem LogicalAnd TensorListPushBack TensorListLength TensorListElementShape TensorListPopBack
    SigmoidGrad TanhGrad BatchMatMulV2 Einsum StopGradient SquaredDifference Rsqrt Erfc
    SparseSoftmaxCrossEntropyWithLogits RsqrtGrad BroadcastGradientArgs Greater AvgPool AvgPoolGrad ConcatOffset
    DepthwiseConv2dNative Equal DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter Pad
"""


def open_case(title):
    graph = unpack_graph(json.loads(VALUES[f"{title}/graph"].tobytes()))
    inputs = [torch.from_numpy(np.array(VALUES[f"{title}/in/{place}"])) for place in range(len(graph.inputs))]
    return graph, inputs, [VALUES[f"{title}/out/{place}"] for place in range(len(graph.outputs))]


@pytest.mark.parametrize("title", TITLES)
def test_a_rule_computes_what_tensorflow_recorded(title):
    graph, inputs, wanted = open_case(title)
    found = Interpreter(TABLE).run(graph, dict(zip(graph.inputs, inputs, strict=True)))
    for name, value in zip(graph.outputs, wanted, strict=True):
        assert tuple(found[name].shape) == value.shape
        assert str(found[name].dtype).removeprefix("torch.") == value.dtype.name
        np.testing.assert_allclose(found[name].numpy(), value, rtol=1e-5, atol=2e-5 if value.dtype.kind == "f" else 0)


@pytest.mark.parametrize("title", FIRST.values())
def test_a_rule_is_captured_and_planned(title):
    graph, _, wanted = open_case(title)
    captured = capture_step(StepGraph(graph=graph, handles={}, variables={}), name=title)
    program, plan = plan_captured(captured.program, options=RunOptions())
    assert [entry.shape for entry in program.micro.outputs] == [value.shape for value in wanted]
    assert plan.fit.fits


def open_step(title):
    """A recorded training step, its data, and the values of its variables before and after."""
    record = json.loads(STEPS[f"{title}/step"].tobytes())
    variables = {
        name: TensorType(getattr(torch, dtype.removeprefix("torch.")), tuple(shape))
        for name, (dtype, shape) in record["variables"].items()
    }
    graph = unpack_graph(record["graph"])
    step = StepGraph(graph=graph, handles=record["handles"], variables=variables, marks=record["marks"])
    before = {name: torch.from_numpy(np.array(STEPS[f"{title}/before/{name}"])) for name in variables}
    return step, [torch.from_numpy(STEPS[f"{title}/{key}"]) for key in "xy"], before


@pytest.mark.parametrize("title", ["convolutions", "lstm", "attention"])
def test_a_training_step_is_cut_and_gives_the_losses_and_weights_that_tensorflow_recorded(title):
    step, data, before = open_step(title)
    captured = capture_step(step, name=title)
    assert captured.entangled == ""
    executable = Executable(captured.program, RunOptions(training=True))
    parameters = {name: before[name].clone() for name in captured.parameters}
    buffers = {name: before[name].clone() for name in captured.buffers}
    executable.load_weights(parameters, buffers)
    executable.load_state({key: before[name] for name, key in captured.states.items()})
    losses = [float(executable.run(data).outputs[0]) for _ in range(5)]
    np.testing.assert_allclose(losses, STEPS[f"{title}/losses"], rtol=1e-5)
    executable.read_weights(parameters, buffers)
    state = executable.state
    found = {**parameters, **buffers, **{name: state[key] for name, key in captured.states.items()}}
    for name, value in found.items():
        # The gradient of a key's bias is zero but for rounding, which Adam turns into steps.
        near = 1e-4 if name.endswith("key/bias") else 1e-5
        np.testing.assert_allclose(value.numpy(), STEPS[f"{title}/after/{name}"], rtol=1e-4, atol=near, err_msg=name)


def test_loading_state_builds_no_engine_anew_and_counts_from_the_next_run_on():
    step, data, before = open_step("convolutions")
    captured = capture_step(step, name="convolutions")

    def start():
        executable = Executable(captured.program, RunOptions(training=True))
        executable.load_weights(*({name: before[name].clone() for name in names} for names in kept))
        executable.load_state({key: before[name] for name, key in captured.states.items()})
        return executable

    kept = captured.parameters, captured.buffers
    executable, fresh = start(), start()
    engine = executable._supervisor.start()
    executable.run(data)
    executable.load_weights(*({name: before[name].clone() for name in names} for names in kept))
    executable.load_state({key: before[name] for name, key in captured.states.items()})
    assert executable._supervisor.start() is engine
    for _ in range(2):
        assert torch.equal(executable.run(data).outputs[0], fresh.run(data).outputs[0])
    assert executable._supervisor.start() is engine
    assert all(torch.equal(value, fresh.state[key]) for key, value in executable.state.items())


@pytest.mark.parametrize("title", ["convolutions", "lstm", "attention"])
def test_accumulated_micro_batches_write_statistics_each_time_and_update_once(title):
    step, data, before = open_step(title)
    captured = capture_step(step, name=title)
    options = RunOptions(training=True, gradient_accumulation=2, broadcast_buffers=False)
    executable = Executable(captured.program, options)
    executable.load_weights(
        {name: before[name].clone() for name in captured.parameters},
        {name: before[name].clone() for name in captured.buffers},
    )
    executable.load_state({key: before[name] for name, key in captured.states.items()})
    executable.run([torch.cat([value, value]) for value in data])
    once = Executable(captured.program, RunOptions(training=True))
    once.load_weights(
        {name: before[name].clone() for name in captured.parameters},
        {name: before[name].clone() for name in captured.buffers},
    )
    once.load_state({key: before[name] for name, key in captured.states.items()})
    once.run(data)
    for key, value in once.state.items():  # the mean of two equal gradients is that gradient
        np.testing.assert_allclose(executable.state[key].numpy(), value.numpy(), rtol=1e-4, atol=1e-6, err_msg=key)


def test_the_table_has_every_kind_of_the_census():
    known = {op for _, op in TABLE.list_ops()}
    assert [op for op in CENSUS.split() if op not in known] == []


def test_most_rules_have_a_recorded_value():
    recorded = {case.op for case in CASES}
    known = {op for _, op in TABLE.list_ops()}
    assert recorded <= known
    assert len(recorded) > 0.6 * len(known)


def test_an_unknown_op_is_named():
    node = ForeignNode("NoSuchOp", ("x",), ("y",), name="layer/op")
    graph = ForeignGraph("graph", (node,), {"x": TensorType(torch.float32, (2,))}, ("y",))
    with pytest.raises(TranslationError, match=r"layer/op.*NoSuchOp"):
        Interpreter(TABLE).run(graph, {"x": torch.ones(2)})
