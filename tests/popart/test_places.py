"""Where nodes are, and what PopART refuses about them."""

import numpy as np
import onnx
import pytest

import popart


def make_device(ipus):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus})


def build_sum(places):
    """Two sums and their sum, on these virtual graphs; None: on none."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    first, second = builder.aiOnnx.add([x, x]), builder.aiOnnx.add([x, x])
    last = builder.aiOnnx.add([first, second])
    for name, place in zip((first, second, last), places, strict=True):
        if place is not None:
            builder.virtualGraph(name, place)
    return builder, last


def make_session(builder, anchor, mode=popart.VirtualGraphMode.Manual, ipus=2):
    options = popart.SessionOptions()
    options.virtualGraphMode = mode
    return popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [anchor]), make_device(ipus), userOptions=options
    )


def test_all_ops_have_a_virtual_graph_or_none_has():
    make_session(*build_sum((0, 1, 1)))
    make_session(*build_sum((None, None, None)))
    message = r"Either all Ops must have their virtual graph ids set, or none must: there are 1 on 0, 1 on 1, and 1 "
    with pytest.raises(popart.popart_exception, match=message):
        make_session(*build_sum((0, 1, None)))


def test_constants_and_what_is_made_of_them_are_nowhere():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4]), "x")
    shape = builder.aiOnnx.constant(np.array([2, 2], np.int64))
    with builder.virtualGraph(0):
        last = builder.aiOnnx.reshape([x, shape])
    make_session(builder, last)


def test_a_virtual_graph_without_an_ipu_is_refused_with_the_copies_that_it_would_get():
    session = make_session(*build_sum((0, 0, 10)), ipus=4)
    with pytest.raises(popart.popart_exception, match=r"inputs=\[Add:0_c10, Add:0/1_c10\].* invalid virtual graph 10"):
        session.prepareDevice()


def test_automatic_virtual_graphs_need_an_op_for_each_ipu():
    make_session(*build_sum((None,) * 3), mode=popart.VirtualGraphMode.Auto, ipus=2)
    with pytest.raises(popart.popart_exception, match="Couldn't find enough splits for 4 IPUs"):
        make_session(*build_sum((None,) * 3), mode=popart.VirtualGraphMode.Auto, ipus=4)


def test_patterns_that_an_op_is_kept_from_are_known_by_name():
    builder, last = build_sum((None,) * 3)
    builder.excludePatterns(last, ["PostNRepl"])
    make_session(builder, last, mode=popart.VirtualGraphMode.Off)
    builder, last = build_sum((None,) * 3)
    builder.excludePatterns(last, ["NoSuchPattern"])
    with pytest.raises(popart.popart_exception, match="Invalid pattern name 'NoSuchPattern'"):
        make_session(builder, last, mode=popart.VirtualGraphMode.Off)


def test_numbers_of_8_bits_are_cast_before_they_are_reckoned_with():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("INT8", [2]), "x")
    bad = builder.aiOnnx.add([x, x])
    wide = builder.aiOnnx.cast([x], "FLOAT")
    good = builder.aiOnnx.add([wide, wide])
    make_session(builder, good, mode=popart.VirtualGraphMode.Off)
    session = make_session(builder, bad, mode=popart.VirtualGraphMode.Off)
    with pytest.raises(popart.poplar_exception, match="reckons with int8 numbers"):
        session.prepareDevice()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (None, r'in subgraph ".*" does not have a virtual graph id'),
        (0, r"The virtual graph id \(0\) .* does not match the virtual graph id \(1\) of the calling op"),
    ],
)
def test_in_a_pipeline_a_subgraph_is_on_the_ipu_of_its_caller(place, message):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("INT32", [2]))
    inner = builder.createSubgraphBuilder()
    own = inner.addInputTensor(popart.TensorInfo("INT32", [2]))
    made = inner.aiOnnx.add([own, own])
    inner.addOutputTensor(made)
    if place is not None:
        inner.virtualGraph(made, place)
    with builder.virtualGraph(0), builder.pipelineStage(0):
        first = builder.aiOnnx.add([x, x])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        last = builder.aiGraphcore.call([first], 1, inner)[0]
    options = popart.SessionOptions()
    options.enablePipelining, options.virtualGraphMode = True, popart.VirtualGraphMode.Manual
    with pytest.raises(popart.popart_exception, match=message):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(4, [last]), make_device(2), userOptions=options
        )


def test_sizes_that_a_file_leaves_open_by_minus_one_are_asked_for():
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3, 2]), "x")
    y = builder.aiOnnx.relu([x])
    model = onnx.load_from_string(builder.getModelProto())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    flow, device = popart.DataFlow(1, [y]), make_device(1)
    with pytest.raises(popart.popart_exception, match=r"as it has shape \[-1, 2\], which uses an unknown value '-1'"):
        popart.InferenceSession(model.SerializeToString(), flow, device)
    sizes = popart.InputShapeInfo()
    sizes.add(x, popart.TensorInfo("FLOAT", [5, 2]))
    session = popart.InferenceSession(model.SerializeToString(), flow, device, inputShapeInfo=sizes)
    assert session.getInfo(y).shape() == [5, 2]
