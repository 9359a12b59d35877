"""Results of common ops are those of PyTorch's meta kernels, and a small program does without what these import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from openipu.capture.record.plain_results import _LIKE, _RULES, make_plain_result

aten = torch.ops.aten
F32, F16, I64, BOOL = torch.float32, torch.float16, torch.int64, torch.bool


def meta(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


IMAGES, WEIGHT = meta(2, 4, 9, 11), meta(6, 4, 3, 2)
NARROW, GROUPED = meta(2, 1, 9, 11), meta(8, 2, 3, 3)
PLACES = meta(2, 4, 4, 5, dtype=I64)
WINDOW = ([2, 1], [1, 0], [1, 2], False, [0, 0], 1)
STATISTICS = (meta(4), meta(4))
LAYER = (meta(2, 3, 5), meta(2, 3, 5), [5], meta(2, 3, 1), meta(2, 3, 1), meta(5), meta(5))
CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (IMAGES, meta(1, 4, 1, 1))),
    (aten.add.Tensor, (meta(11), IMAGES)),
    (aten.sub.Tensor, (meta(5, 1), meta(5, 1))),
    (aten.sub.Tensor, (meta(3, dtype=F16), 2)),
    (aten.div.Tensor, (IMAGES, meta(9, 1))),
    (aten.mul.Tensor, (meta(5), meta(5, dtype=BOOL))),
    (aten.mul.Tensor, (meta(5, 2, dtype=I64), meta(5, 2, dtype=F16))),
    *((func, (IMAGES,)) for func in (aten.relu.default, aten.exp.default, aten.expm1.default, aten.log.default)),
    *((func, (meta(3, 1, dtype=F16),)) for func in (aten.tanh.default, aten.sigmoid.default, aten.abs.default)),
    (aten.pow.Tensor_Scalar, (IMAGES, 2)),
    (aten.eq.Scalar, (meta(7, dtype=I64), -100)),
    (aten.ne.Scalar, (meta(7), 0.5)),
    *((func, (meta(7, 2), 1)) for func in (aten.ge.Scalar, aten.gt.Scalar, aten.le.Scalar, aten.lt.Scalar)),
    *((func, (meta(7, dtype=BOOL),) * 2) for func in (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor)),
    (aten.div.Scalar, (IMAGES, 2)),
    (aten.div.Scalar, (meta().expand(3, 2), 2)),
    (aten.mul.Tensor, (meta().expand(3, 2), meta(3, 2))),
    (aten.mul.Tensor, (meta().expand(3, 2), meta().expand(3, 2))),
    (aten.threshold_backward.default, (meta().expand(2, 4, 9, 11), IMAGES, 0)),
    (aten.sum.dim_IntList, (meta().expand(3, 2), [0])),
    (aten.convolution.default, (meta().expand(2, 4, 9, 11), WEIGHT, None, *WINDOW)),
    (aten.mul.Scalar, (IMAGES, 0.5)),
    (aten.mean.default, (IMAGES,)),
    (aten.sum.default, (IMAGES,)),
    (aten.where.self, (meta(7, dtype=BOOL), meta(7, dtype=I64), meta(7, dtype=I64))),
    (aten.where.self, (meta(3, 7, dtype=BOOL), meta(), meta(7))),
    (aten.threshold_backward.default, (IMAGES, IMAGES, 0)),
    (aten._softmax.default, (meta(3, 5), -1, False)),
    (aten._log_softmax.default, (meta(3, 5, dtype=F16), 1, False)),
    (aten._softmax_backward_data.default, (meta(3, 5), meta(3, 5), 1, F32)),
    (aten._log_softmax_backward_data.default, (meta(3, 5), meta(3, 5), -1, F32)),
    (aten.mean.dim, (IMAGES, [0, -1, 2])),
    (aten.mean.dim, (IMAGES, [1], True)),
    (aten.sum.dim_IntList, (meta(3, 5), [0], True)),
    (aten.sum.dim_IntList, (meta(3, 5), [])),
    (aten.sum.dim_IntList, (meta(3, 5), None, True)),
    (aten.mm.default, (meta(3, 5), meta(5, 2))),
    (aten.mm.default, (meta(5, 3).t(), meta(2, 5).t())),
    (aten.addmm.default, (meta(2), meta(3, 5), meta(2, 5).t())),
    (aten.addmm.default, (meta(3, 2), meta(3, 5), meta(5, 2))),
    (aten.gather.default, (meta(3, 5), 1, meta(3, 7, dtype=I64))),
    (aten.gather.default, (meta(3, 5), -2, meta(1, 5, dtype=I64))),
    (aten.scatter_add.default, (meta(3, 5), 1, meta(3, 1, dtype=I64), meta(3, 1))),
    (aten.stack.default, ([meta(3), meta(3), meta(3)],)),
    (aten.stack.default, ([meta(), meta()],)),
    (aten.convolution.default, (IMAGES, WEIGHT, meta(6), *WINDOW)),
    (aten.convolution.default, (IMAGES, WEIGHT, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    (aten.convolution.default, (IMAGES, GROUPED, meta(8), [1, 1], [1, 1], [2, 2], False, [0, 0], 2)),
    (aten.convolution.default, (NARROW, meta(6, 1, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    (aten.convolution.default, (meta(3, 4, 1, 1), meta(6, 4, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)),
    (aten.convolution_backward.default, (meta(2, 6, 5, 9), IMAGES, WEIGHT, [6], *WINDOW, [True, True, True])),
    (aten.convolution_backward.default, (meta(2, 6, 5, 9), IMAGES, WEIGHT, None, *WINDOW, [False, True, False])),
    (aten.max_pool2d_with_indices.default, (IMAGES, [2, 2])),
    (aten.max_pool2d_with_indices.default, (IMAGES, [3, 2], [2, 1], [1, 0], [1, 2])),
    (aten.max_pool2d_with_indices.default, (IMAGES, [3], [2], [1])),
    (
        aten.max_pool2d_with_indices_backward.default,
        (meta(2, 4, 4, 5), IMAGES, [2, 2], [2, 2], [0, 0], [1, 1], False, PLACES),
    ),
    (aten._native_batch_norm_legit.default, (IMAGES, *STATISTICS, meta(4), meta(4), True, 0.1, 1e-5)),
    (aten._native_batch_norm_legit.no_stats, (IMAGES, *STATISTICS, True, 0.1, 1e-5)),
    (aten._native_batch_norm_legit_no_training.default, (IMAGES, *STATISTICS, meta(4), meta(4), 0.1, 1e-5)),
    (
        aten.native_batch_norm_backward.default,
        (IMAGES, IMAGES, meta(4), meta(4), meta(4), *STATISTICS, True, 1e-5, [True, True, True]),
    ),
    (aten.div.Scalar, (meta(1, 1).expand(3, 1), 2)),
    (aten.mul.Tensor, (meta(1, 1, 1).expand(1, 3, 1), meta(1, 3, 1))),
    *((func, (IMAGES, meta(11))) for func in (aten.maximum.default, aten.minimum.default)),
    *((func, (IMAGES,)) for func in (aten.neg.default, aten.sqrt.default, aten.rsqrt.default, aten.reciprocal.default)),
    *((func, (IMAGES,)) for func in (aten.sin.default, aten.cos.default, aten.erf.default, aten.floor.default)),
    (aten.rsub.Scalar, (IMAGES, 1)),
    *((func, (IMAGES,)) for func in (aten.gelu.default, aten.silu.default, aten.elu.default, aten.softplus.default)),
    (aten.leaky_relu.default, (IMAGES, 0.1)),
    (aten.elu.default, (IMAGES, 0.1, 1, 2.0)),
    (aten.clamp.default, (IMAGES, None, 6)),
    (aten.clamp.default, (meta(3, dtype=F16), 0.0, 6.0)),
    *((func, (IMAGES, IMAGES)) for func in (aten.gelu_backward.default, aten.silu_backward.default)),
    *((func, (meta(1, 1).expand(3, 2), meta(3, 2))) for func in (aten.tanh_backward.default,)),
    (aten.sigmoid_backward.default, (meta(3, dtype=F16), meta(3, dtype=F16))),
    (aten.native_dropout.default, (IMAGES, 0.1, True)),
    (aten.native_layer_norm.default, (meta(2, 3, 5), [5], meta(5), meta(5), 1e-5)),
    (aten.native_layer_norm.default, (meta(2, 3, 5), [3, 5], None, None, 1e-5)),
    (aten.native_layer_norm_backward.default, (*LAYER, [True, True, True])),
    (aten.native_layer_norm_backward.default, (*LAYER, [True, False, True])),
    (aten.bmm.default, (meta(2, 3, 5), meta(2, 5, 4))),
    (aten.bmm.default, (meta(2, 5, 3).transpose(1, 2), meta(2, 4, 5).transpose(1, 2))),
    (aten.embedding.default, (meta(9, 4), meta(2, 3, dtype=I64))),
    (aten.embedding.default, (meta(9, 4, dtype=F16), meta(3, dtype=torch.int32), 0)),
    (aten.embedding_dense_backward.default, (meta(2, 3, 4), meta(2, 3, dtype=I64), 9, -1, False)),
    (aten.new_zeros.default, (IMAGES, [2, 3])),
    (aten.new_ones.default, (meta(3, dtype=I64), [])),
    (aten.new_full.default, (meta(4, 3).t(), [2, 3], 0.5)),
    (aten.slice_backward.default, (meta(2, 1, 5), [2, 3, 5], 1, -1, 9, 1)),
    (aten.select_backward.default, (meta(2, 5), [2, 3, 5], 1, -1)),
    (aten.cat.default, ([meta(2, 3), meta(2, 4)], -1)),
    (aten.cat.default, ([meta(2, 3), meta(1, 3)],)),
    (aten._adaptive_avg_pool2d.default, (IMAGES, [1, 1])),
    (aten._adaptive_avg_pool2d_backward.default, (meta(2, 4, 3, 2), IMAGES)),
]
TURNED = IMAGES.contiguous(memory_format=torch.channels_last)
LEFT: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (meta(5, 1), meta(1, 3))),  # neither has the shape of the result
    (aten.add.Tensor, (meta(5), meta(4))),
    (aten.add.Tensor, (meta(5), meta(5, dtype=F16))),
    (aten.add.Tensor, (TURNED, TURNED)),
    (aten.mul.Tensor, (meta(5), True)),
    (aten.mul.Tensor, (meta(5), meta(dtype=torch.float64))),
    (aten.relu.default, (meta(4, 3).t(),)),
    (aten.relu.default, (meta(4, dtype=I64),)),
    (aten.relu.default, (meta(0, 4),)),
    (aten.where.self, (meta(7, dtype=BOOL), meta(7), meta(1, dtype=F16))),
    (aten.where.self, (meta(7, dtype=BOOL), meta(5), meta(1))),
    (aten.bitwise_and.Tensor, (meta(7, dtype=I64), meta(7, dtype=BOOL))),
    (aten.sum.default, (meta(7, dtype=I64),)),
    (aten._softmax.default, (meta(3, 5), 2, False)),
    (aten.mean.dim, (IMAGES, [0, 0])),
    (aten.mean.dim, (IMAGES, [4])),
    (aten.mean.dim, (meta(3, dtype=I64), [0])),
    (aten.mm.default, (meta(3, 5), meta(4, 2))),
    (aten.addmm.default, (meta(3), meta(3, 5), meta(5, 2))),
    (aten.gather.default, (meta(3, 5), 1, meta(4, 1, dtype=I64))),
    (aten.gather.default, (meta(3, 5), 1, meta(3, dtype=I64))),
    (aten.scatter_add.default, (meta(3, 5), 1, meta(3, 1, dtype=I64), meta(3, 2))),
    (aten.stack.default, ([meta(3), meta(4)],)),
    (aten.convolution.default, (TURNED, WEIGHT, None, *WINDOW)),
    (aten.convolution.default, (IMAGES, meta(6, 3, 3, 3), None, *WINDOW)),
    (aten.convolution.default, (IMAGES, meta(6, 4, 12, 2), None, *WINDOW)),
    (aten.convolution.default, (IMAGES, WEIGHT, meta(5), *WINDOW)),
    (aten.convolution.default, (IMAGES, WEIGHT, None, [0, 1], *WINDOW[1:])),
    (aten.convolution.default, (meta(4, 9), meta(6, 4, 3), None, [1], [0], [1], False, [0], 1)),
    (aten.max_pool2d_with_indices.default, (IMAGES, [2, 2], [2, 2], [0, 0], [1, 1], True)),
    (aten.max_pool2d_with_indices.default, (IMAGES, [2, 2], [2, 2], [2, 0])),
    (aten.max_pool2d_with_indices.default, (IMAGES, [10, 2])),
    (aten._native_batch_norm_legit.no_stats, (IMAGES, meta(3), meta(3), True, 0.1, 1e-5)),
    (aten.clamp.default, (IMAGES, meta(1), None)),
    (aten.gelu.default, (TURNED,)),
    (aten.gelu_backward.default, (meta(3), meta(3, dtype=F16))),
    (aten.native_dropout.default, (IMAGES, 0.1, False)),
    (aten.native_layer_norm.default, (meta(2, 3, 5), [3], meta(3), meta(3), 1e-5)),
    (aten.native_layer_norm.default, (meta(2, 3, 5, dtype=F16), [5], None, None, 1e-5)),
    (aten.bmm.default, (meta(2, 3, 5), meta(2, 4, 5))),
    (aten.bmm.default, (meta(2, 3, 5), meta(1, 5, 4))),
    (aten.embedding.default, (meta(9, 4), meta(2, 3))),
    (aten.embedding_dense_backward.default, (meta(2, 4), meta(2, 3, dtype=I64), 9, -1, False)),
    (aten.new_zeros.default, (IMAGES, [-1, 3])),
    (aten.slice_backward.default, (meta(2, 1, 5), [2, 3, 5], 3, -1, 9, 1)),
    (aten.cat.default, ([meta(2, 3), meta(3, 4)], 1)),
    (aten.cat.default, ([meta(2, 3), meta(2, 3, dtype=F16)], 1)),
    (aten._adaptive_avg_pool2d.default, (meta(4, 9, 9), [1, 1])),
]


def describe(value: Any) -> Any:
    assert value is None or value.is_meta
    return None if value is None else (value.shape, value.stride(), value.dtype)


@pytest.mark.parametrize(("func", "args"), CALLS, ids=lambda value: str(value) if hasattr(value, "_schema") else "")
def test_results_are_what_pytorch_says(func: Any, args: tuple[Any, ...]) -> None:
    expected, found = func(*args), make_plain_result(func, args, {})
    assert found is not None
    assert pytree.tree_map(describe, list(pytree.tree_leaves(found))) == pytree.tree_map(
        describe, list(pytree.tree_leaves(expected))
    )
    storages = {value.untyped_storage()._cdata for value in pytree.tree_leaves(args) if isinstance(value, torch.Tensor)}
    made = [value.untyped_storage()._cdata for value in pytree.tree_leaves(found) if value is not None]
    assert len({*made}) == len(made)
    assert not storages & {*made}


def test_tensors_like_one_number_everywhere_are_dense() -> None:
    spread = meta().expand(3, 2)
    assert describe(make_plain_result(aten.zeros_like.default, (spread,), {})) == describe(torch.zeros_like(spread))


@pytest.mark.parametrize("func", sorted(_LIKE, key=str), ids=str)
@pytest.mark.parametrize(
    "keywords", [{}, {"dtype": F16}, {"pin_memory": False, "memory_format": torch.preserve_format}]
)
def test_tensors_like_another_are_what_pytorch_says(func: Any, keywords: dict[str, Any]) -> None:
    assert describe(make_plain_result(func, (IMAGES,), keywords)) == describe(func(IMAGES, **keywords))


def test_tensors_of_another_order_are_left_to_pytorch() -> None:
    for keywords in ({"memory_format": torch.channels_last}, {"device": torch.device("cpu")}):
        assert make_plain_result(aten.ones_like.default, (IMAGES,), keywords) is None
    assert make_plain_result(aten.ones_like.default, (TURNED,), {}) is None


@pytest.mark.parametrize(("func", "args"), LEFT, ids=lambda value: str(value) if hasattr(value, "_schema") else "")
def test_anything_else_is_left_to_pytorch(func: Any, args: tuple[Any, ...]) -> None:
    assert make_plain_result(func, args, {}) is None


def test_keywords_are_left_to_pytorch() -> None:
    assert make_plain_result(aten.sum.dim_IntList, (IMAGES, [0]), {"dtype": F32}) is None
    assert make_plain_result(aten.add.Tensor, (IMAGES, meta(11)), {"alpha": 2}) is None
    assert make_plain_result(aten.new_zeros.default, (IMAGES, [2]), {"dtype": F16}) is None


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_both_forms_of_gelu_are_what_pytorch_says(form: str) -> None:
    for func, args in ((aten.gelu.default, (IMAGES,)), (aten.gelu_backward.default, (IMAGES, IMAGES))):
        found = make_plain_result(func, args, {"approximate": form})
        assert describe(found) == describe(func(*args, approximate=form))


def test_every_rule_is_compared_with_pytorch() -> None:
    assert {func for func, _ in CALLS} == set(_RULES)


_PROGRAM = """
import sys
import numpy as np
import popart

builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
random = np.random.default_rng(0)
make = lambda *shape: builder.addInitializedInputTensor(random.standard_normal(shape).astype(np.float32))
images = builder.addInputTensor("FLOAT", [2, 1, 12, 12])
labels = builder.addInputTensor("INT32", [2])
onnx = builder.aiOnnx
x = onnx.conv([images, make(3, 1, 3, 3), make(3)])
x = onnx.relu([onnx.maxpool([x], 1, [2, 2], strides=[2, 2])[0]])
x = onnx.relu([onnx.add([onnx.conv([x, make(4, 3, 2, 2)], strides=[2, 2]), make(1, 4, 1, 1)])])
x = onnx.gemm([onnx.flatten([x]), make(16, 5), make(5)])
scores = onnx.softmax([x])
loss = builder.aiGraphcore.nllloss([scores, labels])
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
given = {images: np.ones((2, 1, 12, 12), np.float32), labels: np.array([1, 2], np.int32)}
flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
model = builder.getModelProto()
optimizers = [
    popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}),
    popart.Adam({"defaultLearningRate": (0.1, False)}),
]
sessions = [popart.InferenceSession(model, flow, device)]
sessions += [popart.TrainingSession(model, flow, loss, optimizer, device) for optimizer in optimizers]
for session in sessions:
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(given, anchors))
    assert np.isfinite(anchors[loss]).all()
print(*sorted({"sympy", "torch._dynamo", "torch._inductor"} & sys.modules.keys()))
"""


def test_inference_and_training_of_a_small_network_import_neither_dynamo_nor_sympy(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OPENIPU_ENGINE", "operators")
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
