"""`openipu export`, and `openipu run --export`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from export_models import import_file

from openipu.cli.main import main

JOBS = """\
import torch
from torch import nn

def job():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh()), (torch.randn(2, 4),)

def planned():
    with torch.device("meta"):
        return nn.Linear(4, 3), (torch.empty(2, 4),)
"""
SCRIPT = """\
import torch, poptorch
from torch import nn

torch.manual_seed(0)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, y):
        result = self.layer(x)
        return result, nn.functional.mse_loss(result, y)

model = Model()
options = poptorch.Options()
options.showCompilationProgressBar(False)
trained = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(3):
    trained(torch.ones(2, 4), torch.zeros(2, 1))
trained.copyWeightsToHost()
torch.save(model.state_dict(), "weights.pt")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_becomes_onnx_and_that_becomes_pytorch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "jobs.py:job", "-o", "model.onnx"]) == 0
    told = capsys.readouterr().out
    assert "wrote model.onnx" in told
    assert "outputs: largest difference" in told
    assert main(["export", "model.onnx", "--to", "torch", "-o", "out/model.py", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == ["out/model.py", "out/model.pt"]
    assert told["checks"][0]["largest_difference"] < 1e-5
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    x = torch.randn(2, 4)
    (found,) = import_file(folder / "out" / "model.py")(x).values()
    torch.testing.assert_close(found, model(x))


def test_a_planned_model_needs_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "jobs.py:planned", "-o", "model.onnx"]) == 2
    assert "--random-weights SEED" in capsys.readouterr().err
    for name in ("model.onnx", "other.onnx"):
        assert main(["export", "jobs.py:planned", "-o", name, "--random-weights", "1", "--no-check"]) == 0
    assert (folder / "model.onnx").read_bytes() == (folder / "other.onnx").read_bytes()


def test_a_name_that_says_no_format_is_refused_before_the_model_is_built(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "nowhere.py:job", "-o", "model.txt"]) == 2
    assert "say what to write" in capsys.readouterr().err


def test_every_program_of_a_script_is_written_when_it_ends(folder: Path) -> None:
    words = [sys.executable, "-m", "openipu", "run", "--quiet", "--export", "out", "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    names = sorted(file.name for file in (folder / "out").iterdir())
    assert names == ["training.onnx", "training.pt", "training.py", "training.update.onnx"]
    assert "weights after 3 updates: largest difference" in done.stderr
    exported = import_file(folder / "out" / "training.py")
    weights = torch.load(folder / "weights.pt", weights_only=True)
    assert exported.state_dict().keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(exported.state_dict()[name], value)
