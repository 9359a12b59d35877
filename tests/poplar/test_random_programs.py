"""The batched engine against the plain interpreter, on random programs.

A few in every run; `OPENIPU_RANDOM_PROGRAMS=2000 pytest tests/poplar/test_random_programs.py` tries more.
"""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_interpreter import PlainInterpreter
from random_graphs import Builder

import poplar
from poplar.program import Sequence

PROGRAMS = int(os.environ.get("OPENIPU_RANDOM_PROGRAMS", "40"))
RUNS = 2


def compare(choices, *, races: bool) -> None:
    def pick(low: int, high: int) -> int:
        return choices.draw(st.integers(low, high))

    builder = Builder(pick, races=races)
    program = Sequence(*(builder.program(2) for _ in range(pick(1, 4))))
    engine = poplar.Engine(builder.graph, program, {} if not races else {"debug.checkRaces": "false"})
    compiled = engine._program
    engine.load(builder.device)
    plain = PlainInterpreter(compiled)
    generator = np.random.default_rng(pick(0, 100))
    for variable in compiled.variables:
        if variable.value is None:
            values = generator.integers(-8, 8, variable.elements).astype(variable.type.dtype)
            space = engine._loaded.memories[0].space(variable.type)
            space[variable.start : variable.start + variable.elements] = values
            for place, value in enumerate(values):
                plain.memory[variable.type.bytes, variable.start + place] = value
    seen: dict[int, list] = {}
    for number, stream in enumerate(compiled.streams):
        if stream.kind.value == "host to device":
            buffer = generator.integers(-8, 8, 2 * stream.elements).astype(stream.type.dtype)
            engine.connectStream(stream.handle, buffer)
            plain.fed[number] = list(buffer)
        else:
            seen[number] = []
            engine.connectStream(stream.handle, lambda values, number=number: seen[number].append(values.tolist()))
    with np.errstate(all="ignore"):
        for _ in range(RUNS):
            engine.run()
            plain.run(compiled.programs[0])
    for variable in compiled.variables:
        found = engine._loaded.memories[0].space(variable.type)[variable.start : variable.start + variable.elements]
        expected = [plain.memory[variable.type.bytes, variable.start + place] for place in range(variable.elements)]
        np.testing.assert_array_equal(found, np.array(expected, variable.type.dtype), err_msg=variable.name)
    for number, rows in seen.items():
        np.testing.assert_array_equal(np.array(rows), np.array(plain.drained[number]))


@settings(max_examples=PROGRAMS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_batches_do_what_one_vertex_after_the_other_does(choices):
    compare(choices, races=False)


@settings(max_examples=max(10, PROGRAMS // 2), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_with_checks_off_all_read_before_any_writes_and_the_last_writer_wins(choices):
    compare(choices, races=True)
