"""`openipu auto`, `openipu compare`, and the levers in `openipu plan`, as a user calls them."""

from __future__ import annotations

import json

import pytest

from openipu.cli import main

MODELS = """
import torch
from torch import nn
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob

class Layers(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return nn.functional.mse_loss(x, torch.zeros_like(x))

def make(width):
    with torch.device("meta"):
        model = Layers(width)
    options = RunOptions(training=True, gradient_accumulation=16)
    optimizer = torch.optim.Adam(model.parameters())
    return PlanningJob(
        model=model, args=torch.empty(16, width), training=True, optimizer=optimizer, options=options
    )

def small():
    return make(128)

def large():
    return make(5120)

def huge():
    return make(60_000)
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explored_models.py").write_text(MODELS)

    def run(*words):
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_auto_prints_the_stages_and_writes_a_report(call, tmp_path):
    words = ("auto", "explored_models.py:small", "--micro-batch", "16", "--ipus-per-replica", "2")
    code, out, _ = call(*words, "--profile", "out")
    assert code == 0
    assert "stage 0 on IPU 0: layers.0" in out
    assert "fits" in out
    page = tmp_path / "out" / "small" / "report.html"
    assert page.exists()
    assert page.with_name("profile.pop").exists()
    assert "report of small: out/small/report.html" in out
    code, out, _ = call(*words, "--json", "--profile", "again")
    document = json.loads(out)
    assert document["report"] == "again/small/report.html"
    assert not document["timed_out"]
    assert document["fits"]
    assert document["ipus_per_replica"] == 2
    assert sum(len(stage["modules"]) for stage in document["stages"]) == 4


def test_auto_proves_that_nothing_fits_and_says_what_would_help(call):
    code, out, _ = call("auto", "explored_models.py:huge", "--system", "bow-2000", "--check")
    assert code == 1
    words = " ".join(out.split())
    assert "No split can fit with any micro-batch" in words
    assert "That is proven" in words
    assert "More IPUs do not help" in words, "one layer of 60,000 x 60,000 is more than an IPU holds"
    assert "1 plans" in words
    code, out, _ = call("auto", "explored_models.py:huge", "--system", "bow-2000", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["complete"]
    shortage = document["shortage"]
    assert shortage["module"].startswith("layers.")
    assert shortage["variable_bytes"] >= 4 * 2 * 4 * 60_000 * 60_000, "weights and accumulators of four layers"
    assert shortage["least_tile_bytes"] > shortage["limit_tile_bytes"] == document["limit_tile_bytes"]


def test_auto_answers_a_wish_that_cannot_be_with_one_message(call):
    code, _, err = call("auto", "explored_models.py:small", "--ipus-per-replica", "32")
    assert code == 2
    assert "Choose a larger system" in err


def test_compare_prints_terms_of_time_and_memory(call, tmp_path):
    code, out, _ = call("compare", "explored_models.py:small", "explored_models.py:large", "--by", "module")
    assert code == 0
    assert "time for a sample" in out
    assert "fullest tile" in out
    assert "layers.0" in out
    assert call("plan", "explored_models.py:small", "--profile", "before")[0] == 0
    code, out, _ = call("compare", "before", "explored_models.py:small", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["speedup"] == 1.0
    total = sum(term["difference"] for term in document["memory"]["terms"])
    assert total == document["memory"]["difference"] == 0


def test_plan_says_which_lever_makes_a_job_fit_and_how_to_write_it(call):
    code, out, _ = call("plan", "explored_models.py:large")
    assert code == 0
    assert "does not fit" in out
    assert "planned again with" in out
    assert "It fits with" in out
    assert "poptorch:" in out
    code, out, _ = call("plan", "explored_models.py:large", "--json")
    advice = json.loads(out)["jobs"][0]["advice"]
    assert advice["levers"][0]["fits"]
    assert advice["change"]["poptorch"]
    for option in ("--advice-seconds", "--advice-plans"):
        code, out, _ = call("plan", "explored_models.py:large", option, "0", "--json")
        assert json.loads(out)["jobs"][0]["advice"] is None


def test_plan_names_what_it_did_not_try(call):
    code, out, _ = call("plan", "explored_models.py:huge", "--advice-plans", "3")
    assert code == 0
    told = " ".join(out.split())
    assert "Not tried after 3 plans: optimizer state off chip, " in told
    assert "16 IPUs in a pipeline" not in told, "the system has four"
    assert "4 IPUs in a pipeline, levers together. --advice-plans allows more." in told
    assert "Nothing that was planned makes it fit." in told
    assert "None of them makes it fit" not in told
