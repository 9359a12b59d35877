"""Programs of Paddle's new form: training, inference, shards and files equal Paddle's own executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dynamic_training
import numpy as np
import pytest
import torch

from models import MODELS, OPTIMIZERS
from openipu.model_files import load_file_job, run_file

SCRIPT = Path(__file__).with_name("new_form.py")
TRAINED = [f"{network} {name}" for network in MODELS for name in OPTIMIZERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("new_form")


@pytest.fixture(scope="module")
def results(folder):
    environment = {**os.environ, "OPENIPU_ENGINE": "operators"}
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [*TRAINED, "tied"])
def test_thirty_losses_and_all_that_is_kept_equal_those_of_paddle(results, name):
    losses, kept = results[name]
    assert losses < 1e-5
    assert kept <= 1


@pytest.mark.parametrize("name", dynamic_training.OPTIMIZERS)
def test_dynamic_to_static_equals_the_dynamic_mode_also_after_loading(results, name):
    losses, kept = results[f"dynamic {name}"]
    assert losses < 1e-5
    assert kept <= 1


def test_what_is_loaded_goes_to_a_program_of_to_static_that_runs(results):
    first, second, _, again = results["reloaded"]
    assert second < first
    assert again == first


def test_guards_put_ops_on_their_ipus_and_change_no_result(results):
    assert results["ipus"] == [0, 1]
    assert results["sharded"][0] < 1e-5


def test_each_op_names_the_line_of_the_script_that_made_it(results):
    assert {tuple(entry[1:]) for entry in results["lines"]} == {("new_form.py", "digits")}
    assert {"conv2d", "softmax_with_cross_entropy"} <= {entry[0] for entry in results["lines"]}


@pytest.mark.parametrize("name", ["transformer", "predictor"])
def test_a_small_transformer_infers_as_on_paddle(results, name):
    assert results[name][0] < 1e-5


def test_a_saved_model_is_planned_and_run_from_its_file(results, folder):
    values = np.load(folder / "values.npz")
    path = folder / "transformer.json"
    assert [tuple(entry.shape) for entry in load_file_job(path).args] == [(2, 8)]
    (found,) = run_file(path, {"words": torch.from_numpy(values["words"])}).values()
    np.testing.assert_allclose(found.numpy(), values["wanted"], rtol=1e-5)
