"""Tensors inside a program, times, cycles, random state, synthetic data, exceptions of arithmetic."""

import json

import pytest
import torch

import popart
import poptorch
from openipu.ops.cost import StepKind


class Trainer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        out = self.layer(x)
        return out, poptorch.identity_loss(out**2, "mean")


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def train(options, batch):
    torch.manual_seed(0)
    model = Trainer()
    before = model.layer.weight.detach().clone()
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.5))
    executor(batch)
    return executor, model, before


def test_gradients_new_weights_inputs_and_losses_are_read_back():
    options = quiet()
    names = ("layer.weight", "Gradient___layer.weight", "UpdatedVar___layer.weight", "input", "loss", "layer/addmm:0")
    for number, name in enumerate(names):
        options.anchorTensor(f"t{number}", name)
    batch = torch.randn(4, 3)
    executor, model, before = train(options, batch)
    weight, gradient, updated, given, loss, product = (executor.getAnchoredTensor(f"t{n}") for n in range(6))
    assert torch.equal(weight, before)
    assert torch.allclose(updated, before - 0.5 * gradient)
    assert torch.equal(updated, model.layer.weight)
    assert torch.equal(given, batch)
    assert torch.allclose(loss, (product**2).mean())
    assert set(names) <= set(executor.getTensorNames())


def test_each_anchor_has_an_output_mode_of_its_own():
    options = quiet().deviceIterations(4)
    modes = {
        "all": (poptorch.OutputMode.All, 1),
        "every": (poptorch.OutputMode.EveryN, 2),
        "sum": (poptorch.OutputMode.Sum, 1),
        "final": (None, 1),
        "never": (poptorch.OutputMode.EveryN, 8),
    }
    for name, (mode, period) in modes.items():
        options.anchorTensor(name, "loss", mode, period)
    executor, _, _ = train(options, torch.randn(4, 3))
    values = {name: executor.getAnchoredTensor(name) for name in modes}
    assert values["all"].shape == (4,)
    assert torch.equal(values["every"], values["all"][1::2])
    assert torch.allclose(values["sum"], values["all"].sum())
    assert torch.equal(values["final"], values["all"][-1])
    assert values["never"].numel() == 0


def test_unknown_anchors_are_refused():
    options = quiet()
    options.anchorTensor("x", "nonsense")
    executor = poptorch.trainingModel(Trainer(), options)
    with pytest.raises(AssertionError, match="No tensor with name y found"):
        executor.getAnchoredTensor("y")
    with pytest.raises(AssertionError, match="Model must be compiled before"):
        executor.getTensorNames()
    with pytest.raises(poptorch.Error, match="There is no tensor 'nonsense'"):
        executor(torch.randn(4, 3))


def test_times_are_measured_for_each_micro_batch():
    options = quiet().deviceIterations(3).outputMode(poptorch.OutputMode.Final)
    executor = poptorch.inferenceModel(torch.nn.Linear(3, 2), options)
    assert executor.getPerfCounters()["input"] == [[]]
    executor(torch.randn(3, 3))
    counters = executor.getPerfCounters()
    assert [len(counters[name][0]) for name in ("input", "input_complete", "output", "output_complete")] == [3, 3, 1, 1]
    lowest, highest, average = executor.getLatency()
    assert 0 < lowest <= average <= highest
    parts = executor.getHostIpuLatency()[2] + executor.getComputeLatency()[2] + executor.getIpuHostLatency()[2]
    assert parts == pytest.approx(average)


def test_cycles_are_those_of_the_plan(caplog):
    executor = poptorch.inferenceModel(torch.nn.Linear(3, 2), quiet().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="Please run the model at least once"):
        executor.cycleCount()
    with caplog.at_level("DEBUG", logger="poptorch::python"):
        executor(torch.randn(1, 3))
    assert f"Total number of IPU cycles: {executor.cycleCount()}" in caplog.text


def test_the_random_state_can_be_read_and_written():
    class Noise(torch.nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    executor = poptorch.inferenceModel(Noise(), quiet().randomSeed(7))
    with pytest.raises(poptorch.Error, match="Model has not been compiled"):
        _ = executor.rng_state
    executor(torch.zeros(2))
    state = executor.rng_state
    assert state[0] == 7
    second = executor(torch.zeros(2))
    executor.rng_state = state
    assert torch.equal(executor(torch.zeros(2)), second)
    with pytest.raises(poptorch.Error, match="A random state holds"):
        executor.rng_state = [1, 2, 3]


def test_synthetic_data_has_the_shapes_of_the_real_ones():
    class Same(torch.nn.Module):
        def forward(self, x):
            return x * 1

    executor = poptorch.inferenceModel(Same(), quiet().enableSyntheticData(True))
    out = executor(torch.full((2, 3), 1e6))
    assert out.shape == (2, 3)
    assert out.abs().max() < 100
    assert executor.getLatency() == (0.0, 0.0, 0.0)
    assert executor.getPerfCounters()["input"] == [[]]


@pytest.mark.parametrize("training", [False, True])
def test_synthetic_data_takes_the_host_out_of_the_plan(training):
    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1024, 8)

        def forward(self, x):
            out = self.layer(x)
            return (out, poptorch.identity_loss(out, "mean")) if training else out

    def plan(synthetic):
        options = quiet().logCycleCount(True).enableSyntheticData(synthetic)
        executor = (poptorch.trainingModel if training else poptorch.inferenceModel)(Wide(), options)
        executor(torch.ones(256, 1024))
        return executor.cycleCount(), executor._compiled.plan

    real_cycles, real = plan(False)
    synthetic_cycles, synthetic = plan(True)
    assert [step for step in real.steps if step.kind is StepKind.HOST]
    assert not [step for step in synthetic.steps if step.kind is StepKind.HOST]
    assert synthetic.timing.host_cycles == 0
    assert synthetic_cycles < real_cycles
    assert real_cycles - synthetic_cycles >= real.timing.host_cycles > 0
    kept = [variable.name for variable in synthetic.variables]
    assert kept == [variable.name for variable in real.variables]  # inputs lie on the tiles all the same


@pytest.mark.parametrize(("mode", "low", "high"), [(1, 0.0, 0.0), (2, -10.0, 10.0), (3, 0.0, 1.0)])
def test_the_mode_of_synthetic_data_says_what_inputs_hold(mode, low, high):
    options = quiet()
    options._Popart.set("syntheticDataMode", popart.SyntheticDataMode(mode))
    out = poptorch.inferenceModel(torch.nn.Identity(), options)(torch.full((100,), 1e6))
    assert low <= out.min() <= out.max() <= high
    assert (out.std() > 0) == (mode > 1)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (torch.exp, [1000.0]),
        (torch.sqrt, [-1.0]),
        (lambda x: 1 / x, [0.0]),
        (lambda x: x > 0, [float("nan")]),
        (lambda x: x * 0, [float("inf")]),
    ],
)
def test_floating_point_exceptions_stop_at_the_op(function, inputs):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    options = quiet()
    options.Precision.enableFloatingPointExceptions(True)
    with pytest.raises(poptorch.Error, match="Floating-point exception"):
        poptorch.inferenceModel(Model(), options)(torch.tensor(inputs))


def test_infinite_masks_are_no_exception():
    class Masked(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x.masked_fill(x < 0, float("-inf")), dim=-1)

    options = quiet()
    options.Precision.enableFloatingPointExceptions(True)
    out = poptorch.inferenceModel(Masked(), options)(torch.tensor([[1.0, -1.0, 2.0]]))
    assert torch.allclose(out.sum(), torch.tensor(1.0))


def test_the_graph_is_shown_as_json():
    executor, _, _ = train(quiet(), torch.randn(4, 3))
    names = [op["name"] for op in json.loads(executor._debugGetPopartIR())["maingraph"]]
    assert "layer/Gemm" in names


@pytest.mark.parametrize("marked", [False, True])
def test_the_graph_names_what_a_pipeline_keeps(marked):
    class Staged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
            self.head = torch.nn.Linear(8, 2)
            poptorch.BeginBlock(self.layers[0], "layers", ipu_id=0)
            poptorch.BeginBlock(self.head, "head", ipu_id=1)

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(torch.tanh(layer(x)))
                x = poptorch.recomputationCheckpoint(x) if marked else x
            return poptorch.identity_loss(self.head(x).pow(2), "mean")

    options = quiet()
    options.Training.gradientAccumulation(4)
    executor = poptorch.trainingModel(Staged(), options)
    executor.compile(torch.randn(8, 8))
    ops = json.loads(executor._debugGetPopartIR())["maingraph"]
    checkpoints = [op for op in ops if "Checkpoint" in op["name"]]
    stashes = [op for op in ops if op["type"] == "Stash"]
    assert len(checkpoints) == 3 * marked
    assert {op["type"] for op in checkpoints} <= {"Identity"}
    stashed = {op["inputs"][0]["name"] for op in stashes}
    assert {op["inputs"][0]["name"] for op in checkpoints} <= stashed
    assert len(stashed) >= 3 * marked
    assert all(op["attributes"]["stashSize"] == 2 for op in stashes)  # two stages: one micro-batch on its way and back


def test_the_graph_is_written_where_the_environment_says(tmp_path, monkeypatch):
    file = tmp_path / "new" / "graph"
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(file))
    poptorch.inferenceModel(torch.nn.Linear(3, 2), quiet()).compile(torch.ones(1, 3))
    assert json.loads(file.read_text())["maingraph"]
