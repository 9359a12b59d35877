"""Each lever is said in the words of every front end, and the front end knows those words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import openipu
from openipu.explore.levers import FrontEnd, LeverKind, Setting, word_settings
from openipu.graph import RunOptions
from openipu.jobs import PlanningJob, run_job
from openipu.plan import Plan

VALUES = {
    LeverKind.MEMORY_PROPORTION: 0.2,
    LeverKind.SERIALISED_PRODUCTS: 4,
    LeverKind.MICRO_BATCH: 2,
    LeverKind.MORE_IPUS: 4,
}
SETTINGS = [Setting(kind, VALUES.get(kind)) for kind in LeverKind]
SOURCES = Path(openipu.__file__).parent.parent


@pytest.fixture(scope="module")
def plan() -> Plan:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    return run_job(PlanningJob(model=model, args=(torch.empty(4, 16),), options=RunOptions()), "bow-2000")


@pytest.mark.parametrize("front_end", FrontEnd)
def test_every_lever_has_words(plan: Plan, front_end: FrontEnd) -> None:
    without = {kind for kind in LeverKind if not word_settings((Setting(kind, VALUES.get(kind)),), front_end, plan)}
    assert without == set()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.kind.name)
def test_popart_takes_every_option_that_is_named(plan: Plan, setting: Setting) -> None:
    import popart

    line = word_settings((setting,), FrontEnd.POPART, plan)
    options = popart.SessionOptions()
    known = {name: repr(getattr(options, name)) for name in dir(options) if not name.startswith("_")}
    for part in re.split(r"; |, (?:with|on) ", line):
        if part.startswith("opts."):
            exec(part, {"opts": options, "popart": popart})
            assert part.split()[0].split(".")[1] in known
        for method in re.findall(r"builder\.(\w+)\(", part):
            assert hasattr(popart.Builder(), method)
        for method in re.findall(r"GraphTransformer\(model\)\.(\w+)", part):
            assert hasattr(popart.GraphTransformer, method)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.kind.name)
def test_paddle_knows_every_option_that_is_named(plan: Plan, setting: Setting) -> None:
    line = word_settings((setting,), FrontEnd.PADDLE, plan)
    table = (SOURCES / "openipu_paddle" / "option_table.py").read_text(encoding="utf-8")
    strategy = (SOURCES / "openipu_paddle" / "strategy.py").read_text(encoding="utf-8")
    for name in re.findall(r'"(\w+)": ', line):
        assert f'"{name}"' in table
    for method in re.findall(r"ipu_strategy\.(\w+)\(", line):
        assert f"def {method}(" in strategy
    for argument in re.findall(r"ipu_strategy[^;]*?[(,] ?(\w+)=", line):
        assert re.search(rf"\b{argument}: (?:bool|int)", strategy)


@pytest.mark.parametrize("front_end", [FrontEnd.TENSORFLOW, FrontEnd.KERAS])
def test_what_is_named_of_tensorflow_is_defined_there(plan: Plan, front_end: FrontEnd) -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCES / "openipu_tensorflow").rglob("*.py"))
    for setting in SETTINGS:
        line = word_settings((setting,), front_end, plan)
        for argument in set(re.findall(r"[(,] ?(\w+)=True", line)) - {"drop_remainder"}:  # of tf.data
            assert re.search(rf"\b{argument}: (?:bool|Any|typing)", sources), argument
        for method in re.findall(r"(?:model|pipelining_ops|math_ops|layers)\.(\w+)\(", line):
            assert re.search(rf"(?:def|class) {method}\b", sources), method
        for option in re.findall(r"config\.(\w+)", line):
            assert re.search(rf"self\.{option}\b|class .*{option}", sources, re.IGNORECASE), option


def test_settings_that_go_together_share_a_call(plan: Plan) -> None:
    both = (Setting(LeverKind.STATE_OFF_CHIP), Setting(LeverKind.MEMORY_PROPORTION, 0.3))
    assert word_settings(both, FrontEnd.PADDLE, plan) == (
        'ipu_strategy.set_options({"available_memory_proportion": 0.3, "location_optimizer": {"on_chip": 0}})'
    )
    assert word_settings(both, FrontEnd.KERAS, plan) == (
        'config.matmuls.poplar_options["availableMemoryProportion"] = "0.3"; '
        'config.convolutions.poplar_options["availableMemoryProportion"] = "0.3"; '
        "model.set_gradient_accumulation_options(offload_weight_update_variables=True)"
    )
