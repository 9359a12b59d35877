"""The one door: a captured program is placed, checked, reserved and planned, in this order, and never changed."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from openipu import session
from openipu.capture import capture_program
from openipu.errors import OptionError
from openipu.graph import NOTE, RunOptions, note_of
from openipu.graph.copying import copy_program
from openipu.graph.fingerprint import fingerprint_placement, fingerprint_program
from openipu.machine import resolve_system
from openipu.overrides import Overrides, set_overrides
from openipu.plan import PASSES


@pytest.fixture
def program():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    return capture_program(model, (torch.zeros(2, 4),), {}, training=False, optimizer=None, name="net")


def move_to_last_ipu(program, options):
    placed = copy_program(program)
    for node in placed.micro.module.graph.nodes:
        node.meta[NOTE] = dataclasses.replace(note_of(node), ipu=1)
    return placed, options


def move_half_to_another_ipu(program, options):
    placed = copy_program(program)
    nodes = list(placed.micro.module.graph.nodes)
    for node in nodes[len(nodes) // 2 :]:
        node.meta[NOTE] = dataclasses.replace(note_of(node), ipu=1)
    return placed, options


def test_a_captured_program_runs_as_the_model_that_it_was_captured_from():
    model = torch.nn.Linear(4, 3)
    inputs = torch.randn(2, 4)
    captured = capture_program(model, (inputs,), {}, training=False, optimizer=None, name="net")
    compiled = session.compile_program(captured, options=RunOptions(), show_progress=False)
    compiled.executable.load_weights(dict(model.named_parameters()), {})
    (found,) = compiled.executable.run([inputs]).outputs
    torch.testing.assert_close(found, model(inputs).detach())


def test_steps_of_a_front_end_come_in_order_and_see_what_was_placed(program):
    seen = []

    def place(given, options):
        seen.append("place")
        return move_to_last_ipu(given, options)

    def check(given, options):
        seen.append(("check", {note_of(node).ipu for node in given.micro.module.graph.nodes}))

    def reserve(given):
        seen.append(("reserve", {note_of(node).ipu for node in given.micro.module.graph.nodes}))

    front_end = session.FrontEnd(place=place, check=check, reserve=reserve)
    placed, plan = session.plan_captured(program, options=RunOptions(), front_end=front_end)
    assert seen == ["place", ("check", {1}), ("reserve", {1})]
    assert plan.ipus == 2
    assert fingerprint_program(placed) == fingerprint_program(program)
    assert fingerprint_placement(placed) != fingerprint_placement(program)
    assert {note_of(node).ipu for node in program.micro.module.graph.nodes} == {0}, "the program was changed"


def test_what_a_check_refuses_is_neither_reserved_nor_planned(program):
    def refuse(given, options):
        raise OptionError("no")

    def reserve(given):
        raise AssertionError("it was reserved")

    with pytest.raises(OptionError, match="no"):
        session.plan_captured(program, options=RunOptions(), front_end=session.FrontEnd(check=refuse, reserve=reserve))


def test_the_command_line_overrides_the_default_system_and_an_explicit_one_overrides_both(program):
    before = set_overrides(Overrides(system=resolve_system("c600")))
    try:
        assert session.plan_captured(program, options=RunOptions())[1].system.name == "c600"
        chosen = session.plan_captured(program, options=RunOptions(), system="bow-pod16")[1]
        assert chosen.system.name == "bow-pod16"
    finally:
        set_overrides(before)


def test_every_step_of_a_compilation_is_shown_and_the_last_is_100_percent(program, capsys):
    on_two_ipus = session.FrontEnd(place=move_half_to_another_ipu)
    told = []
    session.compile_program(program, options=RunOptions(), show_progress=told.append, front_end=on_two_ipus)
    assert told == sorted(told)
    assert len(set(told)) == len(PASSES) + 1
    assert told[-1] == 100
    session.compile_program(program, options=RunOptions(), front_end=on_two_ipus)
    shown = {int(percent) for percent in re.findall(r"(\d+)%", capsys.readouterr().err)}
    assert set(told) <= shown, "a bar that leaves steps out seems stuck"
