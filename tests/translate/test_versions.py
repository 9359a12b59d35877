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
