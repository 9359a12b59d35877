"""Each rule from ATen to ONNX against PyTorch: all ops of a family in one model, run by ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from onnx.reference import ReferenceEvaluator
from torch import nn

from openipu.export.onnx_file.models import build_models
from openipu.export.snapshot import snapshot_job
from openipu.jobs import PlanningJob

aten = torch.ops.aten
Op = Callable[..., torch.Tensor]

_GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 4, generator=_GENERATOR)
Y = torch.randn(3, 4, generator=_GENERATOR) + 3
WHOLE = torch.randint(-7, 8, (3, 4), generator=_GENERATOR)
DIVISOR = torch.tensor([[1, -2, 3, -3]])
IMAGE = torch.randn(2, 4, 7, 7, generator=_GENERATOR)

ELEMENTWISE: dict[str, Op] = {
    "arithmetic": lambda x, y, w, i, d: (x + y * 2 - 1) / y,
    "scaled sums": lambda x, y, w, i, d: (
        torch.add(x, y, alpha=3) + torch.sub(x, y, alpha=0.5) + torch.rsub(x, y, alpha=2)
    ),
    "functions": lambda x, y, w, i, d: (
        x.exp() + y.log() + x.sin() + x.cos() + x.tanh() + x.sigmoid() + x.erf() + y.sqrt()
    ),
    "rsqrt, log1p, expm1": lambda x, y, w, i, d: y.rsqrt() + y.log1p() + (x * 1e-4).expm1(),
    "rounding": lambda x, y, w, i, d: x.floor() + y.ceil() + (x * 3).round() + (x * 3).trunc(),
    "floor division": lambda x, y, w, i, d: torch.div(x * 7, y, rounding_mode="floor"),
    "truncating division": lambda x, y, w, i, d: torch.div(x * 7, y, rounding_mode="trunc"),
    "remainder": lambda x, y, w, i, d: torch.remainder(x * 7, y) + torch.fmod(x * 7, y),
    "whole floor division": lambda x, y, w, i, d: torch.div(w, d, rounding_mode="floor"),
    "whole truncating division": lambda x, y, w, i, d: torch.div(w, d, rounding_mode="trunc"),
    "whole remainder": lambda x, y, w, i, d: torch.remainder(w, d) + torch.fmod(w, d),
    "powers": lambda x, y, w, i, d: x**2 + x**3 + y**0.5 + y**-1.5,
    "limits": lambda x, y, w, i, d: x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + torch.maximum(x, y) + torch.minimum(x, y),
    "comparisons": lambda x, y, w, i, d: (x < 0) & (y > 3) | (w == 2) ^ (w != 3) | ~(w >= 1) & (w <= 5.5),
    "mixed formats": lambda x, y, w, i, d: x + w + (w > 0) + (x > 0) * 2,
    "choices": lambda x, y, w, i, d: torch.where(x > 0, x, y).masked_fill(w > 3, 9.0),
    "gates": lambda x, y, w, i, d: (
        F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.leaky_relu(x, 0.2) + F.elu(x)
    ),
    "more gates": lambda x, y, w, i, d: F.hardtanh(x) + F.softplus(x) + F.hardswish(x) + F.mish(x) + F.relu6(x),
    "tests": lambda x, y, w, i, d: (x / 0).isinf() | (x * float("nan")).isnan() | x.isfinite().logical_not(),
    "bits": lambda x, y, w, i, d: torch.bitwise_and(w, 6) | torch.bitwise_not(w),
    "angles": lambda x, y, w, i, d: torch.atan2(x, y) + torch.atan(x) + torch.asinh(x),
}
LAYOUT: dict[str, Op] = {
    "views": lambda x, y, w, i, d: x.view(2, 6).t().unsqueeze(0).permute(2, 0, 1).squeeze(1),
    "slices": lambda x, y, w, i, d: x[1:, ::2] + y[:2, 1:3] + x[-2:].narrow(1, 2, 2),
    "a slice that runs backwards": lambda x, y, w, i, d: x.flip(0, 1),
    "joins": lambda x, y, w, i, d: torch.cat([x, torch.stack([y, x], 1).reshape(6, 4)], 0),
    "cuts": lambda x, y, w, i, d: x.split([1, 3], 1)[1] + y.chunk(2, 1)[0][:, :1] + x.unbind(1)[2].unsqueeze(1),
    "pads": lambda x, y, w, i, d: F.pad(x, (1, 2, 0, 1), value=0.5),
    "repeats": lambda x, y, w, i, d: x.repeat(2, 1, 3),
    "expanded": lambda x, y, w, i, d: x[:, :1].expand(3, 5).contiguous(),
    "gathered": lambda x, y, w, i, d: x.gather(1, w.abs() % 4) + x.index_select(0, w.abs()[:, 0] % 3),
    "indexed": lambda x, y, w, i, d: x[w[:, 0] % 3, w[:, 1] % 4],
    "indexed behind an axis": lambda x, y, w, i, d: x.view(3, 2, 2)[:, w[0] % 2],
    "indexed from the end": lambda x, y, w, i, d: x[torch.tensor([-1, 0, -2])],
    "scattered": lambda x, y, w, i, d: x.scatter(1, w.abs() % 4, y).scatter_add(1, w.abs() % 4, y),
    "put": lambda x, y, w, i, d: x.index_put((w[:, 0] % 3,), y, accumulate=True) + x.index_add(0, w[:, 0].abs() % 3, y),
    "written": lambda x, y, w, i, d: _write(x, y),
    "made": lambda x, y, w, i, d: torch.zeros_like(x) + torch.ones(4) * torch.arange(4) + torch.full((3, 1), 2.5),
    "triangles": lambda x, y, w, i, d: x.tril() + x.triu(1),
    "looked up": lambda x, y, w, i, d: F.embedding(w.abs() % 3, x),
    "one-hot": lambda x, y, w, i, d: F.one_hot(w.abs() % 8, 8).float(),
}
REDUCTIONS: dict[str, Op] = {
    "sums": lambda x, y, w, i, d: x.sum() + x.sum(0) + x.mean(1, keepdim=True) + w.sum(1, keepdim=True),
    "products and limits": lambda x, y, w, i, d: x.prod(0) + x.amax(1, keepdim=True) + x.max() + x.min(0).values,
    "places": lambda x, y, w, i, d: x.argmax(1) + x.argmin(1) + x.max(1).indices + x.argmax(),
    "spreads": lambda x, y, w, i, d: x.var(1) + x.std(1, unbiased=False) + x.var(),
    "truths": lambda x, y, w, i, d: (x > 0).any(1) & (y > 0).all(1) | (w > 100).any(),
    "norms": lambda x, y, w, i, d: (
        x.norm() + x.norm(dim=1, keepdim=True) + x.norm(p=1) + x.norm(p=3) + x.norm(p=float("inf"))
    ),
    "orders": lambda x, y, w, i, d: x.topk(2, 1).values + x.sort(1, descending=True).indices[:, :2],
    "cumulated": lambda x, y, w, i, d: x.cumsum(1),
    "exponentials": lambda x, y, w, i, d: x.softmax(1) + x.log_softmax(0) + x.logsumexp(1, keepdim=True),
}
LINEAR: dict[str, Op] = {
    "products": lambda x, y, w, i, d: x @ y.t() + torch.addmm(x[:, :3], x, y.t(), beta=0.5, alpha=2.0),
    "batches of products": lambda x, y, w, i, d: torch.baddbmm(x[None, :, :3], x[None], y.t()[None]).squeeze(0),
    "vectors": lambda x, y, w, i, d: x @ y[0] + x[0] @ y[1],
    "convolution": lambda x, y, w, i, d: F.conv2d(i, x.view(3, 4, 1, 1), x[:, 0], stride=2, padding=1),
    "convolution in groups": lambda x, y, w, i, d: F.conv2d(i, y.view(4, 1, 1, 3), groups=4, dilation=(1, 2)),
    "transposed convolution": lambda x, y, w, i, d: F.conv_transpose2d(
        i, y.view(4, 1, 1, 3), stride=2, output_padding=(1, 0)
    ),
    "convolution of one axis": lambda x, y, w, i, d: F.conv1d(i[0], i[1, :2] * y[0, 0]),
    "largest in windows": lambda x, y, w, i, d: F.max_pool2d(i * y[0, 0], 3, 2, padding=1, ceil_mode=True),
    "places in windows": lambda x, y, w, i, d: F.max_pool2d(i * y[0, 0], 2, return_indices=True)[1],
    "means of windows": lambda x, y, w, i, d: F.avg_pool2d(i * y[0, 0], 3, 2, padding=1, count_include_pad=False),
    "means of everything": lambda x, y, w, i, d: F.adaptive_avg_pool2d(i * y[0, 0], 1),
    "layer norm": lambda x, y, w, i, d: F.layer_norm(x, (4,), y[0], y[1]) + F.layer_norm(x, (3, 4)),
    "group norm": lambda x, y, w, i, d: F.group_norm(i * y[0, 0], 2, y[0], y[1]),
    "batch norm with held statistics": lambda x, y, w, i, d: F.batch_norm(i, y[0], y[1], x[0], x[1]),
    "batch norm with its own": lambda x, y, w, i, d: F.batch_norm(i * y[0, 0], None, None, training=True),
    "instance norm": lambda x, y, w, i, d: F.instance_norm(i * y[0, 0]),
    "attention": lambda x, y, w, i, d: F.scaled_dot_product_attention(
        x.view(1, 2, 3, 2), y.view(1, 2, 3, 2), x.view(1, 2, 3, 2), is_causal=True
    ),
    "resized": lambda x, y, w, i, d: F.interpolate(i * y[0, 0], scale_factor=2, mode="nearest"),
    "cosines": lambda x, y, w, i, d: F.cosine_similarity(x, y),
}


def _write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    written = x.clone()
    written[:, 1] = 5.0
    written[1:, 2:] = y[1:, 2:]
    written[::2, 0] += 1
    return written


@pytest.mark.parametrize(
    "family", [ELEMENTWISE, LAYOUT, REDUCTIONS, LINEAR], ids=["each", "layout", "reduce", "linear"]
)
def test_every_op_of_a_family_gives_the_result_of_pytorch(family: dict[str, Op]) -> None:
    class Model(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
            return [op(*inputs) for op in family.values()]

    inputs = (X, Y, WHOLE, IMAGE, DIVISOR)
    snapshot = snapshot_job(PlanningJob(model=Model(), args=inputs))
    exported = build_models(snapshot)[""]
    onnx.checker.check_model(exported.model, full_check=True)
    feeds = {name: inputs[entry.index].numpy() for name, entry in exported.inputs.items()}
    found = ReferenceEvaluator(exported.model).run(None, feeds)
    for title, expected, result in zip(family, Model()(*inputs), found, strict=True):
        torch.testing.assert_close(
            torch.as_tensor(result), expected, rtol=1e-4, atol=1e-5, msg=lambda m, t=title: f"{t}: {m}"
        )


GRADIENTS: dict[str, Op] = {
    "convolution": lambda x, p: F.conv2d(x, p.view(4, 4, 2, 2), stride=2, padding=1).square(),
    "convolution in groups": lambda x, p: F.conv2d(x, p.view(4, 2, 2, 4)[:4], groups=2, dilation=(2, 1)).sin(),
    "transposed convolution": lambda x, p: F.conv_transpose2d(x, p.view(4, 4, 2, 2), stride=2).sin(),
    "largest in windows": lambda x, p: F.max_pool2d(x * p[:49].view(7, 7), 2).sin(),
    "means of windows": lambda x, p: F.avg_pool2d(x * p[:49].view(7, 7), 3, 2).sin(),
    "means of everything": lambda x, p: F.adaptive_avg_pool2d(x * p[:49].view(7, 7), 1).sin(),
    "layer norm": lambda x, p: F.layer_norm(x, (7, 7), p[:49].view(7, 7)).sin(),
    "group norm": lambda x, p: F.group_norm(x * p[0], 2, p[:4], p[4:8]).sin(),
    "batch norm": lambda x, p: F.batch_norm(x * p[0], None, None, p[:4], p[4:8], training=True).sin(),
    "embedding": lambda x, p: F.embedding(torch.tensor([[0, 3], [3, 1]]), p.view(8, 8), padding_idx=1).sin(),
    "attention": lambda x, p: F.scaled_dot_product_attention(
        p.view(1, 2, 8, 4), p.sin().view(1, 2, 8, 4), p.cos().view(1, 2, 8, 4), is_causal=True
    ),
    "classes": lambda x, p: F.cross_entropy(p.view(8, 8), torch.tensor([0, 1, 2, 3, -100, 5, 6, 7])),
    "classes with weights": lambda x, p: F.nll_loss(
        p.view(8, 8).log_softmax(1), torch.arange(8), weight=torch.arange(8.0), reduction="sum"
    ),
    "gates": lambda x, p: F.gelu(p) + F.silu(p) + F.elu(p) + F.hardswish(p) + F.softplus(p) + p.sigmoid() * p.tanh(),
    "distances": lambda x, p: (
        F.smooth_l1_loss(p, torch.zeros(64)) + F.binary_cross_entropy_with_logits(p, torch.ones(64))
    ),
    "looked up and cut": lambda x, p: (
        p[torch.tensor([1, 1, 3])] * p[4:7] + p.view(8, 8).gather(0, torch.ones(1, 3).long())[0]
    ),
    "largest": lambda x, p: p.view(8, 8).amax(1) + p.view(8, 8).max(0).values + p.cumsum(0)[:8],
}


def test_gradients_are_those_of_autograd() -> None:
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([nn.Parameter(torch.randn(64)) for _ in GRADIENTS])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = [op(x, weight).sum() for op, weight in zip(GRADIENTS.values(), self.weights, strict=True)]
            return torch.stack(parts).sum()

    model = Model()
    expected = torch.autograd.grad(model(IMAGE), list(model.weights))
    job = PlanningJob(
        model=_WithLoss(model), args=IMAGE, training=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    )
    exported = build_models(snapshot_job(job))[""]
    onnx.checker.check_model(exported.model, full_check=True)
    evaluator = ReferenceEvaluator(exported.model)
    found = dict(zip(evaluator.output_names, evaluator.run(None, {"x": IMAGE.numpy()}), strict=True))
    for number, (title, gradient) in enumerate(zip(GRADIENTS, expected, strict=True)):
        result = torch.as_tensor(found[f"gradient:model.weights.{number}"])
        torch.testing.assert_close(result, gradient, rtol=1e-3, atol=1e-4, msg=lambda m, t=title: f"{t}: {m}")


class _WithLoss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import poptorch

        return poptorch.identity_loss(self.model(x), "none")


def test_nodes_say_where_they_are_from(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu()

    model = build_models(snapshot_job(PlanningJob(model=Model(), args=X)))[""].model
    texts = {node.op_type: node.doc_string for node in model.graph.node}
    assert texts["MatMul"].startswith("layer, test_onnx_ops.py:")
    assert texts["Relu"].startswith("test_onnx_ops.py:")
