"""The automatic split: it fits wherever anything does, and is as fast as the split that people published."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import nn

from openipu.errors import OptionError
from openipu.explore.auto import (
    Keep,
    Layout,
    Limits,
    Stage,
    StateHome,
    apply_split,
    find_split,
    scale_job,
    split_program,
)
from openipu.explore.auto.cuts import list_layouts
from openipu.explore.auto.estimate import Estimator, Scheme, list_parts
from openipu.explore.auto.floor import Floor
from openipu.explore.auto.measure import SegmentMeter
from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.schemes import list_schemes, make_options
from openipu.explore.auto.segments import find_chain
from openipu.explore.auto.words import explain_misfit
from openipu.graph import Phase, Recompute, RunOptions, TensorRole, note_of
from openipu.jobs import PlanningJob, capture_job, run_job
from openipu.machine import resolve_system
from openipu.plan import parts, plan_program

PROPORTIONS = (0.6, 0.1)


class Tower(nn.Module):
    """Layers of several widths, a loss, and on request a last layer that shares the first one's weight."""

    def __init__(self, widths=(64, 96, 64, 128, 64), tied=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.tied = tied

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        if self.tied:
            x = nn.functional.linear(x, self.layers[0].weight)
        return nn.functional.mse_loss(x, torch.zeros_like(x))


def make_job(widths=(64, 96, 64, 128, 64), batch=16, tied=False, **options):
    with torch.device("meta"):
        model = Tower(widths, tied)
    run = RunOptions(training=True, **options) if options else None
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return PlanningJob(model=model, args=torch.empty(batch, widths[0]), training=True, optimizer=optimizer, options=run)


def make_system(tile_bytes, ipus=4, tiles=4):
    """A small machine, so that small models are too large for it."""
    system = resolve_system("bow-pod16")
    taken = system.target.tile_memory_bytes - system.target.usable_tile_bytes
    target = dataclasses.replace(system.target, tiles=tiles, tile_memory_bytes=tile_bytes + taken)
    return dataclasses.replace(system, ipus=ipus, target=target)


def list_plans(program, system, options, limits, proportions=PROPORTIONS):
    """Brute force: every cut, scheme and choice of proportions, planned."""
    chain = find_chain(program, most_stages=system.ipus)
    for scheme in list_schemes(program, system, options, 16, len(chain.segments), limits):
        for layout in list_layouts(scheme, len(chain.segments), 0.6):
            for shares in product(proportions, repeat=scheme.ipus):
                mixed = dataclasses.replace(layout, proportions=shares)
                with lay_out(program, chain, mixed):
                    yield scheme, plan_program(program, system, make_options(options, mixed, scheme))


def find_smallest_peak(program, system, options, limits):
    """The least and the most that a fullest tile can come to."""
    peaks = [plan.fit.peak_bytes for _, plan in list_plans(program, system, options, limits)]
    return min(peaks), max(peaks)


@pytest.mark.parametrize(("widths", "tied"), [((64, 96, 64, 128), False), ((128, 32, 32, 128), True)])
def test_a_split_that_fits_is_found_whenever_brute_force_finds_one(widths, tied):
    job = make_job(widths, tied=tied, gradient_accumulation=8)
    program, options, limits = capture_job(job), job.options, Limits(samples=128)
    smallest, largest = find_smallest_peak(program, make_system(2**20, ipus=2), options, limits)
    assert smallest < largest
    for tile_bytes in (smallest - 8, smallest, smallest + 64, (smallest + largest) // 2):
        system = make_system(tile_bytes, ipus=2)
        split = split_program(program, system, options, limits=limits, proportions=PROPORTIONS)
        assert split.fits == (tile_bytes >= smallest), tile_bytes
        assert split.fits or split.complete


@pytest.mark.parametrize(("widths", "tied"), [((64, 96, 64, 128), False), ((128, 32, 32, 128), True)])
def test_the_search_is_as_fast_as_the_fastest_of_all_plans(widths, tied):
    """Memory is made scarce, so that most layouts do not fit; of those that do, nothing may be more than 1 % faster."""
    job = make_job(widths, tied=tied, gradient_accumulation=8)
    program, options, limits = capture_job(job), job.options, Limits(samples=128)
    roomy = make_system(2**20, ipus=2)
    plans = [plan for _, plan in list_plans(program, roomy, options, limits)]
    peaks = sorted(plan.fit.peak_bytes for plan in plans)
    for tile_bytes in (peaks[len(peaks) // 8], peaks[len(peaks) // 2], peaks[-1]):
        fastest = max(plan.timing.samples_per_second for plan in plans if plan.fit.peak_bytes <= tile_bytes)
        split = split_program(program, make_system(tile_bytes, ipus=2), options, limits=limits, proportions=PROPORTIONS)
        assert split.fits
        assert split.samples_per_second >= 0.99 * fastest, tile_bytes


@pytest.mark.parametrize(("widths", "tied"), [((64, 96, 64, 128), False), ((128, 32, 32, 128), True)])
def test_no_plan_needs_less_than_the_floor_of_its_scheme(widths, tied):
    job = make_job(widths, tied=tied, gradient_accumulation=8)
    program, options, system = capture_job(job), job.options, make_system(2**20, ipus=2)
    floor = Floor(program, find_chain(program, most_stages=2), system, options)
    seen = set()
    for scheme, plan in list_plans(program, system, options, Limits(samples=128), (0.1,)):
        assert floor.find_least(scheme) <= plan.fit.peak_bytes
        assert floor.find_least(scheme, with_ops=False) <= floor.find_least(scheme)
        seen.add(scheme.state_home)
    assert seen == {StateHome.ON_CHIP, StateHome.SHARED, StateHome.OFF_CHIP}


def test_the_floor_holds_with_a_weight_that_nothing_reads():
    class Spare(Tower):
        def __init__(self, widths):
            super().__init__(widths)
            self.spare = nn.Parameter(torch.empty(512, 512))

    with torch.device("meta"):
        model = Spare((64, 96, 64))
    options = RunOptions(training=True, gradient_accumulation=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    job = PlanningJob(model=model, args=torch.empty(16, 64), training=True, optimizer=optimizer, options=options)
    program, system = capture_job(job), make_system(2**22, ipus=2)
    floor = Floor(program, find_chain(program, most_stages=2), system, options)
    for scheme, plan in list_plans(program, system, options, Limits(samples=128), (0.1,)):
        assert floor.find_least(scheme) <= plan.fit.peak_bytes


def test_the_floor_counts_weights_gradients_state_and_the_largest_operator():
    job = make_job((64, 96), batch=16, gradient_accumulation=8)
    program, system = capture_job(job), make_system(2**20, ipus=1)
    floor = Floor(program, find_chain(program, most_stages=1), system, job.options)
    weights = 4 * (64 * 96 + 96)
    widest = 4 * 64 * 96  # the product that makes the gradient of the weight writes it
    scheme = Scheme(1, 1, 8, Keep.ALL, StateHome.ON_CHIP)
    assert floor.find_least(scheme, with_ops=False) == pytest.approx(weights * (1 + 1 + 2) / 4, abs=8)
    assert floor.find_least(scheme) == pytest.approx((weights * (1 + 1 + 2) + widest) / 4, abs=8)
    off_chip = dataclasses.replace(scheme, state_home=StateHome.OFF_CHIP)
    assert floor.find_least(off_chip, with_ops=False) == pytest.approx(weights * (1 + 1) / 4)
    once = dataclasses.replace(off_chip, rounds=1)
    assert floor.find_least(once, with_ops=False) == pytest.approx(weights / 4)


def test_where_variables_are_too_large_the_search_ends_with_a_proof_and_one_plan():
    job = make_job((256,) * 5, gradient_accumulation=16)
    system = make_system(2**14)
    split = find_split(job, system)
    assert not split.fits
    assert split.complete
    assert split.plans_made == 1, "no micro-batch helps, so no other is tried"
    shortage = split.shortage
    assert shortage.any_micro_batch
    assert shortage.limit_tile_bytes == 2**14 < shortage.least_tile_bytes <= split.plan.fit.peak_bytes
    layer = 4 * (256 * 256 + 256)
    assert shortage.module_bytes >= 2 * layer > shortage.ipu_bytes == 4 * 2**14
    lines = explain_misfit(split)
    assert "That is proven" in lines[0]
    assert "layers." in lines[0]
    assert "More IPUs do not help" in lines[1]


def test_a_proof_for_one_micro_batch_is_no_proof_for_smaller_ones():
    job = make_job((64, 64, 64), batch=2048, gradient_accumulation=16)
    system = make_system(2**17, ipus=2)
    fixed = find_split(job, system, micro_batches=[2048], proportions=(0.1,))
    assert fixed.complete
    assert not fixed.shortage.any_micro_batch
    free = find_split(job, system, proportions=(0.1,))
    assert free.fits
    assert free.shortage is None


def test_a_system_with_too_few_ipus_is_told_how_many_it_takes():
    job = make_job((64,) * 9, gradient_accumulation=16)
    split = find_split(job, make_system(2**14, ipus=2), micro_batches=[16])
    layer = 4 * (64 * 64 + 64)
    assert split.shortage.module is None
    assert split.shortage.variable_bytes == 8 * 2 * layer
    assert split.shortage.fewest_ipus == 5 == -(-8 * 2 * layer // (4 * 2**14))
    assert "at least 5 IPUs" in explain_misfit(split)[1]


def test_what_is_not_proven_is_not_called_proven():
    job = make_job((64, 64, 64), batch=512, gradient_accumulation=16)
    split = find_split(
        job, make_system(2**17, ipus=2), ipus_per_replica=2, micro_batches=[512], proportions=(0.6, 0.3, 0.1)
    )
    split = dataclasses.replace(split, complete=False, shortage=None)
    assert "Not proven" in explain_misfit(split)[0]


def test_what_is_offered_was_planned_in_full():
    job = make_job(gradient_accumulation=16)
    split = find_split(job, make_system(2**17), micro_batches=[16])
    program = capture_job(job)
    before = {node.name: note_of(node) for node in program.micro.module.graph.nodes}
    placed, options = apply_split(program, split)
    again = plan_program(placed, split.plan.system, options)
    assert again.fit == split.plan.fit
    assert again.timing.call_cycles == split.plan.timing.call_cycles
    assert {node.name: note_of(node) for node in program.micro.module.graph.nodes} == before, "a program never changes"


def test_a_machine_with_room_pays_for_no_memory_that_it_need_not_save():
    job, system = make_job(gradient_accumulation=16), make_system(2**24)
    split = find_split(job, system, micro_batches=[16])
    replicas_only = run_job(job.with_options(gradient_accumulation=4, replicas=4), system)
    assert split.samples_per_second >= replicas_only.timing.samples_per_second
    assert split.options.replicas * split.ipus_per_replica == 4
    assert split.layout.keep is Keep.ALL
    assert split.options.location_of(TensorRole.OPTIMIZER).on_chip


def test_less_memory_costs_time_until_nothing_fits():
    job, speeds = make_job(gradient_accumulation=16), []
    for tile_bytes in (2**24, 2**17, 2**16):
        split = find_split(job, make_system(tile_bytes), micro_batches=[16], proportions=PROPORTIONS)
        assert split.fits
        speeds.append(split.samples_per_second)
    assert speeds == sorted(speeds, reverse=True)
    tiny = find_split(job, make_system(2**12), micro_batches=[16], proportions=PROPORTIONS)
    assert not tiny.fits
    assert tiny.complete
    assert tiny.plan.fit.peak_bytes > 2**12


def test_samples_between_updates_stay_whatever_the_micro_batch():
    split = find_split(make_job(batch=16, gradient_accumulation=16), make_system(2**24), proportions=(0.6,))
    run = split.options
    assert split.micro_batch > 16, "a larger micro-batch uses the tiles better"
    assert split.micro_batch * run.gradient_accumulation * run.replicas == 16 * 16
    assert run.micro_batches * split.micro_batch == split.plan.timing.samples_per_call


def test_a_micro_batch_that_is_too_large_is_made_smaller():
    job = make_job((64, 64, 64), batch=512, gradient_accumulation=16)
    system, fixed_ipus = make_system(2**17, ipus=2), {"ipus_per_replica": 2, "proportions": (0.1,)}
    fixed = find_split(job, system, micro_batches=[512], **fixed_ipus)
    free = find_split(job, system, **fixed_ipus)
    assert not fixed.fits
    assert free.fits
    assert free.micro_batch < 512


def test_ipus_replicas_and_samples_that_are_given_are_kept():
    split = find_split(
        make_job(),
        make_system(2**24),
        ipus_per_replica=2,
        replicas=2,
        samples=256,
        micro_batches=[16],
        proportions=(0.6,),
    )
    assert split.ipus_per_replica == 2
    assert (split.options.replicas, split.options.gradient_accumulation) == (2, 8)


def test_more_ipus_than_the_system_has_are_refused():
    with pytest.raises(OptionError, match="8 IPUs for each of 1 replicas are more than the 4"):
        find_split(make_job(), make_system(2**24), ipus_per_replica=8)


def test_too_few_micro_batches_for_the_stages_are_refused():
    with pytest.raises(OptionError, match="gradient accumulation"):
        find_split(make_job(), make_system(2**24), ipus_per_replica=4, samples=16, replicas=1, micro_batches=[16])


def test_a_shared_weight_brings_the_last_stage_back_to_its_ipu():
    job = make_job((256, 64, 64, 256), tied=True, gradient_accumulation=16)
    system = make_system(2**24, ipus=2)
    closed = find_split(job, system, ipus_per_replica=2, head_on_first_ipu=True, micro_batches=[16])
    assert [stage.ipu for stage in closed.layout.stages] == [0, 1, 0]
    opened = find_split(job, system, ipus_per_replica=2, head_on_first_ipu=False, micro_batches=[16])
    assert [stage.ipu for stage in opened.layout.stages] == [0, 1]
    free = find_split(job, system, ipus_per_replica=2, micro_batches=[16])
    assert free.samples_per_second >= 0.999 * max(closed.samples_per_second, opened.samples_per_second)


def test_inference_is_split_as_well():
    with torch.device("meta"):
        model = Tower()
    job = PlanningJob(model=model, args=torch.empty(16, 64))
    split = find_split(job, make_system(2**24), ipus_per_replica=4, micro_batches=[16])
    assert split.ipus_per_replica == 4
    assert split.plan.pipeline is not None
    assert not split.recompute
    assert split.options.device_iterations >= 4


def test_one_ipu_without_links_still_gets_recomputation_and_proportion():
    job = make_job(batch=256, gradient_accumulation=4)
    card = dataclasses.replace(make_system(2**20), ipus=1, ipu_link_bytes_per_second=0.0)
    plain = run_job(job, card)
    taken = card.target.tile_memory_bytes - card.target.usable_tile_bytes
    limit_bytes = plain.fit.peak_bytes - 1 + taken
    tight = dataclasses.replace(card, target=dataclasses.replace(card.target, tile_memory_bytes=limit_bytes))
    split = find_split(job, tight, micro_batches=[256])
    assert split.fits
    assert split.ipus_per_replica == 1


def test_segments_follow_the_modules_and_backward_follows_forward():
    program = capture_job(make_job())
    chain = find_chain(program, most_stages=4)
    assert [segment.module for segment in chain.segments] == [f"layers.{index}" for index in range(4)]
    for node, segment in chain.segment_of.items():
        note = note_of(node)
        if note.module.startswith("layers."):
            assert note.module == f"layers.{segment}"
    phases = {note_of(node).phase for node in chain.segment_of}
    assert phases == {Phase.FORWARD, Phase.BACKWARD}


def test_another_micro_batch_takes_the_update_over_and_plans_the_same():
    job = make_job(batch=16, gradient_accumulation=16)
    first, system = capture_job(job), make_system(2**24)
    larger = scale_job(job, 32)
    taken, own = capture_job(larger, first), capture_job(larger)
    assert taken.update is first.update
    assert own.update is not first.update
    assert taken.state_slots == own.state_slots
    plans = [plan_program(program, system, job.options) for program in (taken, own)]
    assert plans[0].fit == plans[1].fit
    assert plans[0].timing == plans[1].timing


def test_an_update_of_other_gradients_is_not_taken_over():
    first, other = capture_job(make_job()), make_job((64, 96, 64, 96, 64))
    assert capture_job(other, first).update is not first.update


def test_layers_are_counted_by_ipu_as_an_ipu_config_wants_them():
    split = find_split(make_job(), make_system(2**24), ipus_per_replica=2, micro_batches=[16], head_on_first_ipu=False)
    counts = split.count_layers("layers")
    assert sum(counts) == 4
    assert len(counts) == len(split.memory_proportions) == 2


def test_notes_are_as_before_after_a_search():
    program = capture_job(make_job())
    before = [note_of(node) for node in program.micro.module.graph.nodes]
    split_program(program, make_system(2**24), RunOptions(training=True, gradient_accumulation=16), proportions=(0.6,))
    assert [note_of(node) for node in program.micro.module.graph.nodes] == before


def test_the_estimate_of_a_layout_is_close_to_its_plan():
    job = make_job((256,) * 9, batch=64, gradient_accumulation=16)
    program, system = capture_job(job), make_system(2**24, tiles=64)
    chain = find_chain(program, most_stages=8)
    meter = SegmentMeter(program, chain, system, job.options)
    estimator = Estimator({0.6: meter.measure(0.6)}, system, training=True)
    for keep in Keep:  # the estimate computes all of a layer again, the plan only what backward reads
        scheme = Scheme(2, 2, 16, keep, StateHome.ON_CHIP)
        layout = Layout((Stage(0, 3, 0), Stage(4, 7, 1)), (0.6, 0.6), keep)
        options = make_options(job.options, layout, scheme)
        assert options.recompute is (Recompute.NONE if keep is Keep.ALL else Recompute.PIPELINE)
        with lay_out(program, chain, layout):
            plan = plan_program(program, system, options)
        assert estimator.estimate_call(layout, scheme) == pytest.approx(plan.timing.samples_per_second, rel=0.25)
        assert estimator.estimate_peak(layout, scheme) == pytest.approx(plan.fit.peak_bytes, rel=0.25)


@pytest.mark.parametrize("home", StateHome)
@pytest.mark.parametrize("keep", [Keep.STAGE_INPUTS, Keep.LAYER_INPUTS])
def test_the_memory_of_a_weight_that_two_stages_of_an_ipu_share_is_estimated_as_planned(home, keep):
    """Its gradient waits from the last stage to the first, its state is loaded in the update, code is shared."""
    job = make_job((512, 64, 64, 64, 64, 64, 64, 512), batch=32, tied=True, gradient_accumulation=16)
    program, system = capture_job(job), make_system(2**24, tiles=64)
    chain = find_chain(program, most_stages=8)
    last = len(chain.segments) - 1
    estimator = Estimator({0.6: SegmentMeter(program, chain, system, job.options).measure(0.6)}, system, training=True)
    scheme = Scheme(2, 2, 16, keep, home, tail=last)
    stages = (Stage(0, last // 2, 0), Stage(last // 2 + 1, last - 1, 1), Stage(last, last, 0))
    layout = Layout(stages, (0.6, 0.6), keep, home)
    with lay_out(program, chain, layout):
        plan = plan_program(program, system, make_options(job.options, layout, scheme))
    for ipu, memory in enumerate(plan.memory):
        guess = estimator.estimate(list_parts(layout, ipu), scheme, 0.6)
        assert guess.peak_bytes == pytest.approx(memory.peak.max(), rel=0.06), ipu


def test_equal_segments_are_measured_once_and_as_each_by_itself(monkeypatch):
    job = make_job((256,) * 9, batch=64, gradient_accumulation=16)
    program, system = capture_job(job), make_system(2**24, tiles=64)
    chain = find_chain(program, most_stages=8)
    once = SegmentMeter(program, chain, system, job.options)
    monkeypatch.setattr(parts, "find_kinds", lambda workload, known: tuple(range(workload.ipus)))
    each = SegmentMeter(program, chain, system, job.options)
    for proportion in (0.6, 0.05, 0.6):  # what one proportion left behind must not reach the next
        left, right = once.measure(proportion), each.measure(proportion)
        assert len(set(once._planner.kinds)) < len(chain.segments) == len(set(each._planner.kinds))
        assert left.crossings == right.crossings
        for members in ((0,), (1, 2), range(8)):
            found = left.programs.sum_code(members)
            assert found.sum() == pytest.approx(right.programs.sum_code(members).sum(), rel=0.02)
        for field in dataclasses.fields(left):
            found = getattr(left, field.name)
            if isinstance(found, np.ndarray):  # a bias, or its code, may begin on another tile
                assert found.sum(axis=-1) == pytest.approx(getattr(right, field.name).sum(axis=-1), rel=0.02), (
                    field.name
                )
    assert np.array_equal(left.forward_cycles, right.forward_cycles)
    assert np.array_equal(left.backward_cycles, right.backward_cycles)


class PreTraining(nn.Module):
    """Masked-language modelling as BERT was pre-trained: of 128 tokens the head sees the 20 that are predicted."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, tokens, positions, labels):
        hidden = self.body.bert(tokens, return_dict=False)[0]
        masked = hidden.gather(1, positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
        logits = self.body.cls(masked)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def test_bert_large_is_at_least_as_fast_as_its_published_split():
    """24 layers as 3, 7, 7, 7 over four IPUs, embedding and head on the first, four replicas, micro-batch 8."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = PreTraining(transformers.BertForMaskedLM(config).half().train())
        tokens, masked = torch.empty(8, 128, dtype=torch.long), torch.empty(8, 20, dtype=torch.long)
    options = RunOptions(training=True, gradient_accumulation=512, replicas=4)
    job = PlanningJob(
        model=model,
        args=(tokens, masked, masked),
        training=True,
        optimizer=torch.optim.AdamW(model.parameters()),
        options=options,
    )
    split = find_split(job, "pod16", micro_batches=[8])
    assert split.fits
    for proportions in ((0.15, 0.25, 0.25, 0.25), (0.15, 0.2, 0.2, 0.2), (0.15,) * 4):  # as published, then less
        published = plan_published(job, split, (3, 7, 7, 7), proportions)
        if published.fits():
            break
    assert published.fits()
    assert published.ipus == 4
    assert split.samples_per_second >= published.samples_per_second


def plan_published(job, split, layers_per_ipu, proportions):
    """Checkpoints at every layer, optimizer state off chip and shared, as the published configuration says."""
    program = capture_job(job)
    chain = find_chain(program, split.most_stages)
    modules = [segment.module for segment in chain.segments]
    first = modules.index("body.bert.encoder.layer.0")
    stages, start = [], 0
    for ipu in range(len(layers_per_ipu)):
        end = first + sum(layers_per_ipu[: ipu + 1])
        stages.append(Stage(start, end - 1, ipu))
        start = end
    scheme = Scheme(4, 4, 512, Keep.LAYER_INPUTS, StateHome.OFF_CHIP, start)
    layout = Layout((*stages, Stage(start, len(modules) - 1, 0)), proportions, scheme.keep, scheme.state_home)
    with lay_out(program, chain, layout):
        return plan_program(program, resolve_system("pod16"), make_options(job.options, layout, scheme))
