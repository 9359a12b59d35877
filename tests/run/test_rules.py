"""Rules match what they say, in any order of operands, and only where nobody else reads what they take away."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Number, Rule, Value, apply_rules, find_match, find_matches, op

aten = torch.ops.aten
ADD, MUL, NEG = aten.add.Tensor, aten.mul.Tensor, aten.neg.default

# 2 * x + x -> 3 * x, as a multiplication
PATTERN = op(ADD, op(MUL, Value("x"), 2.0, name="twice"), Value("x"))
THREE = Rule("three times", PATTERN, lambda match, writer: writer.call(MUL, match["x"], 3.0))


def build(write, inputs=2):
    """A draft whose results are what `write` returns for its graph and placeholders."""
    graph = fx.Graph()
    places = [graph.placeholder(f"in{number}") for number in range(inputs)]
    for place in places:
        place.meta["val"] = torch.empty(4, device="meta")
    results = write(lambda target, *args, **kwargs: _call(graph, target, args, kwargs), *places)
    graph.output(tuple(results))
    return Draft(graph, (), ())


def _call(graph, target, args, kwargs):
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = torch.empty(4, device="meta")
    return node


def list_targets(draft):
    return [node.target for node in draft.graph.nodes if node.op == "call_function"]


def run(draft, *values):
    return fx.Interpreter(fx.GraphModule({}, draft.graph)).run(*values)


def test_a_match_is_replaced_and_its_operators_go():
    draft = build(lambda call, x, y: [call(NEG, call(ADD, call(MUL, x, 2.0), x))])
    values = torch.randn(4), torch.randn(4)
    expected = run(draft, *values)
    assert apply_rules(draft.graph, [THREE]) == 1
    draft.graph.lint()
    assert list_targets(draft) == [MUL, NEG]
    torch.testing.assert_close(run(draft, *values), expected)


@pytest.mark.parametrize("flip_sum", [False, True])
@pytest.mark.parametrize("flip_product", [False, True])
def test_operands_of_sums_and_products_come_in_any_order(flip_sum, flip_product):
    def write(call, x, y):
        product = call(MUL, *((2.0, x) if flip_product else (x, 2.0)))
        return [call(ADD, *((x, product) if flip_sum else (product, x)))]

    assert apply_rules(build(write).graph, [THREE]) == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda call, x, y: [call(ADD, call(MUL, x, 2.0), y)],  # two values where the pattern has one
        lambda call, x, y: [call(ADD, call(MUL, x, 2.5), x)],  # another number
        lambda call, x, y: [call(ADD, call(MUL, x, 2.0), x, alpha=2)],  # a keyword that the pattern does not have
        lambda call, x, y: [call(aten.sub.Tensor, call(MUL, x, 2.0), x)],  # another operator
        lambda call, x, y: [call(ADD, call(MUL, x, True), x)],  # no number
    ],
)
def test_what_is_not_quite_the_pattern_stays(write):
    draft = build(write)
    before = list_targets(draft)
    assert apply_rules(draft.graph, [THREE]) == 0
    assert list_targets(draft) == before


def test_a_value_that_others_read_stays():
    def write(call, x, y):
        twice = call(MUL, x, 2.0)
        return [call(ADD, twice, x), call(NEG, twice)]

    assert apply_rules(build(write).graph, [THREE]) == 0
    shared = Rule(THREE.name, PATTERN, THREE.replacement, shared=frozenset({"twice"}))
    draft = build(write)
    assert apply_rules(draft.graph, [shared]) == 1
    assert list_targets(draft) == [MUL, MUL, NEG]
    draft.graph.lint()


def test_a_returned_value_has_a_reader():
    def write(call, x, y):
        twice = call(MUL, x, 2.0)
        return [call(ADD, twice, x), twice]

    assert apply_rules(build(write).graph, [THREE]) == 0


def test_a_condition_decides():
    rule = Rule(THREE.name, PATTERN, THREE.replacement, condition=lambda match: match["x"].name == "in1")
    draft = build(lambda call, x, y: [call(ADD, call(MUL, z, 2.0), z) for z in (x, y)])
    assert apply_rules(draft.graph, [rule]) == 1


def test_one_match_may_feed_the_next():
    def write(call, x, y):
        for _ in range(3):
            x = call(ADD, call(MUL, x, 2.0), x)
        return [x]

    draft = build(write)
    values = torch.randn(4), torch.randn(4)
    expected = run(draft, *values)
    assert apply_rules(draft.graph, [THREE]) == 3
    torch.testing.assert_close(run(draft, *values), expected)


def test_types_and_named_numbers_are_part_of_a_pattern():
    draft = build(lambda call, x, y: [call(MUL, x, 5)])
    node = next(iter(draft.graph.find_nodes(op="call_function", target=MUL)))
    match = find_match(op(MUL, Value("x", torch.float32), Number(name="factor")), node)
    assert match is not None
    assert match["factor"] == 5
    assert find_match(op(MUL, Value("x", torch.float16), Number(name="factor")), node) is None
    assert len(list(find_matches(op((MUL, NEG), Value("x"), Number()), draft.graph))) == 1
