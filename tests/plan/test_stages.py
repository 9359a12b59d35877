"""Programs over several IPUs: each mechanism changes memory and cycles as its arithmetic says."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
import torch
from torch import nn

from openipu.capture import mark_tensor, set_block
from openipu.graph import Phase, Recompute, RunOptions, Strategy, TensorLocation, TensorRole
from openipu.ops import LOAD
from openipu.ops.cost import StepKind
from openipu.plan import VariableKind
from openipu.plan.collectives import count_share_cycles
from openipu.plan.pipeline import make_pipeline, measure_micro_batch
from openipu.plan.types import PipelineStage, PlannedStep

WIDTH = 256
LAYERS = 4


class Chain(nn.Module):
    """Equal layers, one a stage, stage i on IPU i."""

    def __init__(self, stages: int = LAYERS, checkpoint: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
        self.stages, self.checkpoint = stages, checkpoint

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            stage = index * self.stages // LAYERS
            set_block(f"stage{stage}", stage, stage)
            x = layer(x)
            if self.checkpoint:
                mark_tensor(x, {"checkpoint": True})
            x = torch.tanh(x)
        return nn.functional.mse_loss(x, torch.zeros_like(x))


@pytest.fixture
def plan_chain(make_plan):
    def build(stages=LAYERS, micro_batches=8, checkpoint=False, momentum=0.9, **options):
        model = Chain(stages, checkpoint)
        options = {"gradient_accumulation": micro_batches, "system": "bow-pod16", **options}
        count = options["gradient_accumulation"] * options.get("replicas", 1) * options.get("device_iterations", 1)
        inputs = (torch.randn(16 * count, WIDTH),)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        return make_plan(model, inputs, optimizer=optimizer, **options)

    return build


def sum_bytes(plan, kind, ipu=None):
    return sum(v.bytes for v in plan.variables if v.kind is kind and ipu in (None, v.ipu))


def time_stages(plan):
    cycles = defaultdict(float)
    for step in plan.steps:
        if step.phase is not Phase.UPDATE and not step.per_call:
            cycles[step.stage, step.phase] += step.cycles
    return cycles


def test_each_stage_keeps_its_weights_and_state_on_its_own_ipu(plan_chain):
    plan = plan_chain()
    assert plan.ipus == 4
    for ipu in range(4):
        assert sum_bytes(plan, VariableKind.PARAMETER, ipu) == WIDTH * WIDTH * 4
        assert sum_bytes(plan, VariableKind.STATE, ipu) == WIDTH * WIDTH * 4
        assert sum_bytes(plan, VariableKind.ACCUMULATOR, ipu) == WIDTH * WIDTH * 4


def test_activations_and_their_gradients_cross_the_links_once_each(plan_chain):
    plan = plan_chain(recompute=Recompute.NONE)
    links = [step for step in plan.steps if step.kind is StepKind.LINK]
    tensor_bytes = 16 * WIDTH * 4
    assert [step.moved_bytes for step in links] == [tensor_bytes] * 6, "3 activations forth, 3 gradients back"
    assert links[0].cycles == pytest.approx(tensor_bytes / plan.system.ipu_link_bytes_per_second * 1.85e9)


def test_a_pipeline_fills_runs_and_drains(plan_chain):
    plan = plan_chain(micro_batches=16)
    pipeline = plan.pipeline
    # 4 forward stages make 7 in training; 16 micro-batches take 16 + 7 - 1 ticks
    assert len(pipeline.stages) == 7
    assert [stage.ipu for stage in pipeline.stages] == [0, 1, 2, 3, 2, 1, 0]
    assert len(pipeline.fill_cycles) + pipeline.steady_ticks + len(pipeline.drain_cycles) == 16 + 7 - 1
    assert len(pipeline.fill_cycles) == len(pipeline.drain_cycles) == 6
    by_ipu = defaultdict(float)
    for stage in pipeline.stages:
        by_ipu[stage.ipu] += stage.cycles
    assert pipeline.steady_cycles == pytest.approx(max(by_ipu.values()))
    assert plan.timing.call_cycles == pytest.approx(pipeline.total_cycles + plan.timing.update_cycles)


def test_a_copy_between_ipus_keeps_both_of_them_busy(plan_chain):
    plan = plan_chain(recompute=Recompute.NONE)
    cycles = time_stages(plan)
    copy_cycles = 16 * WIDTH * 4 / plan.system.ipu_link_bytes_per_second * 1.85e9
    forward = [cycles[stage, Phase.FORWARD] for stage in range(3)]
    backward = [cycles[stage, Phase.BACKWARD] for stage in range(4)]
    # each sends one tensor on, but for the last of all, which has nobody to send to
    sent = [stage.cycles - own for stage, own in zip(plan.pipeline.stages, forward, strict=False)]
    assert sent == pytest.approx([copy_cycles] * 3)
    last = plan.pipeline.stages[3].cycles - cycles[3, Phase.FORWARD] - backward[3]
    assert last == pytest.approx(copy_cycles)
    back = [stage.cycles - own for stage, own in zip(plan.pipeline.stages[4:], backward[2::-1], strict=True)]
    assert back == pytest.approx([copy_cycles, copy_cycles, 0.0])


def test_exchanges_between_replicas_take_turns_where_ipus_work_side_by_side(plan_chain):
    shares = ((TensorRole.OPTIMIZER, TensorLocation(replicated_sharding=True, minimum_sharded_elements=1)),)
    plan = plan_chain(replicas=4, locations=shares)
    steps = [step for step in plan.steps if step.phase is Phase.UPDATE and not step.per_call]
    own = defaultdict(float)
    for step in steps:
        own[step.ipu] += 0.0 if step.kind is StepKind.LINK else step.cycles
    # gradients of WIDTH x WIDTH float32 to shares, and the new weights back: one IPU after the other
    one = count_share_cycles(WIDTH * WIDTH * 4, 4, 4, plan.system)
    assert sum(step.cycles for step in steps if step.kind is StepKind.LINK) == pytest.approx(4 * 2 * one)
    assert plan.timing.update_cycles == pytest.approx(max(own.values()) + 4 * 2 * one)


def test_a_stage_runs_where_most_of_it_does():
    steps = [
        make_step(0, Phase.FORWARD, ipu=0, cycles=10.0),
        make_step(1, Phase.FORWARD, ipu=1, cycles=20.0),
        make_step(1, Phase.BACKWARD, ipu=1, cycles=30.0),
        make_step(1, Phase.BACKWARD, ipu=0, cycles=1.0),  # the gradient of a weight that lies elsewhere
        make_step(0, Phase.BACKWARD, ipu=0, cycles=15.0),
    ]
    pipeline = measure_micro_batch(steps, RunOptions(training=True, gradient_accumulation=4), 1).pipeline
    assert [(stage.ipu, stage.cycles) for stage in pipeline.stages] == [(0, 10.0), (1, 51.0), (0, 15.0)]


def make_step(stage, phase, ipu, cycles):
    return PlannedStep(0, StepKind.COMPUTE, "work", cycles, 1, 0, 0, None, phase, ipu=ipu, stage=stage)


def test_ticks_of_a_hand_made_pipeline():
    places = [(0, 3.0), (1, 10.0), (0, 5.0)]
    stages = tuple(PipelineStage(i, ipu, i <= 1, i >= 1, cycles) for i, (ipu, cycles) in enumerate(places))
    pipeline = make_pipeline(stages, micro_batches=4)
    # ticks: stage 0 | 0, 1 | 0, 1, 2 | 0, 1, 2 | 1, 2 | 2, where IPU 0 does stages 0 and 2 in 8
    assert pipeline.fill_cycles == (3.0, 10.0)
    assert (pipeline.steady_cycles, pipeline.steady_ticks) == (10.0, 2)
    assert pipeline.drain_cycles == (10.0, 5.0)
    assert pipeline.total_cycles == 3 + 10 + 2 * 10 + 10 + 5


def test_sharded_stages_run_one_after_the_other(plan_chain):
    sharded = plan_chain(strategy=Strategy.SHARDED, recompute=Recompute.NONE)
    pipelined = plan_chain(recompute=Recompute.NONE)
    cycles = time_stages(sharded)
    assert sharded.pipeline is None
    assert sharded.timing.micro_cycles == pytest.approx(sum(cycles.values()))
    assert pipelined.timing.micro_cycles < 0.5 * sharded.timing.micro_cycles


def test_stages_further_from_the_end_stash_more_micro_batches(plan_chain):
    plan = plan_chain(recompute=Recompute.NONE)
    # stage s keeps what backward reads for 2 (3 - s) more micro-batches: its input and the result of tanh
    stage_bytes = 2 * 16 * WIDTH * 4
    assert sum_bytes(plan, VariableKind.STASH, 3) == 0
    assert sum_bytes(plan, VariableKind.STASH, 2) == 2 * stage_bytes
    assert sum_bytes(plan, VariableKind.STASH, 1) == 4 * stage_bytes


def test_without_stages_nothing_is_stashed(make_plan, perceptron, batch):
    data = tuple(torch.cat([part] * 4) for part in batch)
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    plan = make_plan(perceptron, data, optimizer=optimizer, gradient_accumulation=4)
    assert sum_bytes(plan, VariableKind.STASH) == 0
    assert plan.pipeline is None


def test_recomputing_a_pipeline_stashes_only_stage_inputs_and_pays_the_forward_again(plan_chain):
    kept, again = plan_chain(recompute=Recompute.NONE), plan_chain()
    tensor_bytes = 16 * WIDTH * 4
    # stage 1: 2 (3 - 1) copies of its input alone, where both input and result of tanh were stashed
    assert sum_bytes(again, VariableKind.STASH, 1) == 4 * tensor_bytes
    assert sum_bytes(kept, VariableKind.STASH, 1) == 4 * 2 * tensor_bytes
    forward, backward = (1, Phase.FORWARD), (1, Phase.BACKWARD)
    paid = time_stages(again)[backward] - time_stages(kept)[backward]
    copies = sum(s.cycles for s in again.steps if s.kind is StepKind.LINK and (s.stage, s.phase) == forward)
    assert paid == pytest.approx(time_stages(kept)[forward] - copies, rel=0.1)
    assert time_stages(again)[3, Phase.BACKWARD] == time_stages(kept)[3, Phase.BACKWARD], "the last stage keeps all"


def test_a_checkpoint_is_kept_and_saves_making_it_again(plan_chain):
    plain, marked = plan_chain(), plan_chain(checkpoint=True)
    assert time_stages(marked)[1, Phase.BACKWARD] < time_stages(plain)[1, Phase.BACKWARD]
    assert sum_bytes(marked, VariableKind.STASH, 1) > sum_bytes(plain, VariableKind.STASH, 1)


def test_optimizer_state_off_chip_saves_its_bytes_and_costs_a_load_and_a_store(plan_chain):
    off_chip = ((TensorRole.OPTIMIZER, TensorLocation(on_chip=False)),)
    near, far = plan_chain(stages=1), plan_chain(stages=1, locations=off_chip)
    state_bytes = LAYERS * WIDTH * WIDTH * 4
    assert sum_bytes(near, VariableKind.STATE) == state_bytes
    assert sum_bytes(far, VariableKind.STATE) == 0
    moved = [step for step in far.steps if step.kind is StepKind.HOST and step.phase is Phase.UPDATE]
    assert sum(step.moved_bytes for step in moved) == 2 * state_bytes
    seconds = 2 * state_bytes / far.system.streaming_bytes_per_second
    assert far.timing.update_cycles - near.timing.update_cycles == pytest.approx(seconds * 1.85e9, rel=0.05)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_state_goes_back_off_chip_before_that_of_the_next_weight_comes(plan_chain, accumulation):
    off_chip = ((TensorRole.OPTIMIZER, TensorLocation(on_chip=False)),)
    plan = plan_chain(stages=1, locations=off_chip, gradient_accumulation=accumulation)
    loaded = [plan.variables[op.writes[0]] for op in plan.ops if op.op == LOAD]
    assert len(loaded) == LAYERS
    loaded.sort(key=lambda variable: variable.first_step)
    for before, after in pairwise(loaded):
        assert before.last_step < after.first_step, f"{before.name} waits for {after.name}"


def test_weights_off_chip_are_loaded_in_every_phase_and_stored_after_the_update(plan_chain):
    far = plan_chain(stages=1, momentum=0.0, locations=((TensorRole.WEIGHT, TensorLocation(on_chip=False)),))
    weight_bytes = LAYERS * WIDTH * WIDTH * 4
    assert sum_bytes(far, VariableKind.PARAMETER) == 0
    moved = defaultdict(int)
    for step in far.steps:
        if step.kind is StepKind.HOST and step.op is not None:
            moved[step.phase] += step.moved_bytes
    assert moved[Phase.FORWARD] == weight_bytes
    assert moved[Phase.BACKWARD] == weight_bytes - WIDTH * WIDTH * 4, "the first layer needs no input gradient"
    assert moved[Phase.UPDATE] == 2 * weight_bytes


def test_activations_off_chip_leave_room_between_forward_and_backward(plan_chain):
    near = plan_chain(stages=1)
    far = plan_chain(stages=1, locations=((TensorRole.ACTIVATION, TensorLocation(on_chip=False)),))
    waiting = []
    for plan in (near, far):
        turn = min(step.index for step in plan.steps if step.phase is Phase.BACKWARD)
        waiting.append(plan.memory[0].live_by_step[turn - 1])
    tensor_bytes = 16 * WIDTH * 4
    assert waiting[0] - waiting[1] >= 3 * tensor_bytes, (
        "the last layer's result is still in use, three others wait off chip"
    )
    assert far.timing.micro_cycles > near.timing.micro_cycles


def test_replicated_sharding_keeps_one_share_of_the_state_and_updates_it_alone(plan_chain):
    shares = ((TensorRole.OPTIMIZER, TensorLocation(replicated_sharding=True)),)
    whole = plan_chain(stages=1, replicas=4)
    shared = plan_chain(stages=1, replicas=4, locations=shares)
    assert sum_bytes(shared, VariableKind.STATE) == LAYERS * WIDTH * WIDTH * 4 // 4
    assert sum_bytes(whole, VariableKind.STATE) == LAYERS * WIDTH * WIDTH * 4
    gathers = [step for step in shared.steps if step.name == "gather shares"]
    assert sum(step.moved_bytes for step in gathers) == LAYERS * WIDTH * WIDTH * 4 * 3 // 4

    def count_update_compute(plan):
        return sum(s.cycles for s in plan.steps if s.phase is Phase.UPDATE and s.kind is StepKind.COMPUTE)

    assert count_update_compute(shared) < count_update_compute(whole)


def test_overlapped_io_hides_streams_behind_the_computation(plan_chain):
    plain = plan_chain(stages=1, io_tiles=32)
    hidden = plan_chain(stages=1, io_tiles=32, overlapped_io=True)
    streams = sum(s.cycles for s in plain.steps if s.kind is StepKind.HOST and not s.per_call)
    moved = sum(s.moved_bytes for s in plain.steps if s.kind is StepKind.HOST and not s.per_call)
    crossing = moved / (32 * 4)  # 32 I/O tiles send 4 bytes a cycle each
    assert streams > crossing > 0
    assert plain.timing.micro_cycles - hidden.timing.micro_cycles == pytest.approx(streams - crossing)


def test_io_tiles_are_taken_from_computation(plan_chain):
    plan = plan_chain(stages=1, io_tiles=192)
    assert max(step.tiles for step in plan.steps if step.kind is StepKind.COMPUTE) <= 1472 - 192


def test_a_lower_memory_proportion_on_one_ipu_shrinks_scratch_there_alone(plan_chain):
    usual = plan_chain(stages=2)
    tight = plan_chain(stages=2, memory_proportions=((1, 0.001),))

    def find_scratch(plan, ipu):
        return max(v.mapping.peak_tile_bytes for v in plan.variables if v.kind is VariableKind.SCRATCH and v.ipu == ipu)

    assert find_scratch(tight, 0) == find_scratch(usual, 0)
    assert find_scratch(tight, 1) <= find_scratch(usual, 1)


def test_parallel_phases_load_the_next_phase_behind_the_computation(plan_chain):
    weights = ((TensorRole.WEIGHT, TensorLocation(on_chip=False)),)
    serial = plan_chain(strategy=Strategy.SERIAL_PHASES, locations=weights)
    parallel = plan_chain(strategy=Strategy.PARALLEL_PHASES, locations=weights)
    transfers = [step for step in serial.steps if step.kind is StepKind.HOST and step.op is not None]
    loads = sum(step.cycles for step in transfers if step.phase is not Phase.UPDATE)
    saved = serial.timing.micro_cycles - parallel.timing.micro_cycles
    assert 0 < saved <= loads


def test_more_ipus_than_the_system_has_is_said(plan_chain):
    plan = plan_chain(system="bow-2000", replicas=2)
    assert "2 replicas of 4 IPUs each need 8 IPUs, but bow-2000 has 4" in plan.warnings[0]


def test_a_continuous_pipeline_fills_once_a_call_and_updates_after_each_micro_batch(plan_chain):
    plan = plan_chain(micro_batches=1)
    inputs = 12
    continuous = plan_chain(micro_batches=1, continuous=True, device_iterations=inputs)
    assert continuous.pipeline.micro_batches == inputs
    expected = continuous.pipeline.total_cycles + inputs * continuous.timing.update_cycles
    once = sum(step.cycles for step in continuous.steps if step.per_call)
    assert continuous.timing.call_cycles == pytest.approx(expected + once)
    assert continuous.timing.call_cycles < inputs * plan.timing.call_cycles
