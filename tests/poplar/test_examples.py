"""The tutorials in Python print what the original ones are tested for."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "poplar"


@pytest.fixture
def run_example(monkeypatch, capfd):
    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        out, err = capfd.readouterr()
        return out + err

    return run


CASES = {
    "tut1_variables": ((), [r"0 1 1.5 2", r"v4-1: \[10 11 12 13 14 15 16 17 18 19\]", "Program complete"]),
    "tut2_operations": (
        (),
        [
            r"v3: \[\W+\[5.0000000 4.5000000\]\W+\[4.0000000 3.5000000]\W+\]",
            r"v4: \[\W+\[9.0000000 7.5000000\]\W+\[6.0000000 4.5000000]\W+\]",
            r"v5: \[\W+\[5.0000000 3.5000000\]\W+\[5.0000000 3.5000000]\W+\]",
        ],
    ),
    "tut3_vertices": ((), ["Program complete", r"v2: \[7.0000000 6.0000000 4.5000000 2.5000000\]"]),
    "tut5_regression": (("2",), ["Using the IPU Model", "Epoch", "100%"]),
    "tut6_matrix_vector": (("40", "50"), ["Multiplication result OK"]),
    "tut7_matrix_vector_opt": (
        ("200", "30", "ipu1"),
        ["Best split chosen", "Multiplication result OK", "Total cycles"],
    ),
    "prefetch": (
        (),
        [
            "prefetch",
            r"complete \(value: 9\)",
            r"Set input callback\nRunning\n(?:prefetch|fetch) \(value: 3\)[\s\S]*Result: \[4\.0, 4\.0",
            r"Result: \[10\.0(?:, 10\.0){7}\]\n$",
        ],
    ),
    "advanced_example": ((), ["Using IPU model", r"Results match\."]),
    "three_mappings": (
        (),
        [
            r"one tile +0 +0 +198,528 +198,528 .*would not fit",  # 384 / 6 workers x 6 x (5 + 512)
            r"neighbours +126 +3,072 +3,102 +6,300 ",  # 6 rows x 2,048 B / 4 B a cycle; 6 x 517
            r"at home +0 +0 +3,102 +3,102 ",
        ],
    ),
    "heat_equation": (("20",), [r"Largest difference from numpy: 0\.0"]),
    "game_of_life": (("10",), ["as numpy says"]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_example_prints_what_it_promises(run_example, name):
    arguments, expected = CASES[name]
    text = run_example(name, *arguments)
    for pattern in expected:
        assert re.search(pattern, text), pattern
    assert "NOT as numpy" not in text


def test_the_profiling_example_writes_a_profile_that_pva_reads(run_example, tmp_path):
    text = run_example("tut4_profiling", str(tmp_path))
    assert "Memory Usage:" in text
    assert "Number of tiles on target: 1472" in text
    assert (tmp_path / "profile.pop").exists()


def test_the_first_example_takes_an_ipu_of_the_pod(run_example):
    assert "Attached to IPU 0" in run_example("tut1_variables", "--pod")


def test_the_advanced_example_runs_from_a_file_and_on_an_ipu_of_the_pod(run_example, tmp_path):
    saved = str(tmp_path / "executable")
    assert "Results match." in run_example("advanced_example", "--save", saved)
    assert "Results match." in run_example("advanced_example", "--load", saved)
    assert re.search(r"Using IPU \d+ of the pod\nResults match\.", run_example("advanced_example", "--pod"))


def test_every_example_is_tried():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*CASES, "tut4_profiling"}
