"""Data by functions: streams that are connected to callbacks, and `PyStepIOCallback`."""

import ctypes

import numpy as np
import pytest

import popart

find_address = ctypes.pythonapi.PyCapsule_GetPointer
find_address.restype = ctypes.c_void_p
find_address.argtypes = (ctypes.py_object, ctypes.c_char_p)


def view(capsule, count):
    """The numbers that a capsule points to."""
    address = find_address(capsule, None)
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))


def make_session(batches=2, replicas=1):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3]), "x")
    y = builder.aiOnnx.add([x, x])
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, [y]),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
        userOptions=options,
    )
    session.prepareDevice()
    return session, x, y


def test_a_callback_fills_every_micro_batch_of_its_input():
    session, x, y = make_session()
    calls = []

    def fill(capsule):
        calls.append(len(calls))
        view(capsule, 3)[:] = [len(calls), 0, -1]

    session.connectStreamToCallback(f"h2d_{x}", fill)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    np.testing.assert_array_equal(anchors[y], [[2, 0, -2], [4, 0, -2]])


def test_a_callback_gets_every_micro_batch_of_its_anchor():
    session, x, y = make_session()
    seen = []
    session.connectStreamToCallback(f"d2h_{y}", lambda capsule: seen.append(view(capsule, 3).copy()))
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    session.run(popart.PyStepIO({x: data}, {}))
    np.testing.assert_array_equal(seen, 2 * data)


def test_a_callback_of_one_replica_leaves_the_others_to_the_step():
    session, x, y = make_session(batches=1, replicas=2)
    session.connectStreamToCallback(f"h2d_{x}", lambda capsule: view(capsule, 3).fill(5), 1)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.ones((2, 3), np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[y], [[2, 2, 2], [10, 10, 10]])


def test_streams_that_are_not_there_are_refused_by_name():
    session, x, y = make_session()
    with pytest.raises(popart.popart_exception, match=rf"no stream 'h2d_z'\. Streams are d2h_{y}, h2d_{x}"):
        session.connectStreamToCallback("h2d_z", print)
    with pytest.raises(popart.popart_exception, match="no replica 3: the session has 1"):
        session.connectStreamToCallback(f"h2d_{x}", print, 3)
    with pytest.raises(TypeError, match="to a function, not to int"):
        session.connectStreamToCallback(f"h2d_{x}", 3)


def test_step_callbacks_are_asked_and_told_in_order_for_each_micro_batch():
    session, x, y = make_session()
    told, results = [], [np.empty(3, np.float32) for _ in range(2)]
    data = iter([np.full(3, 1, np.float32), np.full(3, 2, np.float32)])
    waiting = iter(results)

    def ask(name, prefetch):
        told.append(("ask", name))
        return next(data)

    def give(name):
        told.append(("give", name))
        return next(waiting)

    step = popart.PyStepIOCallback(
        ask, lambda name: told.append(("asked", name)), give, lambda name: told.append(("given", name))
    )
    session.run(step)
    np.testing.assert_array_equal(results, [[2] * 3, [4] * 3])
    assert told == [("ask", x), ("asked", x)] * 2 + [("give", y), ("given", y)] * 2


def test_a_step_callback_without_data_is_an_error_that_names_the_input():
    session, x, _ = make_session()
    step = popart.PyStepIOCallback(
        lambda name, prefetch: None, lambda name: None, lambda name: np.empty(3, np.float32), lambda name: None
    )
    with pytest.raises(popart.popart_exception, match=f"The input callback has no data for '{x}'"):
        session.run(step)
