"""Images with channels last in training: eager PyTorch's losses and weights, whoever else reads an image."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, OutputMode, RunOptions
from openipu.run import Executable, thresholds
from openipu.run.engine import pass_list
from openipu.run.kernels.catalog import WINOGRAD
from openipu.run.rewrites.images.image_kernels import convolve, find_filter_gradient, find_image_gradient, turn_back
from openipu.run.rewrites.images.layout import lay_out_images
from openipu.run.rewrites.images.winograd import (
    convolve_images,
    find_winograd_filter_gradient,
    find_winograd_image_gradient,
)

aten = torch.ops.aten
SIZE = 32  # of images
WINOGRADS = {convolve_images, find_winograd_filter_gradient, find_winograd_image_gradient}
LAST = {convolve, find_filter_gradient, find_image_gradient}


class Bottlenecks(nn.Module):
    """What a residual network is made of: single pixels, strides, norms, sums, pools."""

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.narrow, self.norms = nn.Conv2d(16, 16, 1, bias=False), nn.ModuleList(nn.BatchNorm2d(16) for _ in range(2))
        self.middle, self.wide = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 32, 1)
        self.short, self.down = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, 2, 1)
        self.skip = nn.Conv2d(32, 16, 1, 2, bias=False)
        self.classify = nn.Linear(16, 5)

    def forward(self, x, labels):
        x = nn.functional.max_pool2d(torch.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        y = torch.relu(self.norms[0](self.narrow(x)))
        y = torch.relu(self.norms[1](self.middle(y)))
        x = torch.relu(self.wide(y) + self.short(x))
        x = nn.functional.silu(self.down(x)) + self.skip(x)
        return nn.functional.cross_entropy(self.classify(x.mean((2, 3))), labels)


class Readers(nn.Module):
    """Images that others read as well: flattened, summed up along a row, multiplied by one with fewer dimensions."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.third, self.scale = nn.Conv2d(16, 16, 3, padding=1), nn.Parameter(torch.linspace(0.5, 1.5, SIZE))
        self.classify = nn.Linear(4 * SIZE * SIZE, 5)

    def forward(self, x, labels):
        x = torch.relu(self.first(x))
        y = self.second(x) * self.scale
        z = self.third(torch.tanh(y)) + x.cumsum(3) / SIZE
        z = nn.functional.avg_pool2d(z, 2)
        rest = y.transpose(1, 2).reshape(len(y), -1)[:, :5]
        return nn.functional.cross_entropy(self.classify(z.flatten(1)) + rest, labels)


class Returning(nn.Module):
    """Images are results, too: one of a convolution, one of what follows it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 1)
        self.classify = nn.Linear(32, 5)

    def forward(self, x, labels):
        first = self.first(x)
        second = torch.relu(self.second(torch.relu(first)))
        return nn.functional.cross_entropy(self.classify(second.mean((2, 3))), labels), first, second


class Frozen(nn.Module):
    """The first filter has no gradient, and so the second one's images have none."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.first.requires_grad_(False)
        self.classify = nn.Linear(16, 5)

    def forward(self, x, labels):
        x = self.second(torch.relu(self.first(x)))
        return nn.functional.cross_entropy(self.classify(torch.relu(x).mean((2, 3))), labels)


class Grouped(nn.Module):
    """Some convolutions are of no kind that this is for."""

    def __init__(self):
        super().__init__()
        self.first, self.apart = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.last, self.up = nn.Conv2d(16, 32, 1), nn.ConvTranspose2d(32, 16, 2, 2)
        self.classify = nn.Linear(16, 5)

    def forward(self, x, labels):
        x = self.up(torch.relu(self.last(self.apart(torch.relu(self.first(x))))))
        return nn.functional.cross_entropy(self.classify(x.mean((2, 3))), labels)


class Tiny(nn.Module):
    """Few pixels and large filters."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 9, 8, 1), nn.Conv2d(32, 64, 3, padding=1)
        self.classify = nn.Linear(64, 5)

    def forward(self, x, labels):
        x = self.second(torch.relu(self.first(x)))
        return nn.functional.cross_entropy(self.classify(torch.relu(x).mean((2, 3))), labels)


MODELS = {model.__name__.lower(): model for model in (Bottlenecks, Readers, Frozen, Grouped, Tiny)}
BATCH = 4


@pytest.fixture
def eager_pass(monkeypatch):
    """Small models go through the pass as well; says what came of them."""
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_WORK", 0)
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_COPIED", 100.0)
    monkeypatch.setattr(thresholds, "WINOGRAD_WORK", 0)
    monkeypatch.setattr(thresholds, "WINOGRAD_WINDOWS", 1)
    monkeypatch.setattr(thresholds, "WINOGRAD_STRIP_WINDOWS", 1)
    drafts = []

    def note(draft, winograd):
        lay_out_images(draft, winograd)
        drafts.append(draft)

    monkeypatch.setattr(pass_list, "lay_out_images", note)
    return drafts


@pytest.fixture
def code(use_kernels):
    return use_kernels(WINOGRAD)[WINOGRAD]


def make_data(count):
    random = torch.Generator().manual_seed(3)
    return torch.randn(count, 3, SIZE, SIZE, generator=random), torch.randint(0, 5, (count,), generator=random)


def make_net(model):
    torch.manual_seed(0)
    return model()


def make_executable(model, accumulation=1, *, half=False, **options):
    net = make_net(model)
    net = net.half() if half else net
    images, labels = make_data(BATCH * accumulation)
    images = images.half() if half else images
    optimizer = torch.optim.SGD([value for value in net.parameters() if value.requires_grad], lr=0.1, momentum=0.9)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in net.named_parameters()})
    program = capture_program(
        net, (images[:BATCH], labels[:BATCH]), {}, training=True, optimizer=spec, name=model.__name__
    )
    chosen = {"engine": EngineMode.OPERATORS, "output_mode": OutputMode.ALL, **options}
    executable = Executable(program, RunOptions(training=True, gradient_accumulation=accumulation, **chosen))
    executable.load_weights(dict(net.named_parameters()), dict(net.named_buffers()))
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable, images, labels


def train(executable, images, labels, steps=3):
    return [executable.run([images, labels]).outputs[0].float().mean() for _ in range(steps)]


def train_eagerly(model, accumulation=1, steps=3):
    net = make_net(model)
    images, labels = make_data(BATCH * accumulation)
    optimizer = torch.optim.SGD([value for value in net.parameters() if value.requires_grad], lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        data = zip(images.chunk(accumulation), labels.chunk(accumulation), strict=True)
        parts = [net(*part) / accumulation for part in data]
        for part in parts:
            part.backward()
        optimizer.step()
        losses.append(sum(part.detach() for part in parts))
    return losses, net


def check(executable, model, accumulation=1, tolerance=2e-4):
    images, labels = make_data(BATCH * accumulation)
    found = train(executable, images, labels)
    expected, net = train_eagerly(model, accumulation)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    names = [name for name, _ in net.named_parameters()]
    weights = executable.copy_weights(names)
    for name, value in net.named_parameters():
        torch.testing.assert_close(weights[name], value.detach(), rtol=tolerance, atol=tolerance, msg=name)


def count(draft, targets):
    return sum(node.target in targets for node in draft.graph.nodes)


@pytest.mark.parametrize("name", MODELS)
def test_training_is_eager_pytorchs(eager_pass, name):
    executable, *_ = make_executable(MODELS[name])
    check(executable, MODELS[name])
    (draft,) = eager_pass
    assert count(draft, LAST)
    assert not count(draft, WINOGRADS)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_training_with_native_code_is_eager_pytorchs(eager_pass, code, name):
    executable, *_ = make_executable(MODELS[name])
    check(executable, MODELS[name])
    (draft,) = eager_pass
    wanted = {"bottlenecks": 3, "readers": 6, "frozen": 2, "grouped": 0, "tiny": 3}
    assert count(draft, WINOGRADS) == wanted[name]


@pytest.mark.slow
@pytest.mark.parametrize("batching", [True, False], ids=["batched", "one after the other"])
def test_micro_batches_are_accumulated(eager_pass, code, batching):
    executable, *_ = make_executable(Frozen, 4, batching=batching)
    check(executable, Frozen, 4)
    assert all(count(draft, WINOGRADS) for draft in eager_pass)


def test_images_are_returned_plane_behind_plane(eager_pass):
    executable, images, labels = make_executable(Returning)
    expected = make_net(Returning)(images, labels)
    for found, other in zip(executable.run([images, labels]).outputs, expected, strict=True):
        assert found.is_contiguous()
        torch.testing.assert_close(found.reshape(other.shape), other.detach(), rtol=1e-5, atol=1e-5)
    assert count(eager_pass[0], LAST)


def test_planes_are_copied_for_those_alone_that_need_them(eager_pass):
    train(*make_executable(Bottlenecks), steps=1)
    train(*make_executable(Readers), steps=1)
    bottlenecks, readers = eager_pass
    assert count(bottlenecks, {turn_back}) == 0
    assert count(readers, {turn_back}) > 0


def test_a_convolution_of_single_pixels_is_a_product(eager_pass):
    train(*make_executable(Bottlenecks), steps=1)
    (draft,) = eager_pass
    # Four of them: forward, and gradients of images, if no pixel is left out, and of filters; the classifier's two.
    assert count(draft, {aten.mm.default, aten.addmm.default}) == 4 + 3 + 4 + 2 + 1


def test_many_pixels_are_left_to_the_convolution(eager_pass, monkeypatch):
    monkeypatch.setattr(thresholds, "PRODUCT_PIXELS", 1)
    executable, *_ = make_executable(Bottlenecks)
    check(executable, Bottlenecks)
    (draft,) = eager_pass
    assert count(draft, {aten.mm.default, aten.addmm.default}) == 2 + 1


def test_a_model_with_many_copies_is_left_as_it_was(eager_pass, monkeypatch):
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_COPIED", 0.25)
    train(*make_executable(Readers), steps=1)
    (draft,) = eager_pass
    assert not count(draft, LAST | {turn_back})
    assert count(draft, {aten.convolution.default}) == 3


def test_a_small_model_is_left_as_it_was(eager_pass, monkeypatch):
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_WORK", 1 << 26)
    train(*make_executable(Bottlenecks), steps=1)
    (draft,) = eager_pass
    assert not count(draft, LAST | {turn_back})


def test_half_trains_as_it_did(eager_pass, monkeypatch):
    found = train(*make_executable(Bottlenecks, half=True))
    monkeypatch.setattr(thresholds, "CHANNELS_LAST_WORK", 1 << 40)
    expected = train(*make_executable(Bottlenecks, half=True))
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=5e-3)
    with_pass, without = eager_pass
    assert count(with_pass, LAST)
    assert count(with_pass, {turn_back}) == 0
    assert not count(without, LAST)


@pytest.mark.slow
def test_a_deterministic_program_uses_no_native_code(eager_pass, code):
    executable, images, labels = make_executable(Frozen, deterministic=True)
    train(executable, images, labels, steps=1)
    (draft,) = eager_pass
    assert not count(draft, WINOGRADS)
