"""JSON and TOML.

In: a text or a file, and the type that its content must have. Out: values of that type. Numbers are finite, nesting is
bounded, and what a type leaves open (`Any`) is plain.
"""

from __future__ import annotations

import json
import math
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from openipu.errors import OptionError
from openipu.files.origin import Origin
from openipu.files.plain import MIB, read_bytes, read_text

Value = TypeVar("Value")

LARGEST_JSON = 64 * MIB
LARGEST_TOML = MIB // 8
DEEPEST = 64
_LARGEST_WHOLE = 1 << 64  # seeds have so many bits
_MOST_DOTS = 200  # a key of many parts takes tomllib the square of its length


def parse_json(content: str | bytes, kind: type[Value], origin: Origin, largest: int = LARGEST_JSON) -> Value:
    """The value of a JSON text."""
    if len(content) > largest:
        raise origin.fail(f"has {len(content):,} bytes, and at most {largest:,} are read")
    try:
        value: Value = _make_decoder(cast("Any", kind)).decode(content)
    except msgspec.ValidationError as error:
        raise origin.fail(f"holds what it should not: {error}") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise origin.fail(f"is not JSON: {error}") from error
    except RecursionError:
        raise origin.fail("is nested too deeply") from None
    return check_plain(value, origin)


def parse_variable(name: str, text: str, example: str) -> dict[str, Any]:
    """The options of an environment variable, a JSON object."""
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    origin = Origin(name, OptionError, f"It is {shown}. Write it as '{example}', or unset it.")
    values = parse_json(text, Any, origin, MIB)
    if not isinstance(values, dict):
        raise origin.fail("must be a JSON object")
    return values


def read_json(path: Path, kind: type[Value], origin: Origin, largest: int = LARGEST_JSON) -> Value:
    """The value of a JSON file."""
    content = read_bytes(path, origin, largest)
    return parse_json(content.removeprefix(b"\xef\xbb\xbf"), kind, origin, largest)


def parse_toml(text: str, kind: type[Value], origin: Origin) -> Value:
    """The value of a TOML text."""
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise origin.fail(f"has a line with more than {_MOST_DOTS} dots")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise origin.fail("is nested too deeply") from None
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise origin.fail(f"is not valid TOML: {error}") from error
    check_plain(document, origin)
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise origin.fail(f"holds what it should not: {error}") from error


def read_toml(path: Path, kind: type[Value], origin: Origin) -> Value:
    """The value of a TOML file."""
    return parse_toml(read_text(path, origin, LARGEST_TOML), kind, origin)


def dump_json(value: Any) -> str:
    """A value as JSON that `parse_json` reads. What JSON does not know, such as a NaN, becomes a text."""
    try:
        return json.dumps(value, separators=(",", ":"), default=str, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(value, default=str), parse_constant=str)
        return json.dumps(plain, separators=(",", ":"))


def check_plain(value: Value, origin: Origin, deepest: int = DEEPEST) -> Value:
    """Refuse numbers that are not finite or too large, and values nested too deeply. Typed structs pass as they are."""
    level: list[Any] = [value]
    for _ in range(deepest):
        level = [inner for outer in level for inner in _open(outer, origin)]
        if not level:
            return value
    raise origin.fail(f"is nested more than {deepest} levels deep")


def _open(value: Any, origin: Origin) -> Any:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise origin.fail(f"holds {value}, which is not a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST_WHOLE:
        raise origin.fail("holds a number beyond 2^64")
    return ()


@lru_cache(maxsize=64)
def _make_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
