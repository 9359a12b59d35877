"""Ops whose inputs and attributes changed from one operator set to the next: each form gives the same result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from onnx_models import make_model

from openipu.errors import TranslationError
from openipu.model_files import run_file
from openipu.translate.module import ForeignModule
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

X = torch.linspace(-3, 4, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-3, 4, 24).reshape(1, 1, 4, 6)


def run(op: str, opset: int, x: torch.Tensor, *weights: Any, outputs: int = 1, **attributes: Any) -> list[torch.Tensor]:
    """One node on `x` and weights: arrays, or None for an input that is left out."""
    held = {f"w{place}": np.asarray(value) for place, value in enumerate(weights) if value is not None}
    inputs = ["x", *(f"w{place}" if value is not None else "" for place, value in enumerate(weights))]
    names = [f"y{place}" for place in range(outputs)]
    model = make_model(
        [helper.make_node(op, inputs, names, **attributes)], {"x": list(x.shape)}, names, held, opset=opset
    )
    return list(run_file(model.SerializeToString(), {"x": x}).values())


FORMS: dict[str, tuple[torch.Tensor, list[tuple[int, tuple[Any, ...], dict[str, Any]]], torch.Tensor]] = {
    "Squeeze": (X[:, :1], [(6, (), {"axes": [1]}), (13, ([1],), {}), (24, ([1],), {})], X[:, 0]),
    "Unsqueeze": (X, [(6, (), {"axes": [0]}), (13, ([0],), {}), (25, ([0],), {})], X[None]),
    "ReduceSum": (X, [(6, (), {"axes": [1], "keepdims": 0}), (13, ([1],), {"keepdims": 0})], X.sum(1)),
    "ReduceMean": (X, [(6, (), {"axes": [1], "keepdims": 0}), (18, ([1],), {"keepdims": 0})], X.mean(1)),
    "Clip": (
        X,
        [(6, (), {"min": -1.0, "max": 2.0}), (11, (np.float32(-1), np.float32(2)), {})],
        X.clamp(-1, 2),
    ),
    "Slice": (
        X,
        [(6, (), {"starts": [1], "ends": [3], "axes": [2]}), (10, ([1], [3], [2]), {}), (13, ([1], [3], [2], [1]), {})],
        X[..., 1:3],
    ),
    "Pad": (
        X,
        [
            (6, (), {"pads": [0, 0, 1, 0, 0, 2]}),
            (11, ([0, 0, 1, 0, 0, 2],), {}),
            (18, ([1, 2], None, [2]), {}),
        ],
        torch.nn.functional.pad(X, (1, 2)),
    ),
    "Add": (
        X,
        [
            (6, (np.arange(3, dtype=np.float32),), {"broadcast": 1, "axis": 1}),
            (7, (np.arange(3, dtype=np.float32)[:, None],), {}),
        ],
        X + torch.arange(3.0)[:, None],
    ),
    "Upsample": (
        IMAGE,
        [
            (7, (), {"scales": [1.0, 1.0, 2.0, 2.0]}),
            (9, (np.array([1, 1, 2, 2], np.float32),), {}),
        ],
        IMAGE.repeat_interleave(2, 2).repeat_interleave(2, 3),
    ),
    "Resize": (
        IMAGE,
        [
            (10, (np.array([1, 1, 2, 2], np.float32),), {}),
            (11, (np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)), {}),
            (13, (None, None, [1, 1, 8, 12]), {}),
            (19, (None, None, [8, 12]), {"axes": [2, 3]}),
        ],
        IMAGE.repeat_interleave(2, 2).repeat_interleave(2, 3),
    ),
    "Dropout": (X, [(6, (), {"is_test": 1}), (7, (), {}), (12, (np.float32(0.5),), {}), (22, (), {})], X),
}


@pytest.mark.parametrize(
    ("op", "form"), [(op, number) for op, (_, forms, _) in FORMS.items() for number in range(len(forms))]
)
def test_every_form_of_an_op_gives_the_same_result(op: str, form: int) -> None:
    x, forms, wanted = FORMS[op]
    opset, weights, attributes = forms[form]
    (found,) = run(op, opset, x, *weights, **attributes)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("opset", "weights"), [(6, ()), (13, ([1, 2],))], ids=["attribute", "tensor"])
def test_a_split_takes_its_sizes_from_either_place(opset: int, weights: tuple[Any, ...]) -> None:
    attributes = {} if weights else {"split": [1, 2]}
    first, second = run("Split", opset, X, *weights, outputs=2, axis=1, **attributes)
    torch.testing.assert_close(first, X[:, :1])
    torch.testing.assert_close(second, X[:, 1:])


def test_softmax_took_all_dimensions_from_its_axis_on_and_now_takes_one() -> None:
    (old,) = run("Softmax", 11, X, axis=1)
    (new,) = run("Softmax", 13, X, axis=1)
    torch.testing.assert_close(old, X.flatten(1).softmax(1).reshape(X.shape))
    torch.testing.assert_close(new, X.softmax(1))


def test_an_op_that_its_operator_set_does_not_have_is_named() -> None:
    with pytest.raises(TranslationError, match="Resize is not part of operator set 9"):
        run("Resize", 9, IMAGE)


@pytest.mark.parametrize(
    ("opset", "weights", "attributes"),
    [(6, (), {"k": 2, "axis": 2}), (10, ([2],), {"axis": 2}), (11, ([2],), {"axis": 2, "largest": 1, "sorted": 1})],
    ids=["attribute", "tensor", "largest"],
)
def test_the_largest_elements_come_first_in_every_form(
    opset: int, weights: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    values, places = run("TopK", opset, X, *weights, outputs=2, **attributes)
    wanted = X.topk(2, 2)
    torch.testing.assert_close(values, wanted.values)
    assert torch.equal(places.long(), wanted.indices)


def test_the_smallest_elements_can_be_asked_for_since_11() -> None:
    values, _ = run("TopK", 11, X, [2], outputs=2, axis=2, largest=0)
    torch.testing.assert_close(values, X.topk(2, 2, largest=False).values)


STATISTICS = [np.linspace(low, high, 3, dtype=np.float32) for low, high in ((0.5, 2), (-1, 1), (-0.5, 0.5), (0.5, 1.5))]


@pytest.mark.parametrize(("opset", "attributes"), [(6, {"is_test": 1}), (7, {}), (9, {}), (14, {}), (15, {})])
def test_batch_norm_of_inference_reads_its_statistics_in_every_form(opset: int, attributes: dict[str, Any]) -> None:
    (found,) = run("BatchNormalization", opset, X, *STATISTICS, **attributes)
    scale, bias, mean, variance = (torch.tensor(value) for value in STATISTICS)
    torch.testing.assert_close(found, torch.nn.functional.batch_norm(X, mean, variance, scale, bias))


@pytest.mark.parametrize(("opset", "outputs"), [(6, 5), (7, 5), (9, 5), (14, 3), (15, 3)])
def test_batch_norm_of_training_makes_new_statistics_in_every_form(opset: int, outputs: int) -> None:
    attributes = {"training_mode": 1} if opset >= 14 else {}
    found = run("BatchNormalization", opset, X, *STATISTICS, outputs=outputs, momentum=0.8, **attributes)
    scale, bias, mean, variance = (torch.tensor(value) for value in STATISTICS)
    torch.testing.assert_close(found[0], torch.nn.functional.batch_norm(X, None, None, scale, bias, True))
    torch.testing.assert_close(found[1], 0.8 * mean + 0.2 * X.mean((0, 2)))
    torch.testing.assert_close(found[2], 0.8 * variance + 0.2 * X.var((0, 2), unbiased=False))
    if outputs == 5:
        torch.testing.assert_close(found[3], X.mean((0, 2)))


@pytest.mark.parametrize("opset", [6, 7, 10])
def test_dropout_drops_in_training_alone_until_11(opset: int) -> None:
    model = make_model([helper.make_node("Dropout", ["x"], ["y", "mask"], ratio=0.5)], {"x": [64, 64]}, ["y", "mask"])
    model.opset_import[0].version = opset
    module = ForeignModule(read_model(model.SerializeToString()).graph, TABLE)
    x = torch.ones(64, 64)
    kept, everything = module.eval()(x).values()
    assert torch.equal(kept, x)
    assert everything.all()
    torch.manual_seed(0)
    dropped, mask = module.train()(x).values()
    assert 0.4 < float(mask.float().mean()) < 0.6
    torch.testing.assert_close(dropped, mask * 2.0)


def test_a_matrix_product_broadcast_its_bias_by_a_flag_until_6() -> None:
    first, second, row = X[0], np.ones((4, 2), np.float32), np.array([1, 2], np.float32)
    for opset, attributes in ((6, {"broadcast": 1}), (7, {}), (11, {})):
        (found,) = run("Gemm", opset, first, second, row, alpha=0.5, beta=2.0, **attributes)
        torch.testing.assert_close(found, 0.5 * first @ torch.tensor(second) + 2 * torch.tensor(row))
