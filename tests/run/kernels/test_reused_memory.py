"""Pointwise operators over an operand that nobody reads any more: never over one that somebody does."""

from __future__ import annotations

import operator

import pytest
import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run import thresholds
from openipu.run.drafts.codegen import generate_function
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.in_place import reused_memory
from openipu.run.rewrites.in_place.reused_memory import reuse_memory

aten = torch.ops.aten
SIDE = 4


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(thresholds, "REUSED_ELEMENTS", 1)


def draw():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn((SIDE, SIDE), generator=generator) for _ in range(2)]


def run(build_program, function):
    """How many operators write over an operand; results and inputs are as they would be otherwise."""
    values = draw()
    outputs = function(*values)
    returns = [(OutputKind.OUTPUT, f"result{place}") for place in range(len(outputs))]
    program = build_program(function, inputs=dict(zip("ab", values, strict=True)), returns=returns)
    draft = draft_micro(program, RunOptions())
    reuse_memory(draft)
    draft.graph.lint()
    found = generate_function(draft.graph, draft.bound, "test")(*values)
    for value, wanted in zip(found, outputs, strict=True):
        torch.testing.assert_close(value, wanted, rtol=0, atol=0)
    for value, before in zip(values, draw(), strict=True):
        assert torch.equal(value, before)
    return sum(node.target in reused_memory._WRITERS for node in draft.graph.nodes)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda a, b: [torch.relu(a @ b)], 1),
        (lambda a, b: [torch.relu((a @ b).t()).t() + a], 2),
        (lambda a, b: [a + (a @ b)], 1),  # over the second operand
        (lambda a, b: [aten.threshold_backward(a @ b, a, 0) * 2], 2),
        (lambda a, b: [aten.add.Tensor(a @ b, a, alpha=3)], 1),
        (lambda a, b: [-(a @ b) / b - a], 3),
        (lambda a, b: [((a @ b).view(-1) * 2).view(2, 8)], 1),
        (lambda a, b: [torch.bitwise_and(torch.bitwise_right_shift((a * 7).to(torch.int32), 1), 5)], 2),
        (lambda a, b: [aten.index_copy(a @ b, 0, torch.tensor([1]), b[:1])], 1),
        (lambda a, b: [aten.index_copy(a, 0, torch.tensor([1]), b[:1])], 0),
        (lambda a, b: [aten.native_layer_norm(a, [SIDE], None, None, 1e-5)[0] * 2], 1),
    ],
)
def test_the_last_reader_of_a_value_writes_over_it(build_program, function, count):
    assert run(build_program, function) == count


def _read_again(a, b):
    product = a @ b
    return [torch.relu(product), product.sum()]


def _read_by_a_view_later(a, b):
    product = a @ b
    turned = product.t()
    return [product * 2, turned.exp()]


def _put_by_itself(a, b):
    places = ((a @ b).abs() * 0).to(torch.int64)
    return [aten.index_put(places, [places], torch.ones((), dtype=torch.int64))]


def _written_over_and_read_again(a, b):
    product = torch.relu(a @ b)
    doubled = product * 2
    return [doubled, product - 1]


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda a, b: [torch.relu(a)], 0),  # an input
        (lambda a, b: [torch.relu(a.t())], 0),
        (_read_again, 0),
        (_read_by_a_view_later, 0),
        (_written_over_and_read_again, 2),  # the rectifier, and the last reader of what it left
        (lambda a, b: [(lambda product: product * product.t())(a @ b)], 0),  # the same memory, turned
        (lambda a, b: [a.sum(1, keepdim=True).expand(SIDE, SIDE) * b], 0),  # one number for a whole row
        (lambda a, b: [a.sum(1, keepdim=True) + b], 0),  # too small for the result
        (lambda a, b: [(a @ b)[:, :2] * 2], 0),  # a part
        (lambda a, b: [(a @ b).to(torch.float64) * 2, (a > 0) * b], 1),  # a format of its own; a comparison is none
        (lambda a, b: [torch.relu(a @ b), a @ b], 0),  # the same product
        (_put_by_itself, 1),  # the product alone: its own places are read again, among a list of operands
    ],
)
def test_memory_that_is_read_again_or_belongs_to_others_stays(build_program, function, count):
    assert run(build_program, function) == count


def test_a_value_that_two_names_stand_for_stays(build_program):
    values = draw()
    program = build_program(
        lambda a, b: [torch.relu(aten.native_layer_norm(a, [SIDE], None, None, 1e-5)[0])],
        inputs=dict(zip("ab", values, strict=True)),
        returns=[(OutputKind.OUTPUT, "result")],
    )
    draft = draft_micro(program, RunOptions())
    (first,) = (node for node in draft.graph.nodes if node.target is operator.getitem)
    with draft.graph.inserting_after(first):
        second = draft.graph.call_function(operator.getitem, first.args)
    second.meta = dict(first.meta)
    draft.output_node.args = ((*draft.output_node.args[0], second),)
    reuse_memory(draft)
    assert not any(node.target in reused_memory._WRITERS for node in draft.graph.nodes)


def test_what_a_product_of_a_number_reads_twice_is_written_once(build_program):
    assert run(build_program, lambda a, b: [(lambda product: product + product)(a @ b)]) == 1
