"""What runs in the workers: every way does the same work, and the work is counted rightly."""

import copy
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from bench.cells import EAGER, OPENIPU, Cell
from bench.models import MODELS
from bench.plan import RunPlan
from bench.processes import ROOT, WorkerError, WorkerProcess
from bench.sections.steps import make_play, measure_cell
from bench.store import Store
from bench.turns import Budget
from bench.work import counting
from bench.work.counting import HostMeter, count_flops, count_optimizer_bytes
from bench.work.process_figures import (
    read_cpu_seconds,
    read_peak_bytes,
    read_resident_bytes,
    reset_peak,
)
from bench.work.steps import make_call_inputs, make_onnx_step, make_optimizer, make_step

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def read_weights_after_a_step(way, cell):
    model = MODELS[cell.model]
    torch.manual_seed(1)
    module = copy.deepcopy(model.build()).train()
    inputs = make_call_inputs(cell, model)
    make_step(way, cell, module, inputs, make_optimizer(way, model, module))()
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("accumulation", [1, 16])
def test_openipu_trains_as_the_eager_loop_does(accumulation, monkeypatch):
    monkeypatch.setenv("OPENIPU_ENGINE", "operators")
    cell = Cell("cnn", accumulation=accumulation)
    eager = read_weights_after_a_step(EAGER, cell)
    torch.testing.assert_close(read_weights_after_a_step(OPENIPU, cell), eager)


def test_accumulation_means_micro_batches_of_one_sample():
    assert [tuple(value.shape) for value in make_call_inputs(Cell("cnn"), MODELS["cnn"])] == [(16, 1, 28, 28), (16,)]
    accumulated = make_call_inputs(Cell("bert_small", accumulation=16), MODELS["bert_small"])
    assert [tuple(value.shape) for value in accumulated] == [(16, 128), (16,)]


def test_flops_of_a_training_step_are_two_for_each_multiplication():
    layer, inputs = torch.nn.Linear(8, 4, bias=False), torch.randn(3, 8, requires_grad=True)
    # 3 x 8 x 4 products, in forward and for both gradients.
    assert count_flops(lambda: layer(inputs).sum().backward()) == 3 * (2 * 3 * 8 * 4)


def test_fused_layers_are_counted_too():
    query = torch.randn(1, 2, 4, 8)
    attention = lambda: torch.nn.functional.scaled_dot_product_attention(query, query, query)  # noqa: E731
    assert count_flops(attention) == 2 * (2 * 2 * 4 * 4 * 8)  # two products of two heads, 4 x 4 x 8 each
    recurrent, sequence = torch.nn.LSTM(4, 8), torch.randn(5, 1, 4)
    with torch.no_grad():
        # Five steps: the four gates of 8 from 4 inputs and from 8 hidden values.
        assert count_flops(lambda: recurrent(sequence)) == 5 * 2 * 32 * (4 + 8)


@pytest.mark.parametrize(("kind", "passes"), [("SGD", 5), ("AdamW", 7)])
def test_an_update_reads_and_writes_weights_and_state_and_reads_gradients(kind, passes):
    layer = torch.nn.Linear(8, 4)
    settings = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **settings)
    layer(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    assert count_optimizer_bytes(optimizer) == passes * (8 * 4 + 4) * 4


def test_the_peak_of_memory_starts_anew():
    big = torch.ones(64 * 2**20, dtype=torch.uint8)
    assert read_peak_bytes() >= big.numel()
    del big
    reset_peak()
    assert abs(read_peak_bytes() - read_resident_bytes()) < 16 * 2**20


def test_processor_time_of_descendants_is_seen():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 300
            while read_cpu_seconds(process.pid) < 0.3 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert read_cpu_seconds(process.pid) >= 0.3
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_waiting_ends_when_the_last_descendant_has_ended():
    # In a process of its own: other tests may have left children to this one.
    script = """
import subprocess, sys, time
from bench.work import process_figures
from bench.work.process_figures import wait_until_idle
sleep, looks = time.sleep, []
def nap(seconds):
    sleep(seconds)
    looks.append(seconds)
    if len(looks) == 2:
        process.stdin.close()  # now the child may end
process_figures.time.sleep = nap
with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
    assert wait_until_idle(3600, alone=True), "not seen"
    assert process.poll() == 0, "not awaited"
process_figures.time.sleep = sleep
assert not wait_until_idle(3600, alone=True), "nothing to wait for"
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2], timeout=600)


def test_a_worker_that_fails_says_why(tmp_path):
    environment = EAGER.make_environment(tmp_path)
    with pytest.raises(WorkerError, match="ModuleNotFoundError"):
        WorkerProcess("bench.no_such_module:Thing", environment, tmp_path / "log")


def test_a_worker_that_dies_is_an_error_with_its_code(tmp_path):
    with pytest.raises(WorkerError, match="ended with code 3"):
        WorkerProcess("os:_exit", EAGER.make_environment(tmp_path), tmp_path / "log", status=3)


def test_a_way_inherits_no_settings_of_the_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_ENGINE", "kernels")
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    environment = OPENIPU.make_environment(tmp_path)
    assert "OPENIPU_ENGINE" not in environment
    assert "TORCHINDUCTOR_MAX_AUTOTUNE" not in environment
    assert environment["OPENIPU_COMPILE_AFTER"] == "0"


def test_the_eager_process_never_sees_openipu():
    code = "import bench.work.steps, bench.work.counting, sys; print({'openipu', 'poptorch'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"


class DyingWorker:
    """Answers once."""

    def __init__(self):
        self.answers = [0.5]

    def call(self, method, **arguments):
        if not self.answers:
            raise WorkerError("the process ended with code -9: Killed")
        return self.answers.pop()


def test_a_way_that_dies_between_turns_leaves_the_others():
    figures = {"step_seconds": 0.5}
    play = make_play(DyingWorker(), figures, steps=1)
    assert [play(), play(), play()] == [0.5, None, None]
    assert figures["error"] == "the process ended with code -9: Killed"


def test_a_cell_is_measured_from_end_to_end(tmp_path):
    plan = RunPlan(
        store=Store(tmp_path / "results.json"),
        cache=tmp_path / "cache",
        logs=tmp_path / "logs",
        models=("cnn",),
        ways=(EAGER.name, OPENIPU.name),
        budget=Budget(rounds=2, minimum_rounds=2),
        say=lambda text: None,
    )
    result = measure_cell(Cell("cnn"), plan)
    assert set(result["ways"]) == {EAGER.name, OPENIPU.name}
    for entry in result["ways"].values():
        assert len(entry["seconds"]) == 2
        assert entry["seconds"][0] > 0  # in the second round a way may sit out
        assert entry["first_seconds"] > 0
        assert 0 < entry["peak_bytes"] < 2**32


def test_onnx_runtime_runs_the_exported_model():
    pytest.importorskip("onnxruntime")
    model = MODELS["cnn"]
    inputs = make_call_inputs(Cell("cnn", training=False), model, batch=1)
    (found,) = make_onnx_step(model.build().eval(), inputs)()
    assert found.shape == (1, 10)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs both libraries")
@pytest.mark.parametrize("seconds", [(4.0, 2.0), (2.0, 4.0)], ids=["oneDNN is quicker", "MKL is quicker"])
def test_the_host_limit_is_that_of_the_faster_library(monkeypatch, seconds):
    times = iter([*seconds, 0.5])  # of the two products and the copy
    monkeypatch.setattr(counting, "PRODUCT_SIZE", 8)
    monkeypatch.setattr(counting, "COPY_BYTES", 64)

    def run(work):
        work()
        return next(times)

    monkeypatch.setattr(counting, "_time", run)
    # 2 * 8^3 operations in 2 s; 64 bytes read and 64 written in 0.5 s.
    assert HostMeter().measure() == {"flops_per_second": 512.0, "bytes_per_second": 256.0}
