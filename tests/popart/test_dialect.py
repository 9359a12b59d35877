"""Where results of PopART are not those that ONNX's own words would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import popart

Array = np.ndarray[Any, Any]


@pytest.fixture
def infer(device: popart.DeviceInfo) -> Callable[..., Array]:
    """Run one op's result, and give it back."""

    def run(
        builder: popart.Builder, wanted: str, data: dict[str, Array], options: popart.SessionOptions | None = None
    ) -> Array:
        flow = popart.DataFlow(1, {wanted: popart.AnchorReturnType("All")})
        session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
        results = session.initAnchorArrays()
        session.prepareDevice()
        session.run(popart.PyStepIO(data, results))
        return results[wanted]

    return run


@pytest.mark.parametrize(("first", "second"), [((2, 3), (1,)), ((2, 3), ()), ((), ())])
@pytest.mark.parametrize("turned", [False, True])
def test_a_float_times_half_numbers_gives_half_numbers(infer, first, second, turned) -> None:
    builder = popart.Builder()
    half, single = np.full(first, 3.0, np.float16), np.full(second, 1.5, np.float32)
    a, b = (builder.addInputTensor(popart.TensorInfo(one)) for one in (half, single))
    found = infer(builder, builder.aiOnnx.mul([b, a] if turned else [a, b]), {a: half, b: single})
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, np.full(first, 4.5).astype(np.float16))


@pytest.mark.parametrize("strided", [False, True])
def test_groups_of_channels_are_neighbours_or_strided(infer, strided: bool) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 6, 3)).astype(np.float32)
    scale, bias = rng.standard_normal((2, 6)).astype(np.float32)
    builder = popart.Builder()
    names = [
        builder.addInputTensor(popart.TensorInfo(x)),
        *(builder.addInitializedInputTensor(one) for one in (scale, bias)),
    ]
    options = popart.SessionOptions()
    options.groupNormStridedChannelGrouping = strided
    found = infer(builder, builder.aiGraphcore.groupnormalization(names, 2, 1e-5)[0], {names[0]: x}, options)
    order = [0, 2, 4, 1, 3, 5] if strided else list(range(6))  # channel c is of group c % 2
    parts = (torch.tensor(x[:, order]), torch.tensor(scale[order]), torch.tensor(bias[order]))
    wanted = torch.nn.functional.group_norm(parts[0], 2, *parts[1:], 1e-5)
    np.testing.assert_allclose(found[:, order], wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_an_anchor_may_have_no_elements(infer) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3])
    nothing = builder.aiGraphcore.slice([x], starts=[9], ends=[9], axes=[1])
    assert infer(builder, nothing, {x: np.ones((4, 3), np.float32)}).shape == (4, 0)


def test_a_graph_of_nothing_but_a_call_has_the_opset_of_what_it_calls(infer) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 3])
    body = builder.createSubgraphBuilder()
    inside = body.addUntypedInputTensor()
    body.addOutputTensor(body.reshape_const(body.aiOnnx, [inside], [3, 4]))
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = infer(builder, builder.aiGraphcore.call([x], 1, body)[0], {x: data})
    np.testing.assert_array_equal(found, data.reshape(3, 4))
