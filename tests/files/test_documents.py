"""JSON and TOML are of their types, finite and flat enough, or are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openipu.errors import OptionError
from openipu.files.documents import dump_json, parse_json, parse_toml, read_json
from openipu.files.origin import Origin

ORIGIN = Origin("The list", OptionError, "Write it again.")


class Named(msgspec.Struct):
    name: str
    size: int = 0


def test_a_document_has_the_type_that_was_asked_for() -> None:
    assert parse_json('{"name": "a", "size": 3}', Named, ORIGIN) == Named("a", 3)
    assert parse_toml('name = "a"\nsize = 3\n', Named, ORIGIN) == Named("a", 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name": 3}', "holds what it should not: Expected `str`, got `int`"),
        ('{"name": "a", "size": true}', "Expected `int`, got `bool`"),
        ("{}", "missing required field `name`"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_json_of_another_type_is_refused(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=f"The list .*{problem}.* Write it again"):
        parse_json(text, Named, ORIGIN)


@pytest.mark.parametrize("text", ["NaN", "[1, Infinity]", "1e999", "[" * 100_000, '{"a":' * 5000, "[" * 65 + "]" * 65])
def test_json_that_nobody_could_compute_with_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"The list .* Write it again"):
        parse_json(text, Any, ORIGIN)


@pytest.mark.parametrize("digits", [21, 400, 5000])
def test_a_whole_number_of_many_digits_is_refused(digits: int) -> None:
    with pytest.raises(OptionError, match=r"number beyond|out of range"):
        parse_json(f"[{'9' * digits}]", Any, ORIGIN)


@pytest.mark.parametrize(
    "text", ["a = nan", "a = [inf]", "a = " + "[" * 9000, "a = " + "9" * 5000, "a." * 500 + "b = 1"]
)
def test_toml_that_nobody_could_compute_with_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"The list .* Write it again"):
        parse_toml(text, dict[str, Any], ORIGIN)


def test_a_large_document_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[" + "1," * 5000 + "1]")
    assert len(read_json(path, list[int], ORIGIN)) == 5001
    with pytest.raises(OptionError, match="at most 1,000 are read"):
        read_json(path, list[int], ORIGIN, largest=1000)


def test_what_is_written_can_be_read_whatever_it_holds() -> None:
    text = dump_json({"a": math.nan, "b": [-math.inf, Path("x")], "c": 1.5})
    assert parse_json(text, Any, ORIGIN) == {"a": "NaN", "b": ["-Infinity", "x"], "c": 1.5}
