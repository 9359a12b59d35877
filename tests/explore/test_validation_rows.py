"""Files of figures: what is read, and what is refused with the line and column that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from openipu.errors import FiguresError, TargetError
from openipu.explore.validation import find_system, read_rows
from openipu.explore.validation.rows import FigureRow

HEADER = "id,kind,system,ipus,workload,params,metric,value,unit,source,sdk\n"
GOOD = (
    'T-001,micro,Bow IPU 1.85GHz,1,"dense matmul m=k (poplin)","{""m"":64,""k"":64,""n"":4}",throughput,6.1,TFLOPS,,\n'
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "figures.csv"
    path.write_text(text, encoding="utf-8")
    return path


def make_row(system: str, ipus: int = 1) -> FigureRow:
    return FigureRow("T-001", "micro", system, ipus, "anything", {}, "latency", "us")


def test_a_row_is_read_with_its_parameters_and_its_value(tmp_path):
    (row,) = read_rows(write(tmp_path, HEADER + GOOD))
    assert (row.group, row.kind, row.ipus, row.value, row.unit) == ("T", "micro", 1, 6.1, "TFLOPS")
    assert row.params == {"m": 64, "k": 64, "n": 4}


def test_a_workload_without_an_answer_needs_no_value_column(tmp_path):
    (row,) = read_rows(write(tmp_path, "id,kind,system,ipus,workload,params,metric,unit\nT-1,micro,c2,1,w,{},m,us\n"))
    assert row.value is None


def test_a_line_break_inside_quotes_belongs_to_the_field(tmp_path):
    (row,) = read_rows(write(tmp_path, HEADER + 'T-1,micro,c2,1,"two\nlines",{},m,1,us,,\n'))
    assert row.workload == "two\nlines"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,kind,system,ipus,workload,params,value\n", r"no column metric, unit"),
        ("", r"no column id"),
        (HEADER, r"a header and no rows"),
        (HEADER + GOOD + GOOD, r"the id T-001 occurs twice"),
        (HEADER + GOOD.replace("6.1", "fast"), r"line 2: value must be a number or empty, not 'fast'"),
        (HEADER + GOOD.replace("6.1", "-6.1"), r"line 2: value must be a number that is not negative"),
        (HEADER + GOOD.replace("6.1", "nan"), r"line 2: value must be a number that is not negative"),
        (HEADER + GOOD.replace(",1,", ",one,"), r"line 2: ipus must be a whole number, not 'one'"),
        (HEADER + GOOD.replace(",1,", ",0,"), r"line 2: ipus must be at least 1"),
        (HEADER + GOOD.replace("micro", "macro"), r"line 2: kind must be micro or e2e, not 'macro'"),
        (HEADER + 'T-1,micro,c2,1,w,"{""m"":",m,1,us,,\n', r"line 2: params is not JSON"),
        (HEADER + 'T-1,micro,c2,1,w,"[1]",m,1,us,,\n', r"line 2: params holds what it should not: Expected `object`"),
        (HEADER + "T-1,micro,c2,1,w\n", r"line 2: the row has more or fewer fields"),
        (HEADER + "T-1,micro,c2,1,w,{},m,1,us,,,,,\n", r"line 2: the row has more or fewer fields"),
        (HEADER + ",micro,c2,1,w,{},m,1,us,,\n", r"line 2: the id is empty"),
        (HEADER + 'T-1,micro,c2,1,"w,{},m,1,us,,\n', r"Correct the quotes"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(FiguresError, match=message):
        read_rows(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FiguresError, match=r"The file of figures .*nowhere\.csv cannot be read"):
        read_rows(tmp_path / "nowhere.csv")


def test_a_file_of_other_bytes_is_refused(tmp_path):
    path = tmp_path / "figures.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FiguresError, match="not UTF-8"):
        read_rows(path)


@pytest.mark.parametrize(
    ("text", "ipus", "name"),
    [
        ("C2 Mk1 GC2 1.6GHz", 2, "c2"),
        ("C2 Mk1 GC2 1.6GHz", 16, "c2-8"),
        ("Bow IPU 1.85GHz", 1, "bow-pod4"),
        ("Bow Pod64", 64, "bow-pod64"),
        ("Bow-2000", 4, "bow-2000"),
        ("IPU-POD128", 128, "pod128"),
        ("M2000 (1 IPU)", 1, "pod4"),
        ("C600 (IPU21)", 1, "c600"),
        ("IPU hardware (as documented in tutorial)", 1, "pod4"),
        ("bow-pod16", 16, "bow-pod16"),
    ],
)
def test_a_system_is_found_as_its_source_writes_it(text, ipus, name):
    assert find_system(make_row(text, ipus)).name == name


@pytest.mark.parametrize(("text", "ipus"), [("H100 SXM", 8), ("", 1), ("Bow Pod1024", 1024)])
def test_an_unknown_system_is_a_target_error_that_names_the_row(text, ipus):
    with pytest.raises(TargetError, match=r"Row T-001"):
        find_system(make_row(text, ipus))


def test_units_are_factors_of_si():
    us = make_row("c2")
    assert us.from_si(2e-6) == pytest.approx(2.0)
    assert FigureRow("T-1", "micro", "c2", 1, "w", {}, "m", "us/hop").from_si(3e-6) == pytest.approx(3.0)
    assert FigureRow("T-1", "micro", "c2", 1, "w", {}, "m", "samples/s").from_si(5.0) == 5.0


def test_a_parameter_of_the_wrong_kind_is_named():
    row = FigureRow("T-9", "micro", "c2", 1, "w", {"n": "many", "m": 2.5, "k": True}, "m", "us")
    for name in ("n", "m", "k", "absent"):
        with pytest.raises(FiguresError, match=rf"Row T-9: the parameter '{name}'"):
            row.read_size(name)
