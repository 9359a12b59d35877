"""Passes make graphs smaller and change no result."""

import operator

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from openipu.graph import OutputKind, RunOptions
from openipu.run import PASSES, Executable
from openipu.run.drafts.aliasing import draws_random_numbers, find_owner, is_pointwise
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.drafts.fast_calls import FUNCTIONS, METHODS
from openipu.run.drafts.rules import apply_rules
from openipu.run.rewrites.simplify import (
    NO_OPERATIONS,
    fold_constants,
    own_outputs,
    share_views,
    shorten_conversions,
    simplify,
)

aten = torch.ops.aten
RETURNS = [(OutputKind.OUTPUT, "y")]


def draft(build_program, function, example=None) -> Draft:
    example = torch.zeros(4, 3) if example is None else example
    program = build_program(function, inputs={"x": example}, returns=RETURNS)
    return draft_graph(program.micro, program.constants)


def targets(subject: Draft) -> list:
    return [node.target for node in subject.graph.nodes if node.op == "call_function"]


def test_every_pass_has_a_name_of_its_own():
    names = [entry.name for entry in PASSES]
    assert len(set(names)) == len(names) > 3


def test_equal_views_are_made_once(build_program):
    subject = draft(build_program, lambda x: (x.t() @ x + x.t() @ x,))
    assert targets(subject).count(aten.t.default) == 2
    share_views(subject)
    assert targets(subject).count(aten.t.default) == 1


def test_views_to_the_same_shape_and_double_transpositions_go(build_program):
    subject = draft(build_program, lambda x: (aten.view.default(x.t().t(), [4, 3]).detach() + 1,))
    apply_rules(subject.graph, NO_OPERATIONS)
    subject.graph.eliminate_dead_code()
    assert targets(subject) == [aten.add.Tensor]


def test_conversions_name_nothing_but_what_they_change(build_program):
    usual = {"layout": torch.strided, "device": torch.device("cpu")}
    plain = draft(build_program, lambda x: (aten._to_copy.default(x, dtype=torch.float16, **usual),))
    other = {"dtype": torch.float16, "memory_format": torch.contiguous_format}
    laid_out = draft(build_program, lambda x: (aten._to_copy.default(x, **other),))
    for subject, expected in ((plain, {"dtype": torch.float16}), (laid_out, other)):
        shorten_conversions(subject)
        (node,) = subject.graph.find_nodes(op="call_function", target=aten._to_copy.default)
        assert node.kwargs == expected


def test_constants_are_computed_once(build_program):
    subject = draft(build_program, lambda x: (x + torch.arange(3) * 2.0,))
    simplify(subject)
    assert targets(subject) == [aten.add.Tensor]
    (value,) = subject.bound.values()
    assert value.tolist() == [0, 2, 4]


def test_random_numbers_are_never_folded(build_program):
    subject = draft(build_program, lambda x: (x + torch.rand(3),))
    fold_constants(subject)
    assert any(draws_random_numbers(node) for node in subject.graph.nodes)


def test_what_no_result_needs_goes(build_program):
    def wasteful(x):
        x.exp().sum()
        return (x + 1,)

    subject = draft(build_program, wasteful)
    simplify(subject)
    assert targets(subject) == [aten.add.Tensor]


def test_returned_views_of_inputs_are_copied(build_program):
    subject = draft(build_program, lambda x: (x.t(),))
    own_outputs(subject)
    assert targets(subject) == [aten.t.default, aten.clone.default]


def test_the_program_itself_is_never_changed(build_program):
    program = build_program(lambda x: (x.t().t() + torch.ones(3),), inputs={"x": torch.zeros(4, 3)}, returns=RETURNS)
    before = str(program.micro.module.graph)
    Executable(program, RunOptions())
    assert str(program.micro.module.graph) == before


def test_views_have_an_owner_and_results_own_themselves():
    graph = make_fx(lambda x: x.split(2)[1].view(-1).unsqueeze(0).view(-1) + x.max(0)[0].sum())(torch.zeros(4, 3)).graph
    view = next(node for node in graph.nodes if node.target is aten.view.default)
    assert find_owner(view).op == "placeholder"
    maximum = next(node for node in graph.nodes if node.target is aten.max.dim)
    value = next(user for user in maximum.users if user.target is operator.getitem)
    assert find_owner(value) is value


def test_element_wise_operators_are_told_from_others():
    graph = make_fx(lambda x: (x * 2).sum())(torch.zeros(3)).graph
    answers = {str(node.target): is_pointwise(node) for node in graph.nodes if node.op == "call_function"}
    assert answers == {"aten.mul.Tensor": True, "aten.sum.default": False}


@pytest.mark.parametrize("operation", [call for call in FUNCTIONS if call.namespace == "aten"], ids=str)
def test_a_fast_call_is_the_operator_of_the_same_name(operation):
    assert FUNCTIONS[operation].__name__ == operation._schema.name.removeprefix("aten::")


@pytest.mark.parametrize("operation", METHODS, ids=str)
def test_a_fast_method_exists(operation):
    name = operation._schema.name.removeprefix("aten::")
    assert METHODS[operation] == {"view": "reshape", "_unsafe_view": "reshape"}.get(name, name)
    assert hasattr(torch.Tensor, METHODS[operation])


def test_generated_code_equals_the_interpreted_graph():
    def function(x, w):
        pieces = torch.split(x, 2, dim=1)
        scores = torch.nn.functional.softmax(pieces[0] @ w, dim=-1).clamp(min=float("-inf"))
        return scores.to(torch.float64), torch.cat(pieces).sum(dim=[0], keepdim=True), torch.where(x > 0, x, 0.5)

    arguments = (torch.randn(5, 4), torch.randn(2, 7))
    module = make_fx(function)(*arguments)
    generated = generate_function(module.graph, {}, "test")(*arguments)
    for one, other in zip(generated, fx.Interpreter(module).run(*arguments), strict=True):
        assert torch.equal(one, other)


def test_bound_placeholders_are_no_arguments():
    module = make_fx(lambda a, b: a - b)(torch.zeros(1), torch.zeros(1))
    second = module.graph.find_nodes(op="placeholder")[1]
    function = generate_function(module.graph, {second.name: torch.tensor([2.0])}, "test")
    assert function(torch.tensor([5.0])).item() == 3


def test_half_products_are_computed_in_single_precision_and_rounded(build_program):
    def function(x):
        return (torch.nn.functional.conv2d(x, x[:1]) + (x.view(2, -1) @ x.view(2, -1).t()).sum(),)

    example = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).half()
    subject = draft(build_program, function, example)
    simplify(subject)
    for node in subject.graph.nodes:
        if node.target in (aten.mm.default, aten.convolution.default):
            assert all(source.meta["val"].dtype is torch.float32 for source in node.all_input_nodes)
            assert all(user.kwargs == {"dtype": torch.float16} for user in node.users)
    (result,) = generate_function(subject.graph, subject.bound, "test")(example)
    assert result.dtype is torch.float16
    wide = torch.nn.functional.conv2d(example.float(), example[:1].float()).half()
    product = (example.view(2, -1).float() @ example.view(2, -1).t().float()).half()
    assert torch.equal(result, wide + product.sum())
