"""The compiled tier gives the results of the instant one, is kept for other runs, and steps back where it must."""

import json
import shutil
import time

import pytest
import torch
from torch import nn

from openipu.errors import InputError
from openipu.graph import EngineMode, OutputKind, RunOptions
from openipu.run import Executable
from openipu.run.engines import compile_choice, tiers
from openipu.run.native import NativeBuild, NotCompiledError, process
from openipu.store import open_store

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        # No bias before the norm: its true gradient is zero, and Adam would blow up the rounding that is left of it.
        self.first, self.norm, self.second = nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.Linear(16, 3)

    def forward(self, x, labels):
        hidden = nn.functional.dropout(self.norm(self.first(x)).relu(), 0.3)
        return nn.functional.cross_entropy(self.second(hidden), labels)


def make_data(count):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 6, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def train(start_training, tier, runs=4, **options):
    torch.manual_seed(0)
    model = Net()
    settings = RunOptions(training=True, engine=tier, random_seed=7, **options)
    leaves = make_data(4 * settings.micro_batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    trained = start_training(model, optimizer, leaves, settings)
    losses = [trained.executable.run(leaves).outputs[0] for _ in range(runs)]
    return trained, torch.stack(losses)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    "batching",
    [pytest.param({}, marks=pytest.mark.thorough), {"device_iterations": 2, "gradient_accumulation": 2}],
    ids=["plain", "both"],
)
def test_a_compiled_step_equals_an_instant_one_dropout_included(start_training, batching):
    instant, expected = train(start_training, EngineMode.OPERATORS, **batching)
    other, losses = train(start_training, EngineMode.KERNELS, **batching)
    assert other.executable.engine_mode is EngineMode.KERNELS
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)
    step = other.executable.state["step:first.weight"]
    updates = 4 * batching.get("device_iterations", 1)  # 4 runs
    assert step.item() == instant.executable.state["step:first.weight"].item() == updates
    weights = instant.read_weights()
    for name, value in other.read_weights().items():
        torch.testing.assert_close(value, weights[name], atol=1e-5, rtol=1e-5)


@needs_compiler
@pytest.mark.slow
def test_the_same_seed_and_tier_give_the_same_bits_and_nothing_is_compiled_twice(start_training, monkeypatch):
    first, losses = train(start_training, EngineMode.KERNELS)
    entries = {entry.key for entry in open_store().list()}
    again, same = train(start_training, EngineMode.KERNELS)
    assert torch.equal(losses, same)
    assert {entry.key for entry in open_store().list()} == entries
    weights = first.read_weights()
    assert all(torch.equal(value, weights[name]) for name, value in again.read_weights().items())


@needs_compiler
@pytest.mark.slow
def test_state_that_is_loaded_reaches_the_compiled_step(start_training):
    trained, _ = train(start_training, EngineMode.KERNELS, runs=3)
    saved, weights = trained.executable.state, trained.read_weights()
    other, _ = train(start_training, EngineMode.KERNELS, runs=1)
    other.executable.load_state(saved)
    other.executable.load_weights(weights, {**dict(trained.model.named_buffers())})
    trained.read_weights()
    assert other.executable.state["step:second.bias"].item() == 3
    leaves = make_data(4)
    other.executable.run(leaves)
    assert other.executable.state["step:second.bias"].item() == 4
    assert other.executable.state["step:first.weight"].item() == 4


@needs_compiler
@pytest.mark.slow
def test_steps_that_differ_between_parameters_send_a_compiled_program_to_the_instant_tier(start_training, caplog):
    trained, _ = train(start_training, EngineMode.KERNELS, runs=1)
    trained.executable.load_state({"step:first.weight": torch.tensor(5.0)})
    assert trained.executable.engine_mode is EngineMode.OPERATORS
    assert "goes on in the instant tier" in caplog.text
    trained.executable.run(make_data(4))
    state = trained.executable.state
    assert (state["step:first.weight"].item(), state["step:second.bias"].item()) == (6, 2)


@needs_compiler
@pytest.mark.slow
def test_compiled_inference_keeps_buffers_and_can_be_prepared(build_program):
    program = build_program(
        lambda count, x: (x + count, count + 1),
        buffers={"count": torch.zeros(1)},
        inputs={"x": torch.zeros(1)},
        returns=[(OutputKind.OUTPUT, "y"), (OutputKind.BUFFER, "count")],
    )
    executable = Executable(program, RunOptions(device_iterations=3, engine=EngineMode.KERNELS))
    executable.load_weights({}, {"count": torch.zeros(1)})
    assert executable.compile() is EngineMode.KERNELS
    assert executable.run([torch.zeros(3)]).outputs[0].tolist() == [0, 1, 2]


@needs_compiler
@pytest.mark.slow
def test_auto_answers_at_once_and_takes_the_compiled_step_over_when_it_is_there(start_training, monkeypatch):
    monkeypatch.setenv(compile_choice.PATIENCE_VARIABLE, "0")
    monkeypatch.setattr(tiers, "_JUDGED_SPEED", float("inf"))  # so small a step may be slower compiled
    monkeypatch.setattr(process, "lower_priority", process.read_priority)  # idle time may be long in coming
    _, expected = train(start_training, EngineMode.OPERATORS, runs=1)
    trained, losses = train(start_training, EngineMode.AUTO, runs=1)
    assert trained.executable.engine_mode is EngineMode.OPERATORS
    assert torch.equal(losses, expected)
    leaves, deadline = make_data(4), time.monotonic() + 1800
    while trained.executable.engine_mode is EngineMode.OPERATORS and time.monotonic() < deadline:
        trained.executable.run(leaves)
        time.sleep(0.01)
    assert trained.executable.engine_mode is EngineMode.KERNELS
    runs = int(trained.executable.state["step:second.bias"].item())
    _, pinned = train(start_training, EngineMode.OPERATORS, runs=runs + 3)
    later = torch.stack([trained.executable.run(leaves).outputs[0] for _ in range(3)])
    torch.testing.assert_close(later, pinned[-3:], atol=1e-3, rtol=1e-3)


@pytest.fixture
def judged(start_training, monkeypatch):
    """A program whose compiled engine has just taken over."""
    trained, _ = train(start_training, EngineMode.AUTO, runs=1)
    chooser = trained.executable._tiers
    monkeypatch.setattr(_FakeNative, "said", None)
    monkeypatch.setattr(tiers.Tiers, "_bind_native", lambda self, native: setattr(self, "engine", _FakeEngine()))
    chooser._patience, chooser._native, chooser.engine = 0.0, _FakeNative(), _FakeEngine()
    chooser._times.clear()
    return chooser


def note_runs(chooser, seconds, runs):
    for _ in range(runs):
        chooser.note_run(seconds)


@pytest.mark.parametrize(("instant", "compiled", "runs"), [(1e-3, 2e-3, 125), (1.0, 1.5, 8), (1e-6, 2e-6, 256)])
def test_auto_goes_back_where_the_compiled_step_is_slower(judged, instant, compiled, runs):
    judged._instant_seconds = instant
    note_runs(judged, compiled, runs - 1)  # a quarter of a second, 8 runs at least, 256 at most
    assert judged.mode is EngineMode.KERNELS
    note_runs(judged, compiled, 1)
    assert judged.mode is EngineMode.OPERATORS
    assert judged._native is None
    assert _FakeNative.said == {"slower than instant": True}


def test_one_quick_run_among_many_is_enough_to_stay_compiled(judged):
    judged._instant_seconds = 1e-3
    for seconds in [5e-3] * 20 + [0.8e-3] + [5e-3] * 60:  # the first runs warm up, and others use the machine
        judged.note_run(seconds)
    assert judged.mode is EngineMode.KERNELS
    assert judged._patience == float("inf")


@pytest.mark.parametrize(
    ("before", "again", "winner"), [(1.05, 0.9, EngineMode.OPERATORS), (0.95, 1.1, EngineMode.KERNELS)]
)
def test_engines_that_are_close_are_compared_twice(judged, before, again, winner, caplog):
    caplog.set_level("INFO", logger="openipu")
    judged._instant_seconds = before
    note_runs(judged, 1.0, 8)
    assert judged.mode is EngineMode.OPERATORS  # for another look
    assert judged._native is not None
    note_runs(judged, again, 8)
    assert judged.mode is winner
    assert "Net runs in the instant tier for another comparison" in caplog.text
    if winner is EngineMode.KERNELS:
        assert (
            "Net changes to the compiled tier: a step takes 1,000.00 ms instead of 1,100.00 ms (1.10x)" in caplog.text
        )
    else:
        assert "Net stays in the instant tier, which is quicker: a step takes 900.00 ms, and 1,000.00 ms" in caplog.text
    assert (judged._native is not None) == (winner is EngineMode.KERNELS)
    assert (_FakeNative.said is None) == (winner is EngineMode.KERNELS)
    assert judged._patience == float("inf")


def test_state_that_native_code_cannot_hold_ends_the_comparison_in_the_instant_tier(judged, monkeypatch, caplog):
    def refuse(self, native):
        raise InputError("two step counts")

    judged._instant_seconds = 0.95
    note_runs(judged, 1.0, 8)
    monkeypatch.setattr(tiers.Tiers, "_bind_native", refuse)  # state was loaded in between
    note_runs(judged, 1.1, 8)
    assert judged.mode is EngineMode.OPERATORS
    assert judged._native is None
    assert "goes on in the instant tier. two step counts" in caplog.text


class _FakeEngine:
    mode = EngineMode.KERNELS


class _FakeNative:
    said = None

    def describe(self, facts):
        type(self).said = facts


def test_what_cannot_be_compiled_runs_in_the_instant_tier_with_one_warning(start_training, monkeypatch, tmp_path):
    def fail(self):
        raise NotCompiledError("no compiler found")

    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(NativeBuild, "__init__", lambda self, job, background: None)
    monkeypatch.setattr(NativeBuild, "finish", fail)
    with pytest.warns(UserWarning, match=r"Net could not be compiled.*\(no compiler found\)") as caught:
        trained, losses = train(start_training, EngineMode.KERNELS)
    assert len(caught) == 1
    assert trained.executable.engine_mode is EngineMode.OPERATORS
    _, expected = train(start_training, EngineMode.OPERATORS)
    assert torch.equal(losses, expected)


def test_the_compiler_process_says_why_it_failed(start_training, monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    trained, _ = train(start_training, EngineMode.OPERATORS, runs=1)
    job = trained.executable._tiers._write_job()
    broken = json.loads(json.dumps(job.content))
    broken["units"][0]["graph"][-1] = ["no_such_operator.default", [], {}]
    build = NativeBuild(type(job)(job.key[::-1], broken), background=False)
    with pytest.raises(NotCompiledError, match=r"no_such_operator"):
        build.finish()
    assert build.done


def test_a_compiler_that_is_not_waited_for_ends_with_the_program(start_training):
    trained, _ = train(start_training, EngineMode.OPERATORS, runs=1)
    build = NativeBuild(trained.executable._tiers._write_job(), background=True)
    assert not build.done
    build.stop()
    assert build.done


def test_a_number_of_seconds_that_is_none_is_refused(start_training, monkeypatch):
    from openipu.errors import OptionError

    monkeypatch.setenv(compile_choice.PATIENCE_VARIABLE, "soon")
    with pytest.raises(OptionError, match=r"OPENIPU_COMPILE_AFTER is 'soon'"):
        train(start_training, EngineMode.AUTO)
