"""The models of examples/plan_models.py are the ones they are called after, and plan without weights."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from openipu.jobs import PlanningJob, run_job

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def factories():
    sys.path.insert(0, str(EXAMPLES))
    try:
        return runpy.run_path(str(EXAMPLES / "plan_models.py"))
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("bert_base", 109_482_240),
        ("bert_large", 335_141_888),
        ("gpt2_small", 124_439_808),
        ("vit_base", 86_567_656),
    ],
)
def test_a_model_has_the_published_number_of_parameters_and_no_weights(factories, name, parameters):
    job = factories[name]()
    assert isinstance(job, PlanningJob)
    assert sum(entry.numel() for entry in job.model.parameters()) == parameters
    assert {entry.device.type for entry in job.model.parameters()} == {"meta"}


def test_resnet50_has_the_published_operations(factories):
    plan = run_job(factories["resnet50"](), "bow-2000")
    flops = sum(op.flops for op in plan.ops if op.family in ("convolution", "matmul"))
    # 4.09 G multiply-adds an image in convolutions and the classifier, two operations each, 16 images
    assert flops == pytest.approx(2 * 4.09e9 * 16, rel=0.02)
    assert plan.fit.fits


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_training_jobs_have_an_update(factories, name):
    plan = run_job(factories[name](), "bow-2000")
    assert plan.timing.update_cycles > 0
    assert plan.fit.fits


def test_bert_base_with_adamw_is_too_much_for_one_ipu(factories):
    plan = run_job(factories["bert_base_training"](), "bow-2000")
    # 109.5 M weights: 2 B each, 2 B for the accumulated gradient, 2 x 4 B of state = 1.2 GiB of the 897 MiB
    assert not plan.fit.fits
    assert plan.fit.needed_bytes > 109.5e6 * 12
