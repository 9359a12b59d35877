"""A kernel that computes something else is named by the rule that calls it, and the results are right."""

from __future__ import annotations

import copy
import dataclasses
import shutil
import subprocess
import warnings

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import RunOptions
from openipu.run import Executable
from openipu.run.kernels import KernelProvider, load_kernel
from openipu.run.kernels.catalog import DROPOUT
from openipu.run.kernels.compiler import find_compiler, write_commands
from openipu.run.kernels.kernel import CPP_FOLDER
from openipu.run.verify import VerificationWarning, verify_calls

_RIGHT, _WRONG = "return values * (", "return values * 0.99f * ("  # a scale that is 1 % off
_RULE = "dropout by a kernel"


@pytest.fixture(scope="module")
def compile_dropout(tmp_path_factory):
    """The kernel from its own source, or from a changed one."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("needs a C++ compiler")

    def make(before, after):
        folder = tmp_path_factory.mktemp("cpp")
        shutil.copytree(CPP_FOLDER, folder, dirs_exist_ok=True)
        source = folder / DROPOUT.source
        text = source.read_text()
        assert text.count(before) == 1
        source.write_text(text.replace(before, after))
        changed = dataclasses.replace(DROPOUT, source=str(source))
        subprocess.run(write_commands(changed, compiler, folder / "made.so")[0], check=True, capture_output=True)
        return load_kernel(DROPOUT, folder / "made.so")

    return make


class Kept(KernelProvider):
    """Has one kernel, wherever that came from."""

    def __init__(self, loaded):
        super().__init__()
        self._library = self._library.extend([loaded])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(8, 32), nn.Dropout(0.25), nn.Linear(32, 4)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.second(self.drop(torch.tanh(self.first(x)))), y)


def train(provider, steps):
    torch.manual_seed(0)
    model, leaves = Net(), [torch.randn(16, 8), torch.randn(16, 4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    program = capture_program(model, tuple(leaves), {}, training=True, optimizer=spec, name="net")
    executable = Executable(program, RunOptions(training=True, random_seed=3), provider)
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    verification = verify_calls(executable, steps) if steps else None
    losses = [executable.run(copy.deepcopy(leaves)).outputs[0] for _ in range(4)]
    executable.read_weights(dict(model.named_parameters()), {})
    return losses, model.state_dict(), verification


@pytest.fixture
def expected():
    """Without a kernel."""
    losses, weights, _ = train(KernelProvider(), 0)
    return losses, weights


def test_a_wrong_kernel_is_named_and_the_results_are_right(compile_dropout, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = Kept(compile_dropout(_RIGHT, _WRONG))
    losses, *_ = train(wrong, 0)
    assert not torch.allclose(torch.stack(losses), torch.stack(expected[0]), rtol=1e-4)
    with pytest.warns(VerificationWarning, match=_RULE):
        losses, weights, verification = train(wrong, 2)
    assert verification.fault.rule == _RULE
    assert verification.path.exists()
    torch.testing.assert_close(losses, expected[0])
    torch.testing.assert_close(weights, expected[1])


def test_the_kernel_itself_raises_no_alarm(compile_dropout, expected):
    right = Kept(compile_dropout(_RIGHT, _RIGHT))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses, weights, verification = train(right, 4)
    assert verification.compared == 4
    torch.testing.assert_close(losses, expected[0])
    torch.testing.assert_close(weights, expected[1])
