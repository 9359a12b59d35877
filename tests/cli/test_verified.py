"""`openipu run --verify` and `openipu doctor --verify`."""

from __future__ import annotations

import json
import textwrap

import pytest

from openipu.cli import verified
from openipu.graph import EngineMode

SCRIPT = """
import torch, poptorch
from openipu.run.engine import pass_list

def spoil(draft, setting):
    for node in draft.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
        node.target = torch.ops.aten.sin.default

pass_list.BOUND = (pass_list.Pass("spoil", spoil), *pass_list.BOUND)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
x = torch.randn(2, 3)
print("right", torch.allclose(poptorch.inferenceModel(model)(x), model(x), atol=1e-5))
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spoiled.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_run_names_the_rule_and_goes_on(shell, script):
    plain = shell("run", "--quiet", str(script))
    assert "right False" in plain.stdout
    done = shell("run", "--quiet", "--verify", str(script))
    assert "right True" in done.stdout
    assert "the rule 'spoil'" in done.stderr
    assert done.returncode == 0
    (path,) = script.parent.glob("openipu-verify-*.zip")
    again = shell("doctor", "--verify", str(path))  # without the spoiled rule
    assert again.returncode == 0
    assert "no difference" in again.stdout


def test_the_summary_counts_verified_calls(shell, script):
    differs = shell("run", "--verify=2", str(script))
    assert "verified: inference: differs from the reference" in differs.stderr
    script.write_text(script.read_text().replace("aten.sin", "aten.tanh"))
    agrees = shell("run", "--verify=2", str(script))
    assert "verified: inference: 1 call agrees with the reference" in agrees.stderr


def test_a_reference_run_has_no_rules(shell, script):
    assert "right True" in shell("run", "--quiet", "--engine", "reference", str(script)).stdout


def test_a_bad_number_of_calls_is_refused(shell, script):
    done = shell("run", "--verify=abc", str(script))
    assert done.returncode == 2
    assert "OPENIPU_VERIFY" in done.stderr


def test_doctor_compares_models(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verified, "_ENGINES", (EngineMode.OPERATORS,))
    monkeypatch.setattr(verified, "_MODELS", {"LSTM": verified._MODELS["LSTM"]})
    code, out, _ = call("doctor", "--verify", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["same"] is True
    assert [row["calls"] for row in document["models"]] == [3] * 4
    code, out, _ = call("doctor", "--verify")
    assert code == 0
    assert "as the reference" in out


def test_doctor_fails_on_a_difference(call, monkeypatch, tmp_path):
    from openipu.run.engine import pass_list

    def spoil(draft, setting):
        raise RuntimeError("a rule that fails")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pass_list, "BOUND", (pass_list.Pass("spoil", spoil), *pass_list.BOUND))
    monkeypatch.setattr(verified, "_ENGINES", (EngineMode.OPERATORS,))
    monkeypatch.setattr(verified, "_MODELS", {"LSTM": verified._MODELS["LSTM"]})
    code, out, _ = call("doctor", "--verify", "--json")
    assert code == 1
    assert all("spoil" in row["finding"] for row in json.loads(out)["models"])


def test_a_file_that_is_no_reproducer_is_refused(shell, tmp_path):
    path = tmp_path / "other.zip"
    path.write_bytes(b"nothing")
    done = shell("doctor", "--verify", str(path))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
