"""Generated models of every family compute what eager PyTorch computes, and so do those that once did not."""

from __future__ import annotations

import pytest
import torch
from generated.case import Case
from generated.check import examine, find_problems
from generated.engine import watch_passes
from generated.models import MODELS
from generated.patterns import FAMILIES
from generated.rules import Report, run_family

from openipu.run.engine import pass_list
from openipu.run.engine.pass_list import Pass
from openipu.run.kernels.catalog import DIRECT_CONVOLUTION, KERNELS

_CASES, _MODELS = 12, 8  # of a family
_KERNEL_FAMILIES = [name for name, family in FAMILIES.items() if family.kernels]

_STOCHASTIC = {"half": True, "options": (("stochastic_rounding", True),), "random": True}
FOUND = {
    "a norm's statistics are rounded before its images are read": Case(
        "rounded",
        0,
        layers=("self.norm = nn.BatchNorm2d(16)",),
        inputs=("data(step, 2, 16, 4, 4)",),
        lines=("v1 = self.norm(x0 * torch.sigmoid(x0))",),
        losses=("vary(v1.mean((2, 3)))",),
        **_STOCHASTIC,
    ),
    "attention without heads": Case(
        "attention",
        0,
        inputs=("data(step, 1, 1, 3, 4)",),
        lines=("v1 = x0[:, :0]", "v2 = torch.softmax(v1 @ v1.transpose(2, 3), -1) @ v1"),
        returns=("v2",),
    ),
    "a view of strided memory with arithmetic checked": Case(
        "checked",
        0,
        layers=("self.layer = nn.Linear(4, 4)", "self.norm = nn.BatchNorm2d(3)"),
        inputs=("data(step, 3, 2, 4, 4)", "data(step + 1, 3, 4, 4, 2)"),
        lines=(
            "v1 = F.instance_norm(self.layer(x0 * x1.transpose(3, 1)))",
            "v2 = self.norm(v1.transpose(0, 1))",
        ),
        losses=("vary(v2)",),
        options=(("floating_point_exceptions", True),),
    ),
    "a half gradient for an update that reads float32": Case(
        "products",
        0,
        layers=("self.layer = nn.Linear(8, 8)",),
        inputs=("data(step, 2, 8)",),
        losses=("vary(self.layer(x0))",),
        half=True,
        optimizer="torch.optim.AdamW(parameters, lr=0.01, eps=1e-3)",
        spec=(("accumulator_dtype", torch.float32),),
    ),
}


SHARED = [kernel for kernel in KERNELS if kernel is not DIRECT_CONVOLUTION]


def run(family: str, count: int) -> Report:
    *_, report = run_family(family, range(count))
    return report


@pytest.mark.parametrize("family", [*FAMILIES, *MODELS])
def test_generated_models_compute_what_eager_computes(family):
    report = run(family, _MODELS if family in MODELS else _CASES)
    assert report.failures == []
    assert report.list_unreached(kernels=False) == []
    assert sum(report.refused.values()) <= report.cases // 4, report.refused


@pytest.mark.parametrize("family", _KERNEL_FAMILIES)
def test_so_they_do_with_kernels(family, use_kernels):
    use_kernels(*SHARED)
    report = run(family, _CASES)
    assert report.failures == []
    assert report.list_unreached(kernels=True) == []


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name, use_kernels):
    use_kernels(*SHARED)
    with watch_passes() as watch:
        assert find_problems(FOUND[name], watch) == []


def test_a_wrong_pass_is_found_and_named(monkeypatch):
    """A pass that makes sums of products is a failure, and the only one without which the case is right."""

    def spoil(draft):
        for node in draft.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
            node.target = torch.ops.aten.add.Tensor

    wrong = Pass("wrong", lambda draft, setting: spoil(draft))
    monkeypatch.setattr(pass_list, "BOUND", (wrong, *pass_list.BOUND))
    case = Case("reused", 0, inputs=("data(step, 3, 4)",), lines=("v1 = x0 + 1", "v2 = v1 * x0"), returns=("v2", "v1"))
    with watch_passes() as watch:
        failure = examine(case, watch)
    assert failure is not None
    assert failure.passes == ("wrong",)
    assert failure.case.returns == ("v2",)
    assert "step 0 output 0" in failure.problems[0]
