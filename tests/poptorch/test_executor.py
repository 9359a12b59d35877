"""PoplarExecutor: life cycle, attributes, profile, cycles."""

import datetime
import gc
import json
import weakref

import pytest
import torch
from torch import nn

import poptorch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class Greeter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return self.layer(x)

    def greet(self):
        return "hello"


class Trainer(Greeter):
    def forward(self, x):
        return poptorch.identity_loss(self.layer(x), "mean")


def test_attributes_fall_through_to_the_users_model():
    model = Greeter()
    executor = poptorch.inferenceModel(model, quiet())
    assert executor.layer is model.layer
    assert executor.greet() == "hello"
    assert executor.model.layer is model.layer
    assert repr(executor) == repr(model)
    with pytest.raises(AttributeError, match="nothing"):
        _ = executor.nothing


def test_compile_does_not_run_and_is_done_once(caplog):
    executor = poptorch.inferenceModel(Greeter(), quiet())
    assert not executor.isCompiled()
    assert executor._executable is None  # applications ask for it, as they did of the original
    assert not executor.isAttachedToDevice()
    executor.compile(torch.ones(1, 2))
    assert executor.isCompiled()
    assert executor._executable is not None
    executor.compile(torch.ones(1, 2))
    assert "compile() does nothing here: the model has been compiled before" in caplog.text


@pytest.mark.parametrize(
    "method",
    ["copyWeightsToHost", "copyWeightsToDevice", "attachToDevice", "detachFromDevice", "copyNamedBuffersToDevice"],
)
def test_what_needs_a_compiled_model_says_so(method):
    executor = poptorch.inferenceModel(Greeter(), quiet())
    with pytest.raises(poptorch.Error, match=r"Model has not been compiled or has been destroyed\."):
        getattr(executor, method)()


def test_named_buffers_must_be_announced():
    executor = poptorch.inferenceModel(Greeter(), quiet())
    executor.compile(torch.ones(1, 2))
    with pytest.raises(poptorch.Error, match="No named buffers marked as updatable via updatableNamedBuffers option"):
        executor.copyNamedBuffersToDevice()


def test_the_options_of_an_executor_are_a_frozen_copy_with_a_decided_output_mode():
    options = poptorch.Options()
    executor = poptorch.trainingModel(Trainer(), options)
    assert executor.options is not options
    assert executor.options.output_mode is poptorch.OutputMode.Final
    assert executor._options.toDict()["replication_factor"] == 1
    with pytest.raises(AttributeError, match="frozen"):
        executor.options.deviceIterations(2)


def test_wrong_options_are_refused():
    with pytest.raises(
        poptorch.Error, match=r"Invalid type: 'options' is of type .*dict.* \(Expected poptorch.Options\)"
    ):
        poptorch.inferenceModel(Greeter(), {})
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    words = r"You must set poptorch.Options\(\).Training.gradientAccumulation to 1 .*deviceIterations"
    with pytest.raises(poptorch.Error, match=words):
        poptorch.inferenceModel(Greeter(), options)


def test_an_offline_model_compiles_but_does_not_run():
    executor = poptorch.inferenceModel(Greeter(), quiet().useOfflineIpuTarget())
    with pytest.raises(AssertionError, match=r"offline device \(ConnectionType.Never\): model.compile\(inputs\)"):
        executor(torch.ones(1, 2))
    executor.compile(torch.ones(1, 2))
    assert executor.isCompiled()
    assert not executor.isAttachedToDevice()
    with pytest.raises(AssertionError, match="offline"):
        executor.attachToDevice()


def test_cycles_are_those_of_the_plan_after_a_run():
    executor = poptorch.inferenceModel(Greeter(), quiet())
    with pytest.raises(
        poptorch.Error, match=r"Cycle count logging is disabled\. Please set option logCycleCount to True"
    ):
        executor.cycleCount()
    once = poptorch.inferenceModel(Greeter(), quiet().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="Please run the model at least once before obtaining cycle count"):
        once.cycleCount()
    once(torch.ones(1, 2))
    ten_times = poptorch.inferenceModel(Greeter(), quiet().logCycleCount(True).deviceIterations(10))
    ten_times(torch.ones(10, 2))
    assert isinstance(once.cycleCount(), int)
    assert 0 < once.cycleCount() < ten_times.cycleCount()


def test_compilation_time_and_progress_bar_go_together(capsys):
    executor = poptorch.inferenceModel(Greeter())
    with pytest.raises(poptorch.Error, match="Please compile the model before obtaining compilation time"):
        executor.compilationTime()
    executor(torch.ones(1, 2))
    assert executor.compilationTime() > datetime.timedelta(0)
    assert "Graph compilation: 100%" in capsys.readouterr().err
    silent = poptorch.inferenceModel(Greeter(), quiet())
    silent(torch.ones(1, 2))
    assert capsys.readouterr().err == ""
    with pytest.raises(poptorch.Error, match="Please set showCompilationProgressBar option"):
        silent.compilationTime()


def test_profiles_are_written_for_each_program(tmp_path, monkeypatch):
    model = Trainer()
    options = quiet().enableProfiling(str(tmp_path))
    poptorch.trainingModel(model, options)(torch.ones(1, 2))
    poptorch.inferenceModel(Greeter(), options)(torch.ones(1, 2))
    poptorch.inferenceModel(Greeter(), options.clone().modelName("mine"))(torch.ones(1, 2))
    for name in ("training", "inference", "mine"):
        assert (tmp_path / name / "profile.pop").exists()
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "environment")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(engine))
    poptorch.inferenceModel(Greeter(), quiet())(torch.ones(1, 2))
    assert (tmp_path / "environment" / "inference" / "profile.pop").exists()


def test_hooks_run_around_every_compilation_in_order():
    calls = []
    handles = [
        poptorch.registerPreCompileHook(lambda: calls.append("before")),
        poptorch.registerPreCompileHook(lambda: calls.append("then")),
        poptorch.registerPostCompileHook(lambda: calls.append("after")),
    ]
    executor = poptorch.inferenceModel(Greeter(), quiet())
    executor(torch.ones(1, 2))
    executor(torch.ones(1, 2))
    assert calls == ["before", "then", "after"]
    for handle in handles:
        handle.remove()
    executor.destroy()
    executor(torch.ones(1, 2))
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match="Pre-compile hook must be callable"):
        poptorch.registerPreCompileHook(None)


def test_set_optimizer_is_for_training():
    executor = poptorch.inferenceModel(Greeter(), quiet())
    with pytest.raises(poptorch.Error, match="trainingModel"):
        executor.setOptimizer(torch.optim.SGD(executor.parameters(), lr=1.0))


def test_inference_of_a_training_executor_shares_its_model():
    model = Trainer()
    training = poptorch.trainingModel(model, quiet())
    training(torch.ones(1, 2))
    inference = poptorch.inferenceModel(training, quiet())
    assert inference.model.layer is model.layer
    inference.model.eval()
    assert model.training
    assert torch.allclose(inference(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_unknown_names_are_no_attributes():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = poptorch.nonsense


def test_destroy_frees_the_memory_of_the_program_at_once():
    executor = poptorch.trainingModel(model := Trainer(), quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    executor(torch.ones(1, 2))
    graph = weakref.ref(executor._compiled.program.micro.module)
    gc.disable()  # Python looks for cycles when it likes; the next program may come before that
    try:
        executor.destroy()
        assert graph() is None
    finally:
        gc.enable()
