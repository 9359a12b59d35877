"""Planning jobs from Python: shapes in, a plan out, and mistakes named at once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.errors import OptionError
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob, read_job, run_job


def make_layer(width: int = 64) -> nn.Linear:
    with torch.device("meta"):
        return nn.Linear(width, width)


def test_values_of_the_inputs_do_not_matter_and_meta_inputs_will_do():
    layer = make_layer()
    real = run_job(PlanningJob(model=layer, args=torch.ones(8, 64)), "bow-2000")
    meta = run_job(PlanningJob(model=layer, args=(torch.empty(8, 64, device="meta"),)), "bow-2000")
    assert real.timing == meta.timing
    assert (real.fit.peak_bytes, real.fit.needed_bytes) == (meta.fit.peak_bytes, meta.fit.needed_bytes)


def test_inputs_are_one_micro_batch_whatever_the_options_say():
    job = PlanningJob(model=make_layer(), args=(torch.empty(8, 64),))
    plan = run_job(job.with_options(device_iterations=3, replicas=2))
    assert plan.micro_batch == 8
    # 3 iterations x 2 replicas x 8 samples
    assert plan.timing.samples_per_call == 48


def test_keyword_inputs_reach_the_model():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = make_layer()

        def forward(self, points: torch.Tensor, *, scale: float) -> torch.Tensor:
            return self.layer(points) * scale

    plan = run_job(PlanningJob(model=Scaled(), args=(torch.empty(8, 64),), kwargs={"scale": 2.0}))
    assert any(op.op.startswith("aten.mul") for op in plan.ops)


def test_a_job_is_called_as_its_model_unless_it_has_a_name():
    assert PlanningJob(model=make_layer(), args=()).title == "Linear"
    assert run_job(PlanningJob(model=make_layer(), args=(torch.empty(8, 64),), name="mine")).name == "mine"


def test_changed_options_leave_the_rest_of_the_job_alone():
    job = PlanningJob(model=make_layer(), args=(), name="mine", options=RunOptions(half_partials=False))
    changed = job.with_options(device_iterations=2)
    assert changed.options == RunOptions(half_partials=False, device_iterations=2)
    assert (changed.name, changed.model) == ("mine", job.model)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": 3}, "must be a module or a function, not int"),
        ({"training": True}, "training needs an optimizer"),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1)}, "training is False"),
        ({"options": RunOptions(training=True)}, "training=False, its options say training=True"),
    ],
)
def test_fields_that_contradict_are_an_option_error(fields, message):
    with pytest.raises(OptionError, match=message):
        PlanningJob(**{"model": make_layer(), "args": (), **fields})


@pytest.mark.parametrize("returned", [None, 3, (make_layer(),), (3, 4), make_layer(), {"args": ()}])
def test_what_is_no_job_is_an_option_error_that_names_the_function(returned):
    with pytest.raises(OptionError, match="models:job returned"):
        read_job(returned, "models:job", "job")
