"""Operators get operands that lie in memory in any way, and give what dense operands give."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.graph import RunOptions
from openipu.run.drafts.fast_calls import find_call
from openipu.run.drafts.layouts import DENSE_OPERANDS

aten = torch.ops.aten


def make_cases():
    """Calls whose kernels are written by hand, so that they may take strides for granted."""
    torch.manual_seed(0)
    rows, rows_gradient, scale, bias = torch.randn(4, 6, 8), torch.randn(4, 6, 8), torch.rand(8), torch.rand(8)
    _, mean, rstd = aten.native_layer_norm(rows, [8], scale, bias, 1e-5)
    images, images_gradient, weight, shift = torch.randn(2, 6, 4, 4), torch.randn(2, 6, 4, 4), *torch.rand(2, 6)
    group = (2, 6, 16, 3)
    _, group_mean, group_rstd = aten.native_group_norm(images, weight, shift, *group, 1e-5)
    statistics = (torch.zeros(6), torch.ones(6))
    _, batch_mean, batch_rstd = aten.native_batch_norm(images, weight, shift, None, None, True, 0.1, 1e-5)
    filters, four = torch.randn(4, 6, 3, 3), torch.rand(4)
    geometry = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    window = ([2, 2], [2, 2], [0, 0])
    pooled, places = aten.max_pool2d_with_indices(images, [2, 2], [2, 2])
    query, key, value = torch.randn(3, 2, 3, 5, 8)
    attended, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)
    logarithms, classes, weights = torch.randn(6, 5).log_softmax(-1), torch.randint(0, 5, (6,)), torch.rand(5)
    loss, total = aten.nll_loss_forward(logarithms, classes, weights, 0, -100)
    table, words = torch.randn(9, 8), torch.randint(0, 9, (4, 6))
    bags = torch.randint(0, 9, (8,)), torch.tensor([0, 2, 5, 6])
    _, bag_of, bag_sizes, largest = aten._embedding_bag(table, *bags, False, 1)
    volumes = torch.randn(2, 3, 4, 4, 4)
    _, volume_places = aten.adaptive_max_pool3d(volumes, [2, 2, 2])
    planes, plane_classes = torch.randn(2, 5, 3, 4).log_softmax(1), torch.randint(0, 5, (2, 3, 4))
    plane_loss, plane_total = aten.nll_loss2d_forward(planes, plane_classes, weights, 1, -100)
    every = [True] * 3
    return [
        (aten.native_layer_norm.default, (rows, [8], scale, bias, 1e-5)),
        (aten.native_layer_norm_backward.default, (rows_gradient, rows, [8], mean, rstd, scale, bias, every)),
        (aten.native_group_norm.default, (images, weight, shift, *group, 1e-5)),
        (
            aten.native_group_norm_backward.default,
            (images_gradient, images, group_mean, group_rstd, weight, *group, every),
        ),
        (aten.native_batch_norm.default, (images, weight, shift, *statistics, False, 0.1, 1e-5)),
        (
            aten._native_batch_norm_legit_functional.default,
            (images, weight, shift, *statistics, True, 0.1, 1e-5),
        ),
        (
            aten.native_batch_norm_backward.default,
            (images_gradient, images, weight, *statistics, batch_mean, batch_rstd, True, 1e-5, every),
        ),
        (aten.convolution.default, (images, filters, four, *geometry)),
        (aten.convolution_backward.default, (torch.randn(2, 4, 4, 4), images, filters, [4], *geometry, every)),
        (aten.max_pool2d_with_indices.default, (images, *window)),
        (
            aten.max_pool2d_with_indices_backward.default,
            (torch.randn_like(pooled), images, *window, [1, 1], False, places),
        ),
        (aten.avg_pool2d_backward.default, (torch.randn(2, 6, 2, 2), images, *window, False, True, None)),
        (aten._adaptive_avg_pool2d_backward.default, (torch.randn(2, 6, 2, 2), images)),
        (aten.upsample_bilinear2d_backward.default, (torch.randn(2, 6, 8, 8), [8, 8], [2, 6, 4, 4], False)),
        (aten.reflection_pad2d_backward.default, (torch.randn(2, 6, 6, 6), images, [1] * 4)),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, (query, key, value)),
        (
            aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
            (torch.randn_like(attended), query, key, value, attended, logsumexp, 0.0, False),
        ),
        (aten._softmax.default, (rows, -1, False)),
        (aten._softmax_backward_data.default, (rows_gradient, rows.softmax(-1), -1, torch.float32)),
        (aten._log_softmax_backward_data.default, (rows_gradient, rows.log_softmax(-1), -1, torch.float32)),
        (aten.nll_loss_forward.default, (logarithms, classes, weights, 0, -100)),
        (aten.nll_loss_backward.default, (loss, logarithms, classes, weights, 0, -100, total)),
        (aten.embedding.default, (table, words)),
        (aten.embedding_dense_backward.default, (rows, words, 9, -1, False)),
        (aten.mm.default, (rows[0], torch.randn(8, 3))),
        (aten.bmm.default, (rows, torch.randn(4, 8, 3))),
        (aten.addmm.default, (torch.randn(6, 3), rows[0], torch.randn(8, 3))),
        (aten._cdist_forward.default, (rows, torch.randn(4, 3, 8), 2.0, 1)),
        (aten.glu_backward.default, (torch.randn(4, 6, 4), rows, -1)),
        (aten._embedding_bag.default, (table, *bags, False, 0, False, torch.rand(8))),
        (
            aten._embedding_bag_backward.default,
            (torch.randn(4, 8), *bags, bag_of, bag_sizes, largest, 9, False, 1, False, None),
        ),
        (aten.adaptive_max_pool3d_backward.default, (torch.randn(2, 3, 2, 2, 2), volumes, volume_places)),
        (
            aten.nll_loss2d_backward.default,
            (plane_loss, planes, plane_classes, weights, 1, -100, plane_total),
        ),
        (aten.median.dim, (torch.randn(1, 5).repeat(4, 1), 0)),
        (aten.index_put.default, (rows, [words[0] % 4], torch.randn(6, 6, 8), True)),
        (aten.cumsum.default, (rows, 1)),
    ]


CASES = make_cases()


def list_layouts(value):
    """The same numbers, lying otherwise."""
    if value.dim() == 1:
        yield "every second", value.new_zeros(len(value), 2).select(1, 0).copy_(value)
        return
    if torch.equal(value, value[:1].expand_as(value)):
        yield "expanded", value[:1].expand_as(value)
    yield "transposed", value.transpose(0, -1).contiguous().transpose(0, -1)
    yield "every second", value.new_zeros(*value.shape, 2).select(-1, 0).copy_(value)
    yield "sliced", value.new_zeros(len(value), value.shape[1] + 2, *value.shape[2:])[:, 1:-1].copy_(value)


def run(call, arguments):
    found = call(
        *(value.clone() if isinstance(value, torch.Tensor) and value.dim() == 0 else value for value in arguments)
    )
    return [value for value in (found if isinstance(found, list | tuple) else [found]) if value is not None]


def list_strided(arguments):
    for place, value in enumerate(arguments):
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            for layout, strided in list_layouts(value):
                yield place, layout, (*arguments[:place], strided, *arguments[place + 1 :])


@pytest.mark.parametrize("case", CASES, ids=[str(target) for target, _ in CASES])
def test_an_operator_reads_strided_operands_in_every_position(case):
    target, dense = case
    expected = run(target, dense)
    for place, layout, strided in list_strided(dense):
        found = run(find_call(target), strided)
        torch.testing.assert_close(
            found, expected, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda m, p=place, at=layout: f"{p}, {at}: {m}"
        )


@pytest.mark.parametrize("target", DENSE_OPERANDS, ids=str)
def test_no_operand_is_made_dense_for_nothing(target):
    """Each position of the table is one in which the kernel itself errs, or refuses."""
    (case,) = [case for case in CASES if case[0] is target]
    expected, wrong = run(target, case[1]), set()
    for place, _, strided in list_strided(case[1]):
        try:
            torch.testing.assert_close(run(target, strided), expected, rtol=1e-4, atol=1e-5)
        except (AssertionError, RuntimeError):
            wrong.add(place)
    assert wrong == set(DENSE_OPERANDS[target])


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        (aten.randn_like.default, ()),
        (aten.rand_like.default, ()),
        (aten.randint_like.default, (9,)),
        (aten.poisson.default, ()),
        (aten.bernoulli.default, ()),
        (aten.exponential.default, ()),
        (aten.normal_functional.default, ()),
    ],
    ids=str,
)
def test_random_numbers_do_not_depend_on_how_an_operand_lies(target, arguments):
    values = torch.rand(4, 6, 5)
    torch.manual_seed(7)
    expected = target(values, *arguments)
    for layout, strided in list_layouts(values):
        torch.manual_seed(7)
        assert torch.equal(find_call(target)(strided, *arguments), expected), layout


class FirstToken(nn.Module):
    """A loss on one token, whose other tokens are read as well."""

    def __init__(self, other, norm):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 8), norm, nn.Linear(8, 8)
        self.head, self.other = nn.Linear(8, 3), other

    def forward(self, tokens, labels):
        states = self.second(self.norm(self.first(tokens)))
        return self.other(states), functional.cross_entropy(self.head(states[:, 0]), labels)


class Channels(nn.GroupNorm):
    """Of a sequence: its tokens are the channels."""

    def __init__(self):
        super().__init__(4, 16)


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm((16, 8)), Channels(), nn.Identity()], ids=str)
@pytest.mark.parametrize(
    "other",
    [lambda states: states, lambda states: states.detach() * 2, lambda states: states.detach()[:, 1:].mean(1)],
    ids=["returned", "detached", "pooled"],
)
def test_gradients_of_one_token_with_second_readers_are_those_of_eager_pytorch(start_training, other, norm):
    model = FirstToken(other, copy.deepcopy(norm))
    eager = copy.deepcopy(model).double()
    inputs = torch.randn(4, 16, 8), torch.randint(0, 3, (4,))
    before = {name: value.double() for name, value in copy.deepcopy(model.state_dict()).items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trained = start_training(model, optimizer, inputs, RunOptions(training=True))
    states = trained.executable.run(list(inputs)).outputs[0]
    expected, loss = eager(inputs[0].double(), inputs[1])
    loss.backward()
    torch.testing.assert_close(states.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    for name, value in trained.read_weights().items():
        gradient = eager.get_parameter(name).grad
        torch.testing.assert_close(before[name] - value.double(), gradient, rtol=1e-4, atol=1e-5)
