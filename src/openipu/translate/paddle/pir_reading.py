"""A program in Paddle's new form (PIR), as it lies in its JSON file: ops with numbered values.

In: the content of a `.json` file. Out: a list of `PirOp`. Nothing is translated yet; what is damaged is said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from openipu.errors import TranslationError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.translate.paddle.program import NUMBERS

NEWEST_VERSION = 4  # of the files that Paddle 3.3 writes
MOST_OPS = 1 << 20
_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist_op"}
_FORMATS = {
    "t_bool": torch.bool,
    "t_bf16": torch.bfloat16,
    "t_f16": torch.float16,
    "t_f32": torch.float32,
    "t_f64": torch.float64,
    "t_i8": torch.int8,
    "t_ui8": torch.uint8,
    "t_i16": torch.int16,
    "t_i32": torch.int32,
    "t_i64": torch.int64,
    "t_c64": torch.complex64,
    "t_c128": torch.complex128,
    "t_f8e4m3fn": torch.float8_e4m3fn,
    "t_f8e5m2": torch.float8_e5m2,
}
_SPELLED = {str(dtype).removeprefix("torch."): number for dtype, number in NUMBERS.items()}
_MANY = (list, tuple)


@dataclass(frozen=True, slots=True)
class PirValue:
    """A result of an op. A list of tensors has several formats and shapes."""

    number: int  # 0: there is none
    dtypes: tuple[torch.dtype | None, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    is_list: bool = False
    stop_gradient: bool = False
    persistable: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PirOp:
    """One op: dialect and name, numbers of what it reads, what it makes."""

    dialect: str
    name: str
    inputs: tuple[int, ...]
    results: tuple[PirValue, ...]
    attributes: Mapping[str, Any]
    has_body: bool = False


def read_pir_ops(content: bytes, file: str = "") -> tuple[PirOp, ...]:
    """The ops of a program's only block, in order."""
    what = file or "The program"
    origin = Origin(what, TranslationError, "Save it again with paddle.static.save_inference_model or paddle.jit.save.")
    document = parse_json(content, dict[str, Any], origin)
    head = document.get("base_code")
    if not isinstance(head, dict) or head.get("magic") != "pir":
        raise origin.fail("is not a program of Paddle: its JSON does not begin with the mark of one")
    version = head.get("version")
    if not isinstance(version, int) or version > NEWEST_VERSION:
        raise origin.fail(f"is of version {version!r}, and versions up to {NEWEST_VERSION} are read")
    try:
        (region,) = document["program"]["regions"]
        (block,) = region["blocks"]
        if len(block["ops"]) > MOST_OPS:
            raise origin.fail(f"has {len(block['ops']):,} ops, and at most {MOST_OPS:,} are read")
        return tuple(_read_op(entry) for entry in block["ops"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise origin.fail(f"is damaged: {type(error).__name__} {error}") from error


def _read_op(entry: Mapping[str, Any]) -> PirOp:
    spelled = str(entry["#"])
    if spelled == "p":  # a parameter has a short form of its own
        persistable, stop, _ = (bool(flag) for flag in entry["OA"])
        result = _read_result(entry["O"], stop=stop, persistable=persistable)
        return PirOp("builtin", "parameter", (), (result,), {"parameter_name": _read_text(entry["A"][3])})
    dialect, _, name = spelled.partition(".")
    flags = {attribute["N"]: _read_attribute(attribute["AT"]) for attribute in entry.get("OA", ())}
    stops, kept = flags.get("stop_gradient") or (), flags.get("persistable") or ()
    results = tuple(
        _read_result(
            result,
            stop=place < len(stops) and bool(stops[place]),
            persistable=place < len(kept) and bool(kept[place]),
        )
        for place, result in enumerate(entry["O"])
    )
    attributes = {_read_text(attribute["N"]): _read_attribute(attribute["AT"]) for attribute in entry["A"]}
    inputs = tuple(_read_number(operand["%"]) for operand in entry["I"])
    return PirOp(_DIALECTS.get(dialect, dialect), name, inputs, results, attributes, bool(entry.get("regions")))


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a name")
    return value


def _read_number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a number of a value")
    return value


def _read_result(entry: Mapping[str, Any], *, stop: bool, persistable: bool) -> PirValue:
    kind = entry["TT"]
    if kind["#"] == "NULL":
        return PirValue(0)
    number = _read_number(entry["%"])
    is_list = str(kind["#"]).endswith("t_vec")
    types = [_read_type(part) for part in (kind["D"] if is_list else [kind])]
    dtypes, shapes = tuple(dtype for dtype, _ in types), tuple(shape for _, shape in types)
    return PirValue(number, dtypes, shapes, is_list, stop, persistable)


def _read_type(kind: Mapping[str, Any]) -> tuple[torch.dtype | None, tuple[int, ...]]:
    if not str(kind["#"]).endswith("t_dtensor"):
        return None, ()  # an array of tensors, or rows: nothing that an op of the table reads
    inner, sizes = kind["D"][0], kind["D"][1]
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in sizes)
    return _FORMATS.get(str(inner["#"]).partition(".")[2]), shape


def _read_attribute(entry: Mapping[str, Any]) -> Any:
    """The plain value of an attribute; formats as the numbers that the legacy form has for them."""
    kind, data = str(entry["#"]).partition(".")[2], entry.get("D")
    if kind == "a_array":
        return [_read_attribute(part) for part in _need_list(data)]
    if kind == "a_intarray":
        return [int(number) for number in _need_list(data)]
    if kind == "a_dtype":
        return _SPELLED.get(str(data), -1)
    if kind == "a_scalar":
        return data[-1] if isinstance(data, list) and data else data
    if kind in ("a_f32", "a_f64") and isinstance(entry.get("VD"), str):  # infinities have no number in JSON
        return float(entry["VD"])
    return data


def _need_list(data: Any) -> list[Any]:
    if not isinstance(data, _MANY):
        raise ValueError(f"{data!r} is not a list")
    return list(data)
