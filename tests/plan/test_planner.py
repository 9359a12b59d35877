"""What the plan says of small programs, with the arithmetic beside it."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from openipu.graph import OutputChoice, OutputMode, Phase
from openipu.machine import estimate_fit_probability, resolve_system
from openipu.ops.cost import StepKind
from openipu.plan import VariableKind

PERCEPTRON_PARAMETERS = 64 * 256 + 256 + 256 * 10 + 10


def sum_bytes(plan, kind):
    return sum(variable.bytes for variable in plan.variables if variable.kind is kind)


def test_every_exchange_is_preceded_by_one_sync_of_the_targets_launch_cost(make_plan, perceptron, batch):
    plan = make_plan(perceptron, batch[:1])
    launch = plan.system.target.phase_launch_cycles
    for before, step in zip(plan.steps, plan.steps[1:], strict=False):
        if step.kind is StepKind.EXCHANGE:
            merged = before.kind is StepKind.EXCHANGE and before.op == step.op
            assert merged or (before.kind is StepKind.SYNC and before.cycles == launch * step.repeats)
    assert any(step.kind is StepKind.EXCHANGE for step in plan.steps)


def test_parameters_are_always_live_and_lie_on_the_tiles_in_full(make_plan, perceptron, batch):
    plan = make_plan(perceptron, batch[:1])
    assert sum_bytes(plan, VariableKind.PARAMETER) == 4 * PERCEPTRON_PARAMETERS
    assert sum_bytes(plan, VariableKind.STREAM) == 16 * 64 * 4
    always = [variable for variable in plan.variables if variable.always_live]
    expected = sum(variable.mapping.bytes_by_tile(1472) for variable in always)
    assert np.array_equal(plan.memory[0].always_live, expected)


def test_small_tensors_do_not_pile_up_on_the_first_tile(make_plan):
    model = nn.Sequential(*[nn.BatchNorm1d(8) for _ in range(64)])
    plan = make_plan(model.eval(), (torch.randn(4, 8),))
    held = plan.memory[0].always_live
    assert held.max() <= 2 * 128


def test_activations_that_backward_needs_live_until_it_has_read_them(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    plan = make_plan(perceptron, batch, optimizer=optimizer)
    hidden = [
        variable
        for variable in plan.variables
        if variable.shape == (16, 256) and variable.kind is VariableKind.ACTIVATION and variable.op is not None
    ]
    first_backward = min(step.index for step in plan.steps if step.phase is Phase.BACKWARD)
    kept = [
        variable
        for variable in hidden
        if plan.ops[variable.op].phase is Phase.FORWARD and variable.last_step >= first_backward
    ]
    assert len(kept) == 1, "relu overwrites its input and only its result is kept"


def test_optimizer_state_lies_as_its_parameter_does(make_plan, perceptron, batch):
    optimizer = torch.optim.Adam(perceptron.parameters())
    plan = make_plan(perceptron, batch, optimizer=optimizer)
    moments = 2 * 4 * PERCEPTRON_PARAMETERS
    counters = sum_bytes(plan, VariableKind.STATE) - moments
    assert 0 <= counters <= 4 * 4, "one step counter a parameter"
    by_name = {variable.name: variable for variable in plan.variables}
    assert by_name["exp_avg:first.weight"].mapping == by_name["first.weight"].mapping


def test_gradients_die_in_the_update_that_follows_them_at_once(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    plan = make_plan(perceptron, batch, optimizer=optimizer)
    phases = [op.phase for op in plan.ops]
    first_update = phases.index(Phase.UPDATE)
    assert Phase.BACKWARD in phases[first_update:], "an update runs before backward is over"
    gradient = next(v for v in plan.variables if v.kind is VariableKind.GRADIENT and v.shape == (10, 256))
    last_backward = max(step.index for step in plan.steps if step.phase is Phase.BACKWARD)
    assert gradient.last_step < last_backward
    assert not [variable for variable in plan.variables if variable.kind is VariableKind.ACCUMULATOR]


def test_accumulation_adds_one_accumulator_a_parameter_and_repeats_only_the_micro_batch(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    data = tuple(torch.cat([part] * 12) for part in batch)
    plan = make_plan(perceptron, data, optimizer=optimizer, gradient_accumulation=4, device_iterations=3,
                     output_mode=OutputMode.FINAL)  # fmt: skip
    assert sum_bytes(plan, VariableKind.ACCUMULATOR) == 4 * PERCEPTRON_PARAMETERS
    timing = plan.timing
    once = timing.call_cycles - 3 * (4 * timing.micro_cycles + timing.update_cycles)
    outputs = [step.cycles for step in plan.steps if step.name.startswith("write output")]
    assert once == pytest.approx(sum(outputs))
    assert timing.samples_per_call == 3 * 4 * 16
    assert timing.samples_per_second == pytest.approx(192 / (timing.call_cycles / 1.85e9))


def test_each_output_is_streamed_as_often_as_its_own_mode_says(make_plan):
    class Copies(nn.Module):
        def forward(self, x):
            return x + 1, x + 2, x + 3

    choices = (OutputChoice(1, OutputMode.EVERY_N, 4), OutputChoice(2, OutputMode.SUM))
    plan = make_plan(Copies(), (torch.randn(8, 256),), device_iterations=8, output_choices=choices)
    writes = [step for step in plan.steps if step.name.startswith("write output")]
    assert [step.moved_bytes for step in writes] == [4 * 256, 4 * 256 // 4, 4 * 256]
    assert [step.per_call for step in writes] == [False, False, True]


def test_replicas_reduce_their_gradients_over_the_links_in_a_ring(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    data = tuple(torch.cat([part] * 4) for part in batch)
    plan = make_plan(perceptron, data, optimizer=optimizer, replicas=4)
    links = [step for step in plan.steps if step.kind is StepKind.LINK]
    sent_bytes = 2 * 3 / 4 * 4 * PERCEPTRON_PARAMETERS
    system = plan.system
    # A turn: the link's latency, one hop, a launch, and a sync of 4 IPUs, 2 hops to its root and back at 15 ns.
    turn_seconds = system.ipu_link_latency_seconds + system.ipu_link_hop_seconds + 626 / 1.85e9 + 2 * 2 * 15e-9
    seconds = sent_bytes / system.ipu_link_bytes_per_second + 2 * 3 * turn_seconds
    assert [step.cycles for step in links] == [pytest.approx(seconds * 1.85e9)]
    assert not plan.warnings


def test_more_replicas_than_the_system_has_is_said(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    data = tuple(torch.cat([part] * 8) for part in batch)
    plan = make_plan(perceptron, data, optimizer=optimizer, replicas=8)
    assert "8 replicas need 8 IPUs, but bow-2000 has 4" in plan.warnings[0]


def test_host_streams_cost_their_bytes_over_the_host_link(make_plan, perceptron, batch):
    plan = make_plan(perceptron, batch[:1])
    [read] = [step for step in plan.steps if step.kind is StepKind.HOST and step.name.startswith("read")]
    assert read.moved_bytes == 16 * 64 * 4
    assert read.cycles == pytest.approx(16 * 64 * 4 / plan.system.stream_bytes_per_second * 1.85e9)


def test_an_ipu_that_is_faster_than_its_host_link_waits_for_the_difference(make_plan):
    class Add(nn.Module):
        def forward(self, x):
            return x + 1

    plan = make_plan(Add(), (torch.randn(1, 1 << 20),), output_mode=OutputMode.FINAL)
    assert plan.steps[0].name == "wait for the host"
    host_cycles = 4 * (1 << 20) / plan.system.host_bytes_per_second * 1.85e9
    assert plan.timing.micro_cycles == pytest.approx(host_cycles)
    assert all(step.name != "wait for the host" for step in make_plan(Add(), (torch.randn(1, 8),)).steps)


def test_totals_by_step_agree_with_an_independent_count(make_plan, perceptron, batch):
    plan = make_plan(perceptron, batch, optimizer=torch.optim.Adam(perceptron.parameters()))
    memory = plan.memory[0]
    worst = np.zeros(1472, dtype=np.int64)
    for step in range(len(plan.steps)):
        live = plan.not_always_live_at(step)
        assert live.sum() == memory.live_by_step[step]
        assert live.max() == memory.fullest_by_step[step]
        worst = np.maximum(worst, live)
    assert np.array_equal(worst, memory.peak_not_always_live)


def test_views_cost_nothing_and_hold_nothing(make_plan):
    class Views(nn.Module):
        def forward(self, x):
            return x.reshape(8, -1).transpose(0, 1).unsqueeze(0).relu()

    plan = make_plan(Views(), (torch.randn(4, 6),))
    assert [op.op for op in plan.ops] == ["aten.relu.default"]


def test_a_model_too_large_does_not_fit_and_says_who_is_responsible(make_plan):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(16384, 32768, bias=False), nn.ReLU())
    plan = make_plan(model, (torch.empty(1, 16384, device="meta"),))
    fit = plan.fit
    assert not fit.fits
    assert fit.tiles_over == 1472
    weight_bytes = 16384 * 32768 * 4
    assert fit.bytes_over > weight_bytes - 1472 * fit.limit_bytes
    assert fit.culprits[0].name == "0.weight"
    assert fit.culprits[0].bytes_total == weight_bytes
    assert fit.peak_bytes > fit.limit_bytes == plan.system.target.usable_tile_bytes
    assert fit.bytes_over_worst_tile == fit.peak_bytes - fit.limit_bytes
    assert fit.probability == estimate_fit_probability(fit.peak_bytes, fit.limit_bytes) < 0.5


def test_a_users_own_machine_changes_the_verdict(make_plan, perceptron, batch):
    bow = resolve_system("bow-2000")
    assert make_plan(perceptron, batch[:1]).fit.fits
    tiny = dataclasses.replace(bow, target=dataclasses.replace(bow.target, tiles=4, tile_memory_bytes=20_000))
    plan = make_plan(perceptron, batch[:1], system=tiny)
    assert plan.memory[0].peak.shape == (4,)
    assert not plan.fit.fits


def test_a_faster_clock_saves_seconds_but_no_on_chip_cycles(make_plan, perceptron, batch):
    slow = make_plan(perceptron, batch[:1], system="m2000")
    fast = make_plan(perceptron, batch[:1], system="bow-2000")
    on_chip = [
        Counter({step.kind: step.cycles for step in plan.steps if step.kind is not StepKind.HOST})
        for plan in (slow, fast)
    ]
    assert on_chip[0] == on_chip[1]
    assert fast.timing.call_seconds < slow.timing.call_seconds


def test_an_op_without_a_row_is_named_and_marked(make_plan):
    class Rare(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x)

    plan = make_plan(Rare(), (torch.randn(1, 8, 8),))
    assert plan.guessed_ops == {"aten.linalg_matrix_exp.default": 1}
    assert plan.timing.guessed_cycles > 0
    assert "aten.linalg_matrix_exp.default" in plan.warnings[-1]


def test_a_buffer_that_takes_a_part_of_an_activation_costs_a_copy_and_hides_nothing(make_plan):
    class Remember(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 1024)
            self.register_buffer("last", torch.zeros(1024))

        def forward(self, x):
            hidden = self.layer(x)
            self.last.copy_(hidden[0])
            return torch.relu(hidden)

    plan = make_plan(Remember(), (torch.randn(512, 256),))
    large = [variable for variable in plan.variables if variable.bytes == 512 * 1024 * 4]
    assert large, "the activation is there"
    assert any(op.op == "aten.copy.default" for op in plan.ops)
    assert sum_bytes(plan, VariableKind.BUFFER) == 1024 * 4


def test_an_expanded_operand_is_broadcast_to_the_tiles_of_the_result(make_plan):
    class Spread(nn.Module):
        def forward(self, x):
            return x.expand(1024, 1024).relu()

    plan = make_plan(Spread(), (torch.randn(1, 1024),))
    assert [step.kind for step in plan.steps if step.op is not None][:2] == [StepKind.SYNC, StepKind.EXCHANGE]


def test_an_op_that_follows_a_result_on_few_tiles_has_more_to_do_on_each(make_plan):
    class Narrow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4096, 4096, bias=False)

        def forward(self, x):
            return torch.tanh(self.layer(x))

    plan = make_plan(Narrow(), (torch.randn(8, 4096),))
    product, tanh = plan.ops
    held = [variable for variable in plan.variables if variable.op == product.index and variable.kind == "activation"]
    steps = [step for step in plan.steps if step.op == tanh.index and step.kind is StepKind.COMPUTE]
    assert max(step.tiles for step in steps) <= held[0].mapping.tiles


def test_the_host_link_works_both_ways_at_once(make_plan):
    class Add(nn.Module):
        def forward(self, x):
            return x + 1

    both = make_plan(Add(), (torch.randn(1, 1 << 20),))
    one = make_plan(Add(), (torch.randn(1, 1 << 20),), output_mode=OutputMode.FINAL)
    assert both.timing.micro_cycles == pytest.approx(one.timing.micro_cycles)


def test_cards_without_links_reduce_gradients_over_the_host(make_plan, perceptron, batch):
    optimizer = torch.optim.SGD(perceptron.parameters(), lr=0.1)
    data = tuple(torch.cat([part] * 2) for part in batch)
    plan = make_plan(perceptron, data, optimizer=optimizer, replicas=2, system="c600")
    [reduction] = [step for step in plan.steps if "all-reduce" in step.name]
    sent_bytes = 2 * 1 / 2 * 4 * PERCEPTRON_PARAMETERS
    seconds = sent_bytes / plan.system.host_bytes_per_second
    seconds += 2 * plan.system.host_latency_seconds  # one turn to reduce, one to gather
    assert reduction.cycles == pytest.approx(seconds * plan.system.target.clock_hz)
