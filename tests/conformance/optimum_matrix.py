"""The original's 45 pipelined classes on our PopTorch: run by run_optimum.py, in the wheel's own environment.

In: the rows of tests/optimum/matrix.py, which test our own classes as well: tiny configurations and batches. Out: for
each row, laid out for 1 and for 4 modelled IPUs, what an executor computes is what the same pipelined module computes
in plain PyTorch: outputs, losses, and weights after a step. Outputs are those of the Transformers class, too, but for
the classes where the original itself differs.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from matrix import LEARNING_RATE, Row, _find_loss, _list_tensors, collect_rows
from transformers import set_seed

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.modeling_utils import _PRETRAINED_TO_PIPELINED_REGISTRY, to_pipelined

MICRO_BATCHES = 16  # the longest pipeline of the original has 11 stages
ROWS = collect_rows()
# DeBERTa of the original attends from padding as well, where Transformers has zeros; these read what padding gets.
UNLIKE_TRANSFORMERS = ("DebertaForMaskedLM", "DebertaForTokenClassification", "DebertaForQuestionAnswering")


def make_original(row: Row) -> Any:
    set_seed(0)  # GroupBERT draws its weights with SciPy
    return row.make_original()


def make_batch(row: Row, size: int) -> dict[str, torch.Tensor]:
    batch = row.make_batch(size)
    if row.pipelined.startswith("groupbert."):  # the original's overflows at padding: it takes masks for -10000
        batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    return batch


def parallelize(row: Row, ipus: int, training: bool) -> Any:
    """A pipelined model of its own, over its IPUs. Some classes of the original return nothing from `parallelize`."""
    original = make_original(row)
    original.config.problem_type = "single_label_classification"  # as the original's own examples set it
    fields = dict(row.on_four) if ipus == 4 else {"layers_per_ipu": [-1], **row.on_one}
    fixed = {
        "output_mode": "all",
        "executable_cache_dir": "disabled",
        "gradient_accumulation_steps": MICRO_BATCHES,
    }
    model = to_pipelined(original, IPUConfig(**{**fields, **fixed}))
    assert type(model).__name__.startswith("Pipelined")
    if not training:
        model.ipu_config.eval()
    model.parallelize()
    return model.train(training)


def assert_close(row: Row, actual: Any, expected: Any, name: str = "") -> None:
    torch.testing.assert_close(
        actual,
        expected,
        rtol=row.tolerance,
        atol=row.tolerance,
        msg=lambda text: f"{name}: {text}",
    )


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_outputs(row: Row, ipus: int):
    batch = {name: value for name, value in make_batch(row, 2).items() if name not in row.labels}
    model = parallelize(row, ipus, training=False)
    executor = poptorch.inferenceModel(model, model.ipu_config.to_options(for_inference=True))
    actual = _list_tensors(row, executor(**batch))
    with torch.no_grad():
        assert_close(row, actual, _list_tensors(row, parallelize(row, ipus, training=False)(**batch)), "plain PyTorch")
        theirs = _list_tensors(row, make_original(row).eval()(**batch))
    if row.name in UNLIKE_TRANSFORMERS:
        with pytest.raises(AssertionError, match="not close"):
            assert_close(row, actual, theirs)
    else:
        assert_close(row, actual, theirs, "Transformers")


@pytest.mark.parametrize("ipus", [1, 4])
@pytest.mark.parametrize("row", [row for row in ROWS if row.labels], ids=lambda row: row.name)
def test_training(row: Row, ipus: int):
    model, twin = (parallelize(row, ipus, training=True) for _ in range(2))
    batch = make_batch(row, MICRO_BATCHES)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    executor = poptorch.trainingModel(model, model.ipu_config.to_options(), optimizer)
    actual = _find_loss(executor(**batch)).reshape(-1)
    micro_batches = [
        {name: value[index : index + 1] for name, value in batch.items()} for index in range(MICRO_BATCHES)
    ]
    losses = torch.stack([_find_loss(twin(**each)) for each in micro_batches])
    losses.mean().backward()
    torch.optim.SGD(twin.parameters(), lr=LEARNING_RATE).step()
    assert_close(row, actual, losses.detach(), "losses")
    trained, expected = model.state_dict(), twin.state_dict()
    assert list(trained) == list(expected)
    for name, value in expected.items():
        assert_close(row, trained[name], value, name)


def test_every_class_that_the_original_registers_has_a_row():
    for row in ROWS:
        importlib.import_module(f"optimum.graphcore.models.{row.pipelined.rpartition('.')[0]}")
    assert set(_PRETRAINED_TO_PIPELINED_REGISTRY) == {row.find_original() for row in ROWS}
