"""A program that does not fit: each lever is planned anew, and the first one on the list makes it fit."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch
from torch import nn

from openipu.explore.auto import scale_job
from openipu.explore.levers import (
    FrontEnd,
    LeverKind,
    LeverResult,
    Limit,
    Setting,
    advise,
    describe_advice,
    word_settings,
)
from openipu.explore.levers.combine import combine_levers
from openipu.explore.levers.types import count_ipu_cycles
from openipu.graph import InputKind, RunOptions, note_of
from openipu.jobs import PlanningJob, capture_job, halve_job
from openipu.machine import resolve_system
from openipu.plan import plan_program


class Stack(nn.Module):
    """Linear layers or convolutions, with a loss when it is trained."""

    def __init__(self, width, depth, convolution, trained):
        super().__init__()
        make = (lambda: nn.Conv2d(width, width, 3, padding=1)) if convolution else (lambda: nn.Linear(width, width))
        self.layers = nn.ModuleList(make() for _ in range(depth))
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) if convolution else nn.LayerNorm(width) for _ in range(depth))
        self.trained = trained

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(nn.functional.gelu(layer(x)))
        return nn.functional.mse_loss(x, torch.zeros_like(x)) if self.trained else x


def make_job(width=128, depth=3, batch=64, convolution=False, training=True, adam=True, half=False, **options):
    with torch.device("meta"):
        model = Stack(width, depth, convolution, training)
        inputs = torch.empty(batch, width, 8, 8) if convolution else torch.empty(batch, width)
    if half:
        model, inputs = model.half(), inputs.half()
    optimizer = None
    if training:
        kind = torch.optim.Adam if adam else torch.optim.SGD
        optimizer = kind(model.parameters(), lr=0.1)
    run = RunOptions(training=training, **options)
    return PlanningJob(model=model, args=inputs, training=training, optimizer=optimizer, options=run)


def make_system(tile_bytes=2**24, tiles=4, ipus=4):
    system = resolve_system("bow-pod16")
    taken = system.target.tile_memory_bytes - system.target.usable_tile_bytes
    target = dataclasses.replace(system.target, tiles=tiles, tile_memory_bytes=tile_bytes + taken)
    return dataclasses.replace(system, ipus=ipus, target=target)


def capture_variant(job, variant):
    scaled = scale_job(job, variant.micro_batch)
    return capture_job(halve_job(scaled) if variant.half else scaled)


def advise_job(job, share, **arguments):
    """Advice for a machine with only this share of the memory that the job needs."""
    program = capture_job(job)
    needed = plan_program(program, make_system(), job.options).fit.peak_bytes
    plan = plan_program(program, make_system(int(share * needed)), job.options)
    assert not plan.fit.fits
    arguments.setdefault("recapture", lambda variant: capture_variant(job, variant))
    return advise(program, plan, **arguments)


def make_misfits():
    """Twenty jobs of several kinds, and the share of what they need that their machine has."""
    chance = random.Random(7)
    for number in range(20):
        training = number % 4 != 3
        yield (
            make_job(
                width=chance.choice((32, 64)) if number % 5 == 0 else chance.choice((128, 256)),
                depth=chance.randint(2, 4),
                batch=chance.choice((16, 32)) if number % 5 == 0 else chance.choice((64, 256)),
                convolution=number % 5 == 0,
                training=training,
                adam=chance.random() < 0.7,
                half=chance.random() < 0.4,
                gradient_accumulation=chance.choice((1, 8)) if training else 1,
            ),
            chance.uniform(0.35, 0.8),
        )


def test_of_twenty_programs_that_do_not_fit_the_first_lever_makes_at_least_eighteen_fit():
    fitting, titles = 0, []
    for job, share in make_misfits():
        advice = advise_job(job, share)
        if advice.best is not None:
            fitting += advice.best.plan.fit.fits
            titles.append(advice.best.title)
            assert all(advice.words.values())
    assert fitting >= 18, titles
    assert len({title.split()[0] for title in titles}) >= 3, "not one lever for everything"


def test_levers_that_fit_come_first_and_the_cheapest_in_front():
    advice = advise_job(make_job(batch=128, gradient_accumulation=8), 0.8)
    fits = [lever.fits for lever in advice.levers]
    assert fits == sorted(fits, reverse=True)
    paid = [lever.paid_cycles for lever in advice.levers if lever.fits]
    assert paid == sorted(paid)
    saved = [lever.saved_tile_bytes for lever in advice.levers if not lever.fits]
    assert saved == sorted(saved, reverse=True)


def test_bytes_and_cycles_are_differences_of_two_plans():
    advice = advise_job(make_job(gradient_accumulation=8), 0.9)
    for lever in advice.levers:
        assert lever.saved_tile_bytes == advice.plan.fit.peak_bytes - lever.plan.fit.peak_bytes
        assert lever.saved_bytes == advice.plan.fit.needed_bytes - lever.plan.fit.needed_bytes
        paid = count_ipu_cycles(lever.plan) - count_ipu_cycles(advice.plan)
        assert lever.paid_cycles == paid
        ratio = advice.plan.timing.samples_per_second / lever.plan.timing.samples_per_second
        assert lever.slowdown == pytest.approx(ratio)


def test_state_off_chip_takes_the_state_from_the_tiles():
    job = make_job(width=128, gradient_accumulation=8)
    advice = advise_job(job, 0.9)
    lever = next(entry for entry in advice.levers if entry.settings[0].kind is LeverKind.STATE_OFF_CHIP)
    state_bytes = sum(slot.shape_bytes for slot in capture_job(job).state_slots)
    assert lever.saved_bytes == pytest.approx(state_bytes, rel=0.35), "two moments a weight, which come back in turn"
    assert lever.paid_cycles > 0


def test_a_smaller_micro_batch_is_accumulated_so_that_an_update_sees_as_many_samples():
    advice = advise_job(make_job(batch=128, gradient_accumulation=2), 0.6)
    lever = next(entry for entry in advice.levers if entry.settings[0].kind is LeverKind.MICRO_BATCH)
    assert lever.plan.timing.samples_per_call == advice.plan.timing.samples_per_call == 256
    assert lever.settings[0].rounds == 256 // lever.settings[0].value


def test_without_a_way_to_capture_again_micro_batch_and_format_stay_and_that_is_said():
    advice = advise_job(make_job(), 0.02, recapture=None)
    kinds = {setting.kind for entry in advice.levers for setting in entry.settings}
    assert kinds.isdisjoint({LeverKind.MICRO_BATCH, LeverKind.HALF_PRECISION})
    assert advice.unreachable == (LeverKind.HALF_PRECISION, LeverKind.MICRO_BATCH)
    text = describe_advice(advice, FrontEnd.POPTORCH)
    assert "it takes the model itself: half precision, micro-batch" in text
    assert "nor do all of them together" not in text


def test_half_precision_is_a_lever_that_halves_the_weights():
    job = make_job(width=256, training=False)
    advice = advise_job(job, 0.9)
    lever = next(entry for entry in advice.levers if entry.settings[0].kind is LeverKind.HALF_PRECISION)
    weights = sum(parameter.numel() for parameter in job.model.parameters())
    assert lever.saved_bytes > 2 * weights, "two bytes a weight, and activations beside them"
    assert (
        lever.plan.fit.peak_bytes
        == plan_program(capture_job(halve_job(job)), lever.plan.system, job.options).fit.peak_bytes
    )
    assert {parameter.dtype for parameter in job.model.parameters()} == {torch.float32}, "the job's own stays"


def test_half_precision_is_no_lever_for_what_is_half_already():
    advice = advise_job(make_job(half=True), 0.9)
    assert all(setting.kind is not LeverKind.HALF_PRECISION for entry in advice.levers for setting in entry.settings)


def test_a_training_job_in_half_precision_keeps_its_optimizer_and_shared_weights():
    job = make_job(training=True)
    job.model.layers[1].weight = job.model.layers[0].weight
    job = dataclasses.replace(job, optimizer=torch.optim.Adam(job.model.parameters(), lr=0.1))
    half = halve_job(job)
    assert half.model.layers[1].weight is half.model.layers[0].weight
    assert [len(group["params"]) for group in half.optimizer.param_groups] == [len(list(job.model.parameters()))]
    program = capture_job(half)
    assert {entry.dtype for entry in program.micro.inputs_of(InputKind.PARAMETER)} == {torch.float16}
    assert {slot.name for slot in program.state_slots} == {slot.name for slot in capture_job(job).state_slots}


def test_levers_are_pulled_together_where_one_is_not_enough():
    job = make_job(width=256, batch=256, training=False)
    for share in (0.7, 0.6, 0.5, 0.4, 0.3):  # less and less memory, until one lever does not do any more
        advice = advise_job(job, share)
        single = [lever for lever in advice.levers if len(lever.settings) == 1]
        if not any(lever.fits for lever in single):
            break
    assert advice.best is not None
    assert len(advice.best.settings) > 1
    assert " and " in advice.best.title
    assert advice.best.saved_tile_bytes > max(lever.saved_tile_bytes for lever in single)


def make_result(plan, peak_bytes, *kinds):
    """What a lever did, with a peak of our choice."""
    settings = tuple(Setting(kind, 4 if kind is LeverKind.MORE_IPUS else None) for kind in kinds)
    return LeverResult(
        settings, dataclasses.replace(plan, fit=dataclasses.replace(plan.fit, peak_bytes=peak_bytes)), plan
    )


@pytest.mark.parametrize("beside", [110, 90])
def test_a_combination_that_saves_less_than_its_member_is_dropped(beside):
    job = make_job()
    plan = plan_program(capture_job(job), make_system(), job.options)
    plan = dataclasses.replace(plan, fit=dataclasses.replace(plan.fit, peak_bytes=400, limit_bytes=10, fits=False))
    weights, ipus = LeverKind.WEIGHTS_OFF_CHIP, LeverKind.MORE_IPUS
    single = [make_result(plan, 300, weights), make_result(plan, 100, ipus)]
    tried = []

    def attempt(settings):
        tried.append({setting.kind for setting in settings})
        return make_result(plan, beside, *(setting.kind for setting in settings))

    together = combine_levers(single, attempt)
    assert {weights, ipus} in tried
    assert (together is None) == (beside > 100)


def test_a_combination_never_ranks_below_one_of_its_members():
    combined = 0
    for job, share in list(make_misfits())[:3]:
        advice = advise_job(job, share / 4)  # so little memory that single levers are not enough
        places = {lever.settings: number for number, lever in enumerate(advice.levers)}
        for lever in advice.levers:
            if len(lever.settings) > 1:
                combined += 1
                kinds = {setting.kind for setting in lever.settings}
                members = [one for one in advice.levers if len(one.settings) == 1 and one.settings[0].kind in kinds]
                assert all(places[lever.settings] < places[one.settings] for one in members), lever.title
    assert combined >= 2, "else this says nothing"


def test_what_nothing_helps_is_said_plainly():
    advice = advise_job(make_job(), 0.02)
    assert advice.best is None
    assert set(advice.words.values()) == {""}
    assert "No lever makes it fit" in describe_advice(advice, FrontEnd.POPTORCH)


def test_no_lever_is_begun_when_the_time_is_up_and_all_are_named():
    advice = advise_job(make_job(), 0.9, seconds=0.0)
    assert not advice.complete
    assert not advice.levers
    assert advice.stopped_by is Limit.TIME
    assert {"available-memory proportion", "half precision", "2 IPUs in a pipeline", "levers together"} <= set(
        advice.untried
    )
    text = describe_advice(advice, FrontEnd.POPTORCH)
    assert "Not tried after" in text
    assert "openipu plan" in text


def test_a_number_of_plans_ends_the_search_at_the_same_place_every_time():
    job = make_job()
    first, second = (advise_job(job, 0.02, most_plans=5) for _ in range(2))
    assert first.stopped_by is Limit.PLANS
    assert first.untried == second.untried
    assert [lever.title for lever in first.levers] == [lever.title for lever in second.levers]
    assert 0 < first.plans_made <= 5
    assert "Not tried after 5 plans: " in describe_advice(first, FrontEnd.POPTORCH)
    everything = advise_job(job, 0.02)
    assert everything.complete
    assert everything.untried == ()
    assert {lever.title for lever in first.levers} < {lever.title for lever in everything.levers}


def test_numbers_of_ipus_that_cannot_hold_the_variables_are_not_searched():
    job = make_job(width=512, batch=4)
    weights = sum(4 * parameter.numel() for parameter in job.model.parameters())
    program = capture_job(job)
    tight = make_system(weights // 4 * 2 // 3)  # four tiles of an IPU hold two thirds of the weights
    advice = advise(program, plan_program(program, tight, job.options))
    tried = {
        setting.value for lever in advice.levers for setting in lever.settings if setting.kind is LeverKind.MORE_IPUS
    }
    assert tried == {4}, "2 IPUs hold the weights, but not their gradients beside them"


def test_the_program_is_as_before():
    job = make_job()
    program = capture_job(job)
    before = [note_of(node) for node in program.micro.module.graph.nodes]
    system = make_system(plan_program(program, make_system(), job.options).fit.peak_bytes - 1)
    advise(program, plan_program(program, system, job.options))
    assert [note_of(node) for node in program.micro.module.graph.nodes] == before


@pytest.mark.parametrize(
    ("front_end", "expected"),
    [
        (FrontEnd.POPTORCH, 'opts.setAvailableMemoryProportion({"IPU0": 0.2})'),
        (FrontEnd.OPTIMUM, "IPUConfig(matmul_proportion=0.2)"),
        (FrontEnd.OPENIPU, "job.with_options(available_memory_proportion=0.2)"),
    ],
)
def test_a_setting_is_said_in_the_words_of_each_front_end(front_end, expected):
    job = make_job()
    plan = plan_program(capture_job(job), make_system(), job.options)
    assert word_settings((Setting(LeverKind.MEMORY_PROPORTION, 0.2),), front_end, plan) == expected


def test_every_poptorch_line_is_one_that_poptorch_takes():
    poptorch = pytest.importorskip("poptorch")
    job = make_job()
    plan = plan_program(capture_job(job), make_system(), job.options)
    for kind, value in {
        LeverKind.MEMORY_PROPORTION: 0.2,
        LeverKind.HALF_PARTIALS: None,
        LeverKind.SHARED_STATE: None,
        LeverKind.STATE_OFF_CHIP: None,
        LeverKind.ACTIVATIONS_OFF_CHIP: None,
        LeverKind.WEIGHTS_OFF_CHIP: None,
        LeverKind.RECOMPUTE: None,
    }.items():
        options = poptorch.Options()
        before = repr(options)
        exec(
            word_settings((Setting(kind, value),), FrontEnd.POPTORCH, plan),
            {"opts": options, "poptorch": poptorch, "torch": torch},
        )
        assert repr(options) != before
