"""Strategies: where each block goes, what is refused, and what the planner is told."""

import logging

import pytest
import torch
from torch import nn

import poptorch
from openipu.graph import Recompute, Strategy, TensorLocation, TensorRole, note_of
from poptorch.options import build_run_options


class Blocks(nn.Module):
    """One op in each block; the blocks are (name, ipu)."""

    def __init__(self, *blocks):
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        for name, ipu in self.blocks[:-1]:
            with poptorch.Block(name, ipu_id=ipu):
                x = x * self.weight
        name, ipu = self.blocks[-1]
        with poptorch.Block(name, ipu_id=ipu):
            return poptorch.identity_loss(x * self.weight, "mean") if self.training else x * self.weight


def compile_blocks(strategy, *blocks, iterations=8, accumulation=1, training=False, options=None):
    options = options or poptorch.Options()
    options.showCompilationProgressBar(False).setExecutionStrategy(strategy)
    options.deviceIterations(iterations)
    model = Blocks(*blocks).train(training)
    if training:
        options.Training.gradientAccumulation(accumulation)
        executor = poptorch.trainingModel(model, options)
    else:
        executor = poptorch.inferenceModel(model, options)
    executor.compile(torch.ones(iterations * accumulation, 2))
    nodes = executor._compiled.program.micro.module.graph.nodes
    notes = [note_of(node) for node in nodes if node.op == "call_function" and note_of(node).phase == "forward"]
    return [(note.block, note.ipu, note.stage) for note in notes][: len(blocks)]


def test_by_default_the_stage_is_the_ipu():
    places = compile_blocks(poptorch.PipelinedExecution(), ("a", 0), ("b", 1), ("c", 1), ("d", 3))
    assert places == [("a", 0, 0), ("b", 1, 1), ("c", 1, 1), ("d", 3, 3)]


def test_stages_can_count_up_from_one_while_ops_before_the_first_block_are_stage_0():
    strategy = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    assert compile_blocks(strategy, ("a", 0), ("b", 1), ("a", 0)) == [("a", 0, 1), ("b", 1, 2), ("a", 0, 1)]

    model = nn.Sequential(nn.ReLU(), poptorch.BeginBlock(nn.Sigmoid(), ipu_id=1))
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(2)
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    executor = poptorch.inferenceModel(model, options)
    executor.compile(torch.ones(2, 2))
    nodes = [node for node in executor._compiled.program.micro.module.graph.nodes if node.op == "call_function"]
    assert [(note_of(node).ipu, note_of(node).stage) for node in nodes] == [(0, 0), (1, 1)]


def test_stages_can_be_listed_and_have_the_last_word_on_the_ipu():
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a", "b").ipu(3), ["c"], "d")
    places = compile_blocks(strategy, ("a", 0), ("b", 1), ("c", None), ("d", 0))
    assert places == [("a", 3, 0), ("b", 3, 0), ("c", 1, 1), ("d", 0, 2)]


def test_what_a_strategy_cannot_place_is_refused():
    with pytest.raises(AssertionError, match=r"SameAsIpu was selected but no IPU was specified for block a"):
        compile_blocks(poptorch.PipelinedExecution(), ("a", None))
    with pytest.raises(AssertionError, match=r"Unknown Block 'b' list of expected Blocks: \['a'\]"):
        compile_blocks(poptorch.PipelinedExecution("a"), ("b", 0))
    with pytest.raises(poptorch.Error, match="phase 0, which has no IPU"):
        compile_blocks(poptorch.SerialPhasedExecution("a"), ("a", None))
    with pytest.raises(poptorch.Error, match="even phases must run on even IPUs and odd phases on odd IPUs"):
        compile_blocks(poptorch.ParallelPhasedExecution("a", "b"), ("a", 0), ("b", 2))
    with pytest.raises(AssertionError, match="Block IDs are supposed to be strings"):
        poptorch.Stage(1)
    with pytest.raises(AssertionError, match="Phase contains 1 stages but you provided 2 ipus"):
        poptorch.Phase("a").ipus(0, 1)


def test_a_pipeline_needs_a_micro_batch_for_every_stage():
    four = [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    with pytest.raises(poptorch.Error, match=r"deviceIterations must be greater than .* pipeline stages \(4\)"):
        compile_blocks(poptorch.PipelinedExecution(), *four, iterations=2)
    compile_blocks(poptorch.ShardedExecution(), *four, iterations=2)
    with pytest.raises(poptorch.Error, match=r"gradientAccumulation .* \(7\) .* 4 pipeline stages .* additional 3"):
        compile_blocks(poptorch.PipelinedExecution(), *four, iterations=1, accumulation=6, training=True)
    compile_blocks(poptorch.PipelinedExecution(), *four, iterations=1, accumulation=7, training=True)


def test_ipus_are_counted_as_hardware_would(monkeypatch):
    three = [("a", 0), ("b", 1), ("c", 2)]
    compile_blocks(poptorch.PipelinedExecution(), *three)
    monkeypatch.setenv("OPENIPU_REPORT_HARDWARE", "1")
    with pytest.raises(poptorch.Error, match="use of 3 IPUs, however PopTorch must reserve a minimum of 4"):
        compile_blocks(poptorch.PipelinedExecution(), *three)
    compile_blocks(poptorch.PipelinedExecution(), *three, options=poptorch.Options().autoRoundNumIPUs(True))
    compile_blocks(poptorch.PipelinedExecution(), *three, options=poptorch.Options().useOfflineIpuTarget())


def test_phases_take_the_place_of_stages_and_live_off_chip():
    strategy = poptorch.ParallelPhasedExecution([poptorch.Stage("a"), poptorch.Stage("b")], ["c"])
    strategy.phase(0).ipus(0, 2)
    strategy.stage("c").ipu(1)
    options = poptorch.Options()
    options.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().minElementsForOffChip(64))
    assert compile_blocks(strategy, ("a", None), ("b", None), ("c", None), options=options) == [
        ("a", 0, 0),
        ("b", 2, 0),
        ("c", 1, 1),
    ]
    chosen = build_run_options(options, training=True)
    assert chosen.strategy is Strategy.PARALLEL_PHASES
    assert not chosen.location_of(TensorRole.ACTIVATION).on_chip
    assert chosen.location_of(TensorRole.WEIGHT) == TensorLocation(minimum_off_chip_elements=64)


@pytest.mark.parametrize(
    ("liveness", "phases"),
    [("AlwaysLive", 3), ("OffChipAfterFwd", 2 + 1 + 3), ("OffChipAfterFwdNoOverlap", 4 + 1 + 3)],
)
def test_the_log_lists_every_op_with_its_phase(liveness, phases, caplog, monkeypatch):
    monkeypatch.setattr(poptorch.logger, "propagate", True)
    strategy = poptorch.SerialPhasedExecution("a", "b", "c")
    strategy.setTensorsLiveness(poptorch.Liveness[liveness])
    with caplog.at_level(logging.DEBUG, logger="poptorch::python"):
        compile_blocks(strategy, ("a", 0), ("b", 0), ("c", 0))
    assert f"executionPhaseSettings.phases set to value {phases}" in caplog.text
    last = 4 if liveness.endswith("NoOverlap") else 2
    assert f"Mul:0/2 [float32(1, 2), mode(Phased), ipu(0), phase({last})]" in caplog.text
    assert "location_weight set to value useOnChipStorage(False)" in caplog.text


def test_what_saves_memory_reaches_the_planner():
    options = poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.1, "IPU3": 0.9})
    options.setExecutionStrategy(poptorch.ShardedExecution())
    options.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding(True)
    )
    chosen = build_run_options(options, training=True)
    assert chosen.strategy is Strategy.SHARDED
    assert chosen.memory_proportions == ((0, 0.1), (3, 0.9))
    assert chosen.recompute is None
    assert chosen.locations == ((TensorRole.OPTIMIZER, TensorLocation(on_chip=False, replicated_sharding=True)),)
    for given, expected in ((3, Recompute.PIPELINE), ("RecomputationType::Standard", Recompute.STANDARD)):
        options._Popart.set("autoRecomputation", given)
        assert build_run_options(options, training=True).recompute is expected
    options._Popart.set("autoRecomputation", 9)
    with pytest.raises(poptorch.Error, match="Unknown value 9 of the PopART option autoRecomputation"):
        build_run_options(options, training=True)
