"""Norms of images by native code: what autograd computes, with what stands behind them in the same call."""

from __future__ import annotations

import operator
from functools import partial

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable, thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import apply_rules
from openipu.run.kernels.catalog import CHANNEL_NORMS, DIFFERENTIATE_NORM, NORMALIZE
from openipu.run.rewrites.images.joined_norms import make_rules
from openipu.run.rewrites.images.norms import differentiate, normalize

aten = torch.ops.aten
MOMENTUM, EPSILON = 0.1, 1e-5
NO_KERNEL = {NORMALIZE: None, DIFFERENTIATE_NORM: None}  # for graphs that nobody runs
# Images, channels, height and width: fewer rows than threads, one vector, several blocks of sums.
SHAPES = [(2, 16, 1, 1), (1, 32, 3, 5), (4, 48, 7, 7), (2, 64, 40, 30), (1, 2048, 9, 8)]


@pytest.fixture
def code(use_kernels):
    """Both kernels."""
    kernel = use_kernels(CHANNEL_NORMS)[CHANNEL_NORMS]
    return partial(normalize, run=kernel[NORMALIZE]), partial(differentiate, run=kernel[DIFFERENTIATE_NORM])


def lay(images, last=True):
    return images.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def draw(shape, offset=0.0, last=True):
    images, other, gradient = (lay(torch.randn(shape), last) for _ in range(3))
    channels = shape[1]
    rest = torch.rand(channels) + 0.5, torch.randn(channels), torch.randn(channels), torch.rand(channels) + 0.5
    return lay(images + offset, last), other, gradient, *rest


def compute_exactly(images, other, gradient, weight, bias, mean, variance, *, adds, rectifies):
    """All results and gradients in float64."""
    wide = [value.double() for value in (images, weight, bias)]
    for value in wide:
        value.requires_grad_()
    statistics = mean.double(), variance.double()
    normal = functional.batch_norm(wide[0], *statistics, *wide[1:], True, MOMENTUM, EPSILON)
    result = normal + other.double() if adds else normal
    result = torch.relu(result) if rectifies else result
    result.backward(gradient.double())
    return result.detach(), statistics, [value.grad for value in wide]


def compare(found, expected, tolerance=1e-5):
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("last", [True, False], ids=["channels last", "planes"])
@pytest.mark.parametrize(("adds", "rectifies"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norms_and_their_gradients_are_those_of_autograd(code, threads, shape, adds, rectifies, last):
    images, other, gradient, weight, bias, mean, variance = draw(shape, last=last)
    result, statistics, gradients = compute_exactly(
        images, other, gradient, weight, bias, mean, variance, adds=adds, rectifies=rectifies
    )
    added = other if adds else None
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, added, rectifies)
    compare(found[0], result)
    assert found[0].is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    for one, expected in zip(found[3:], statistics, strict=True):
        compare(one, expected)
    kept = gradient.clone(memory_format=torch.preserve_format)
    arguments = (found[0] if rectifies else None, images, weight, found[1], found[2], EPSILON)
    scale = max(1.0, gradients[0].abs().max().item())
    for keeps in (False, True):
        derived = code[1](gradient, *arguments, keeps, False)
        for one, expected in zip(derived[:3], gradients, strict=True):
            compare(one, expected, 3e-5 * scale)
        assert torch.equal(gradient, kept)
        assert len(derived) == (4 if keeps else 3)
        for blocked in derived[3:]:
            assert torch.equal(blocked, torch.where(found[0] > 0, gradient, 0.0) if rectifies else gradient)


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [False, True], ids=["gradient of images", "what counts"])
def test_the_gradients_memory_is_used_where_nobody_reads_it_again(code, keeps):
    images, _, gradient, weight, bias, mean, variance = draw((2, 32, 8, 8))
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, None, True)
    arguments = (found[0], images, weight, found[1], found[2], EPSILON, keeps)
    expected = code[1](gradient, *arguments, False)
    place = gradient.data_ptr()
    derived = code[1](gradient, *arguments, True)
    assert derived[3 if keeps else 0].data_ptr() == place
    for one, other in zip(derived, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_weights_may_be_views(code):
    images, _, gradient, _, bias, mean, variance = draw((2, 32, 8, 8))
    weight = torch.tensor([1.5]).expand(32)
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, None, False)
    plain = code[0](images, weight.clone(), bias, mean, variance, MOMENTUM, EPSILON, None, False)
    assert torch.equal(found[0], plain[0])
    arguments = (images, found[1], found[2], EPSILON, False, False)
    derived = code[1](gradient, None, arguments[0], weight, *arguments[1:])
    assert torch.equal(derived[0], code[1](gradient, None, arguments[0], weight.clone(), *arguments[1:])[0])


@pytest.mark.slow
def test_images_far_from_zero_have_their_deviation(code):
    images, _, _, weight, bias, mean, variance = draw((4, 16, 50, 50), offset=1000.0)
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, None, False)
    exact = images.double()
    compare(found[1], exact.mean((0, 2, 3)), 1e-7)
    compare(found[2], (exact.var((0, 2, 3), unbiased=False) + EPSILON).rsqrt(), 1e-6)


@pytest.mark.slow
def test_constant_images_are_the_bias(code):
    images = lay(torch.full((2, 16, 8, 8), 3.25))
    _, _, _, weight, bias, mean, variance = draw((2, 16, 8, 8))
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, None, False)
    assert torch.equal(found[0], bias.view(1, -1, 1, 1).expand_as(images))


@pytest.mark.slow
def test_what_is_not_a_number_stays_in_its_channel(code):
    images, _, gradient, weight, bias, mean, variance = draw((2, 16, 8, 8))
    images[1, 3, 2, 2], images[0, 5, 1, 1] = torch.nan, torch.inf
    found = code[0](images, weight, bias, mean, variance, MOMENTUM, EPSILON, None, True)
    broken = found[0].isnan().any(0).any(1).any(1)
    assert broken.nonzero().flatten().tolist() == [3, 5]
    derived = code[1](gradient, found[0], images, weight, found[1], found[2], EPSILON, False, False)
    assert derived[0].isnan().any(0).any(1).any(1).nonzero().flatten().tolist() == [3, 5]


class Residual(nn.Module):
    """Norms with a rectifier, with a sum before it, of both operands of a sum, and alone."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(16 if i else 3, 16, 3, padding=1, bias=False) for i in range(5))
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(5))
        self.classify = nn.Linear(16, 5)

    def forward(self, x, labels):
        layers = [lambda x, c=c, n=n: n(c(x)) for c, n in zip(self.convolutions, self.norms, strict=True)]
        x = torch.relu(layers[0](x))
        x = torch.relu(layers[1](x) + x)
        x = torch.relu(layers[2](x) + layers[3](x))
        x = torch.tanh(layers[4](x))
        return functional.cross_entropy(self.classify(x.mean((2, 3))), labels)


def make_executable(accumulation=1, **options):
    torch.manual_seed(0)
    net = Residual()
    count = 4 * accumulation
    images, labels = torch.randn(count, 3, 32, 32), torch.randint(0, 5, (count,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in net.named_parameters()})
    program = capture_program(net, (images[:4], labels[:4]), {}, training=True, optimizer=spec, name="residual")
    settings = {"engine": EngineMode.OPERATORS, "gradient_accumulation": accumulation, "batching": False, **options}
    executable = Executable(program, RunOptions(training=True, **settings))
    executable.load_weights(dict(net.named_parameters()), dict(net.named_buffers()))
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    for _ in range(3):
        optimizer.zero_grad()
        for part in zip(images.chunk(accumulation), labels.chunk(accumulation), strict=True):
            (net(*part) / accumulation).backward()
        optimizer.step()
    return executable, [images, labels], net


def check(executable, inputs, net, steps=3):
    for _ in range(steps):
        executable.run(inputs)
    parameters, buffers = dict(net.named_parameters()), dict(net.named_buffers())
    found = {name: torch.empty_like(value) for name, value in (*parameters.items(), *buffers.items())}
    executable.read_weights({name: found[name] for name in parameters}, {name: found[name] for name in buffers})
    for name, expected in (*parameters.items(), *buffers.items()):
        torch.testing.assert_close(found[name], expected.detach(), rtol=1e-3, atol=2e-4, msg=name)


@pytest.fixture
def drafts(monkeypatch, bound_drafts):
    """What came of each draft; small models have their images laid out as well."""
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_WORK", 0)
    monkeypatch.setattr(thresholds, "NORM_ELEMENTS", 0)
    return bound_drafts


def list_calls(draft, target):
    return [node for node in draft.graph.nodes if node.target is target]


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_program_trains_as_eager_does(code, drafts, accumulation):
    check(*make_executable(accumulation))
    (draft,) = drafts
    forward, backward = list_calls(draft, normalize), list_calls(draft, differentiate)
    assert [(node.args[7] is not None, node.args[8]) for node in forward] == [
        (False, True),
        (True, True),
        (False, False),  # the one that the other one of the sum adds
        (True, True),
        (False, False),
    ]
    assert [(node.args[1] is not None, node.args[7]) for node in backward] == [
        (False, False),  # behind a tanh
        (True, True),  # whose gradient is also that of the other norm of the sum
        (False, False),
        (True, True),  # or of what was added
        (True, False),
    ]
    targets = {node.target for node in draft.graph.nodes}
    assert not targets & {aten.relu.default, aten.threshold_backward.default, aten.native_batch_norm_backward.default}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"deterministic": True}, {"floating_point_exceptions": True}], ids=str)
def test_deterministic_and_checked_programs_do_not_use_it(code, drafts, options):
    check(*make_executable(**options))
    assert not any(list_calls(draft, normalize) for draft in drafts)


@pytest.mark.slow
def test_without_the_kernels_operators_normalize(drafts):
    check(*make_executable())
    assert not any(list_calls(draft, normalize) for draft in drafts)


def write_norm(behind):
    """A norm in training, and what some function writes behind it."""
    graph = fx.Graph()

    def add_input(name, shape):
        node = graph.placeholder(name)
        node.meta["val"] = torch.empty(shape, device="meta")
        return node

    def call(target, *args, shape=(2, 16, 4, 4)):
        node = graph.call_function(target, args)
        node.meta["val"] = torch.empty(shape, device="meta")
        return node

    images, other = add_input("images", (2, 16, 4, 4)), add_input("other", (2, 16, 4, 4))
    rest = [add_input(name, (16,)) for name in ("weight", "bias", "mean", "variance")]
    norm = call(aten._native_batch_norm_legit_functional.default, images, *rest, True, MOMENTUM, EPSILON)
    parts = [call(operator.getitem, norm, place, shape=(16,) if place else (2, 16, 4, 4)) for place in range(5)]
    graph.output((*behind(call, parts, other), *parts[1:]))
    return Draft(graph, (), ())


def read_twice(call, parts, other):
    return call(aten.relu.default, parts[0]), call(aten.tanh.default, parts[0])


def add_and_read(call, parts, other):
    total = call(aten.add.Tensor, parts[0], other)
    return call(aten.relu.default, total), total


def add_to_itself(call, parts, other):
    return (call(aten.relu.default, call(aten.add.Tensor, parts[0], parts[0])),)


def read_statistics_first(call, parts, other):
    mean = call(aten.tanh.default, parts[1], shape=(16,))
    return mean, call(aten.relu.default, parts[0])


def test_a_gradient_that_was_read_before_is_blocked_apart(monkeypatch):
    """Two norms read it, and somebody else before them."""
    monkeypatch.setattr(thresholds, "NORM_ELEMENTS", 0)
    graph = fx.Graph()
    shapes = {"gradient": (2, 16, 4, 4), "results": (2, 16, 4, 4), "images": (2, 16, 4, 4), "weight": (16,)}
    values = {name: graph.placeholder(name) for name in shapes}
    for name, node in values.items():
        node.meta["val"] = torch.empty(shapes[name], device="meta")

    def call(target, *args):
        node = graph.call_function(target, args)
        node.meta["val"] = torch.empty(shapes["images"], device="meta")
        return node

    blocked = call(aten.threshold_backward.default, values["gradient"], values["results"], 0)
    before = call(aten.tanh.default, blocked)
    norm = (values["images"], values["weight"], None, None, values["weight"], values["weight"], True, EPSILON)
    gradients = [call(aten.native_batch_norm_backward.default, blocked, *norm, [True] * 3) for _ in range(2)]
    graph.output((before, *(call(operator.getitem, node, 0) for node in gradients)))
    draft = Draft(graph, (), ())
    apply_rules(draft.graph, make_rules(NO_KERNEL))
    graph.lint()
    assert [node.args[:2] for node in list_calls(draft, differentiate)] == [(blocked, None)] * 2


@pytest.mark.parametrize("behind", [read_twice, add_and_read, add_to_itself, read_statistics_first])
def test_what_is_read_on_the_way_stays_there(monkeypatch, behind):
    monkeypatch.setattr(thresholds, "NORM_ELEMENTS", 0)
    draft = write_norm(behind)
    apply_rules(draft.graph, make_rules(NO_KERNEL))
    draft.graph.lint()
    (joined,) = list_calls(draft, normalize)
    assert joined.args[7:9] == (None, False)
    assert len(list_calls(draft, aten.relu.default)) == 1
