"""The environment variables of Paddle for IPU: compile only, keep what was compiled, and write it as ONNX."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import openipu.session.cache as session_cache
import paddle
from models import build, make_strategy
from openipu.store import open_store
from openipu_paddle.backend import IpuBackend
from paddle import static

FEED = {"x": np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), "y": np.ones((2, 1), "float32")}


def linear():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "float32")
    return paddle.mean((paddle.nn.Linear(3, 1)(x) - y) ** 2)


def sgd():
    return paddle.optimizer.Momentum(learning_rate=0.05)


def run(training=True, feed=FEED, options=None):
    """What one run fetches, and the loss that Paddle's executor has for the same weights."""
    scope = static.Scope()
    main, startup, loss = build(linear, sgd if training else None)
    with static.scope_guard(scope):
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        strategy = make_strategy(training=training, options=options)
        program = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(["x", "y"], [loss])
        found = executor.run(program, feed=feed, fetch_list=[loss])
        wanted = executor.run(build(linear)[0], feed=feed, fetch_list=[loss.name]) if not training else None
    return found, wanted


@pytest.fixture
def planned(monkeypatch):
    """How often something is planned."""
    counted = []
    original = session_cache.plan_program
    monkeypatch.setattr(session_cache, "plan_program", lambda *a, **k: counted.append(1) or original(*a, **k))
    return counted


def test_a_program_that_is_compiled_only_is_not_run_and_a_later_run_uses_what_was_kept(monkeypatch, tmp_path, planned):
    monkeypatch.setenv("IPU_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("IPU_COMPILE_ONLY", "1")
    assert run()[0] == []
    assert len(planned) == 1
    (kept,) = open_store(tmp_path / "cache").list()
    monkeypatch.delenv("IPU_COMPILE_ONLY")
    (loss,) = run()[0]
    assert loss.shape == (1,)
    assert len(planned) == 1  # read, not made again
    assert [entry.key for entry in open_store(tmp_path / "cache").list()] == [kept.key]
    monkeypatch.setenv("IPU_CACHE_PATH", str(tmp_path / "other"))
    run()
    assert len(planned) == 2


def test_the_option_keeps_programs_like_the_variable(tmp_path, planned):
    options = {"enable_engine_caching": True, "cache_path": str(tmp_path / "cache")}
    run(options=options)
    run(options=options)
    assert len(planned) == 1


@pytest.mark.parametrize("by", ["variable", "option", "directory"])
def test_a_dumped_program_is_onnx_and_computes_the_same(by, monkeypatch, tmp_path):
    path = tmp_path / "model.onnx"
    if by == "variable":
        monkeypatch.setenv("IPU_ONNX_DUMP_PATH", str(path))
    place = tmp_path if by == "directory" else path
    (found,), (wanted,) = run(training=False, options=None if by == "variable" else {"onnx_dump_path": str(place)})
    model = onnx.load(tmp_path / "paddle_program.onnx" if by == "directory" else path)
    onnx.checker.check_model(model, full_check=True)
    names = [entry.name for entry in model.graph.input]
    (own,) = ReferenceEvaluator(model).run(None, {name: FEED[name] for name in names})
    np.testing.assert_allclose(np.ravel(own), np.ravel(found), rtol=1e-6)
    np.testing.assert_allclose(np.ravel(own), np.ravel(wanted), rtol=1e-6)


def test_a_training_program_is_dumped_with_its_update(monkeypatch, tmp_path):
    monkeypatch.setenv("IPU_ONNX_DUMP_PATH", str(tmp_path / "training"))
    run()
    for name in ("training.onnx", "training.update.onnx"):
        onnx.checker.check_model(onnx.load(tmp_path / name))
    IpuBackend.get_instance().save_model_proto(str(tmp_path / "later.onnx"))
    assert (tmp_path / "later.onnx").is_file()


def test_a_dump_that_cannot_be_written_is_a_warning_and_stops_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IPU_ONNX_DUMP_PATH", str(tmp_path / "file" / "model.onnx"))
    with pytest.warns(UserWarning, match="is not written to"):
        (loss,) = run()[0]
    assert loss.shape == (1,)


def test_without_the_variables_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*is not written.*")
        run()
    assert not list(tmp_path.iterdir())
