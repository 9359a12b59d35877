"""A deterministic run has the same bits in every process: other loads, hashes and addresses make no difference."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import poptorch
from openipu.errors import OptionError
from openipu.graph import EngineMode, RunOptions
from openipu.run.repeatable import Repeatable
from openipu.session import choose_determinism, choose_engine
from poptorch.options._translate import build_run_options

pytestmark = pytest.mark.slow

CASE = Path(__file__).parent / "deterministic_case.py"


def train(case, number, threads, cache):
    """One process; each number is another disturbance."""
    environment = {
        **os.environ,
        "OPENIPU_DETERMINISTIC": "1",
        "OPENIPU_COMPILE_AFTER": "0",  # without the switch, a compilation would begin at once
        "OPENIPU_CACHE_DIR": str(cache),
        "PYTHONHASHSEED": str(number),
        "OMP_NUM_THREADS": str(threads),
    }
    command = [sys.executable, str(CASE), case, str(3 * number)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("case", "threads", "others"),
    [
        pytest.param("float", 1, 0, marks=pytest.mark.thorough),
        ("float", 2, 2),
        pytest.param("half", 1, 0, marks=pytest.mark.thorough),
        ("half", 2, 0),
    ],
)
def test_weights_and_losses_are_the_same_bits_in_every_process(case, threads, others, tmp_path):
    engine, expected = train(case, 0, threads, tmp_path)
    assert engine == "operators"
    # Threads that wait for a core finish in another order; one thread alone has none.
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)]
    try:
        assert train(case, 1, threads, tmp_path) == ["operators", expected]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert not list(tmp_path.rglob("*.so")), "nothing was compiled"
    assert not (tmp_path / "scratch").exists()


def test_a_deterministic_program_compiles_nothing(start_training, monkeypatch, caplog):
    monkeypatch.setenv("OPENIPU_COMPILE_AFTER", "0")
    caplog.set_level("INFO", logger="openipu")
    model, leaves = Small(), (torch.ones(2, 4),)
    options = RunOptions(training=True, deterministic=True, stochastic_rounding=True)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.1), leaves, options)
    for _ in range(300):
        trained.executable._supervisor.note_run(1.0)
    trained.executable.run(leaves)
    assert trained.executable.engine_mode is EngineMode.OPERATORS
    assert "Small runs deterministically: compiles nothing, with 1 threads." in caplog.text
    assert "being compiled" not in caplog.text


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return nn.functional.mse_loss(self.layer(x), x)


def test_settings_of_the_user_are_as_before_after_a_run(start_training):
    model, leaves = Small(), (torch.ones(2, 4),)
    options = RunOptions(training=True, deterministic=True)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.1), leaves, options)
    torch.set_num_threads(3)  # the fixture of these tests gives the threads back
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        trained.executable.run(leaves)
        assert torch.get_num_threads() == 3
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.utils.deterministic.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_run_keeps_the_threads_and_the_kernels_that_it_began_with():
    held = Repeatable("net")
    torch.set_num_threads(3)
    seen = []

    def look():
        with held.hold():
            seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))

    look()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(1, True)] * 2
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_operator_that_cannot_keep_the_promise_is_named():
    values, indices = torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    with (
        pytest.raises(OptionError, match=r"net cannot run deterministically: PyTorch's max_unpooling2d\S* does not"),
        Repeatable("net").hold(),
    ):
        nn.functional.max_unpool2d(values, indices, 2)


def test_inputs_are_aligned_wherever_they_lie():
    room = torch.arange(101.0)
    (aligned, other) = Repeatable.align([room[1:], "a text"])
    assert torch.equal(aligned, room[1:])
    assert aligned.data_ptr() % 64 == 0
    assert room[1:].data_ptr() % 64 != 0
    assert other == "a text"


def test_the_switch_is_an_option_a_variable_and_an_argument(monkeypatch):
    monkeypatch.delenv("OPENIPU_DETERMINISTIC", raising=False)
    options = poptorch.Options()
    assert not build_run_options(options, True).deterministic
    options.enableDeterminism()
    assert build_run_options(options, True).deterministic
    assert build_run_options(options, False).deterministic
    options.enableDeterminism(False)
    assert not build_run_options(options, True).deterministic
    assert not choose_determinism(RunOptions()).deterministic
    monkeypatch.setenv("OPENIPU_DETERMINISTIC", "0")
    assert not choose_determinism(RunOptions()).deterministic
    monkeypatch.setenv("OPENIPU_DETERMINISTIC", "1")
    assert choose_determinism(RunOptions()).deterministic
    monkeypatch.setenv("OPENIPU_DETERMINISTIC", "yes")
    with pytest.raises(OptionError, match=r"OPENIPU_DETERMINISTIC is 'yes'"):
        choose_determinism(RunOptions())


def test_waiting_for_kernels_and_determinism_exclude_each_other(monkeypatch):
    monkeypatch.setenv("OPENIPU_ENGINE", "kernels")
    with pytest.raises(OptionError, match="A deterministic run compiles nothing"):
        choose_engine(RunOptions(deterministic=True))


def test_a_script_that_is_run_deterministically_and_its_processes_know(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os; print(os.environ['OPENIPU_DETERMINISTIC'])")
    command = [sys.executable, "-m", "openipu", "run", "--quiet", "--deterministic", str(script)]
    environment = {name: value for name, value in os.environ.items() if name != "OPENIPU_DETERMINISTIC"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.stdout.strip() == "1", ended.stderr
