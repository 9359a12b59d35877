"""Models cut into stages, and a very large one planned without weights."""

from __future__ import annotations

import subprocess
import sys

import pytest

from openipu.graph import Phase, note_of
from openipu.machine import resolve_system
from openipu.models.layers import Format
from openipu.validation.workloads import ModelSpec, Setup, plan_setup
from openipu.validation.workloads.programs import capture_model
from openipu.validation.workloads.stages import (
    list_units,
    name_unit,
    return_to_start,
    split_by_cost,
    split_by_layers,
    split_by_parts,
)

DECODER = ModelSpec("decoder", Format.HALF, True, length=16, details=(("d", 64), ("heads", 2), ("layers", 4)))


def test_units_follow_the_chain():
    units = list_units(capture_model(DECODER, 1, False))
    assert units == ["words", "order", "layers.0", "layers.1", "layers.2", "layers.3", "norm"]


def test_what_layers_read_and_leave_is_kept_and_what_comes_before_them_is_not():
    """Words and places are added before the first layer: only their sum is read by it."""
    program = capture_model(DECODER, 1, False)
    kept = [node for node in program.micro.module.graph.nodes if note_of(node).attributes.get("checkpoint")]
    inside = [node for node in kept if note_of(node).module.startswith(("words", "order"))]
    assert not inside
    layers = [[node for node in kept if note_of(node).module.startswith(f"layers.{number}")] for number in range(4)]
    assert all(layers)


def test_a_model_without_layers_keeps_what_its_outermost_modules_leave():
    spec = ModelSpec("small network", Format.HALF, True, pixels=28)
    program = capture_model(spec, 1, False)
    assert not any(unit.startswith("layers.") for unit in list_units(program))
    kept = [node for node in program.micro.module.graph.nodes if note_of(node).attributes.get("checkpoint")]
    assert {name_unit(note_of(node).module) for node in kept} >= set(list_units(program))


def test_layers_are_dealt_out_as_stated_and_the_ends_go_with_their_neighbours():
    units = ["words", "layers.0", "layers.1", "layers.2", "layers.3", "classify"]
    assert split_by_layers(units, (1, 2, 1)) == [0, 0, 1, 1, 2, 2]
    assert split_by_layers(units, (0, 2, 2)) == [0, 1, 1, 2, 2, 2]


def test_layers_are_cut_between_attention_and_feed_forward_where_a_submission_did_so():
    """Three layers over two IPUs and back: embeddings, two attentions and one feed-forward, one and two, the head."""
    halves = [f"layers.{layer}.{half}" for layer in range(3) for half in ("attention", "feed")]
    units = ["words", *halves, "transform"]
    assert split_by_parts(units, ((0, 0), (2, 1), (1, 2))) == [0, 1, 1, 1, 2, 2, 2, 2]


def test_halves_of_layers_run_on_the_ipus_that_were_named():
    details = (("head", "masked tokens"),)
    spec = ModelSpec("bert", Format.HALF, True, size="small", length=16, details=details)  # 6 layers
    parts = ((0, 0), (4, 3), (1, 2), (1, 1))
    setup = Setup(1, accumulation=8, stages=3, parts_per_stage=parts, proportions=(0.3,))
    plan = plan_setup(spec, setup, resolve_system("bow-2000"))
    where = {op.module: op.ipu for op in plan.ops if op.phase is Phase.FORWARD and "again" not in op.name}
    assert where["words"] == 0
    assert (where["layers.3.attention.output"], where["layers.3.widen"]) == (1, 2)
    assert (where["layers.5.attention.output"], where["layers.5.narrow"], where["transform"]) == (0, 0, 0)


def test_a_tied_end_returns_to_the_first_ipu_as_one_more_stage():
    assert return_to_start(["words", "layers.0", "layers.1", "classify"], [0, 0, 1, 1]) == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("costs", "count", "extra", "stages"),
    [
        ([1, 1, 1, 1], 2, 0, [0, 0, 1, 1]),
        ([3, 1, 1, 1], 2, 0, [0, 1, 1, 1]),
        ([1, 1, 1, 1], 2, 2, [0, 1, 1, 1]),  # the first carries 2 besides: 1 + 2 = 3 and 3
        ([1, 1], 4, 0, [0, 1]),
    ],
)
def test_the_costliest_stage_is_as_cheap_as_can_be(costs, count, extra, stages):
    assert split_by_cost(costs, count, extra) == stages


def test_stages_run_on_ipus_of_their_own():
    plan = plan_setup(DECODER, Setup(1, accumulation=8, stages=2, layers_per_stage=(2, 2)), resolve_system("bow-2000"))
    assert plan.ipus == 2
    assert plan.pipeline is not None
    assert len(plan.pipeline.stages) == 3  # 2 x 2 - 1


_PLAN_TWENTY_BILLION = """
from openipu.validation.workloads import ModelSpec, Setup, plan_setup
from openipu.models.layers import Format
from openipu.validation.workloads.programs import count_parameters
from openipu.machine import resolve_system

sizes = (("d", 6144), ("heads", 64), ("layers", 44), ("rotary", 1), ("vocabulary", 50432))  # GPT-NeoX-20B
spec = ModelSpec("decoder", Format.HALF, False, length=2048, details=sizes)
plan = plan_setup(spec, Setup(1, stages=64, proportions=(0.2,)), resolve_system("bow-pod64"))
peak_kib = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
print(count_parameters(spec), plan.ipus, peak_kib)
"""


def test_twenty_billion_weights_are_planned_in_two_gigabytes():
    answer = subprocess.run([sys.executable, "-c", _PLAN_TWENTY_BILLION], capture_output=True, text=True, check=True)
    parameters, ipus, peak_kilobytes = (int(word) for word in answer.stdout.split())
    assert parameters > 20e9
    assert ipus > 40
    assert peak_kilobytes * 1024 < 2e9
