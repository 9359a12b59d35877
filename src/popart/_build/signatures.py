"""Which methods `builder.aiOnnxOpset6` to `11` have, and how they are called: read from ONNX's own schemas.

In: a version of the operator set. Out: an `OpMethod` for each op: its name, its Python signature, the attributes that
it writes. PopART's rules: the method is the op's name in small letters, `logical_` before words of C++; attributes that
must be given come first, then those with a default, by name; `auto_pad` is not offered; `num_outputs` is asked for
where the number of outputs is not fixed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx.defs

OPSETS = (6, 7, 8, 9, 10, 11)
DEFAULT_OPSET = 10
_RESERVED = frozenset({"and", "or", "not", "xor", "if"})
_MANY = 2147483647
_LISTS = frozenset({"INTS", "FLOATS", "STRINGS"})
_NAMES: dict[str, type] = {"INT": int, "INTS": list, "FLOAT": float, "FLOATS": list, "STRING": str, "STRINGS": list}
# Attributes that the builder's methods take in another form, or not at all.
_OWN_FORM: dict[str, tuple[str, ...]] = {"Constant": ("value",), "ConstantOfShape": ("value",)}


@dataclass(frozen=True, slots=True)
class OpMethod:
    """One method of an opset."""

    name: str
    op: str
    domain: str
    version: int  # of the op
    attributes: Mapping[str, str]  # name -> kind, as ONNX calls it
    least_inputs: int
    most_inputs: int | None
    has_args: bool
    outputs: int | None  # None: asked for by num_outputs
    most_outputs: int | None
    several: bool  # a list comes back, even where it has one element
    signature: inspect.Signature
    doc: str


@cache
def list_methods(opset: int) -> Mapping[str, OpMethod]:
    """The methods of an operator set by name."""
    newest: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known = newest.get(schema.name)
        if schema.domain == "" and schema.since_version <= opset:
            if known is None or known.since_version < schema.since_version:
                newest[schema.name] = schema
    return {method.name: method for method in map(_describe, newest.values())}


def name_method(op: str) -> str:
    """What PopART calls the method of an op."""
    small = op.lower()
    return f"logical_{small}" if small in _RESERVED else small


def _describe(schema: Any) -> OpMethod:
    attributes = {
        name: attribute
        for name, attribute in schema.attributes.items()
        if name != "auto_pad" and name in _OWN_FORM.get(schema.name, (name,))
    }
    kinds = {name: attribute.type.name for name, attribute in attributes.items()}
    fixed = schema.min_output == schema.max_output
    several = not (fixed and schema.max_output == 1)
    has_args = schema.max_input > 0
    parameters = [_parameter("args")] if has_args else []
    if not fixed:
        parameters.append(_parameter("num_outputs", kind=int))
    required = sorted(name for name, attribute in attributes.items() if attribute.required)
    optional = sorted(set(attributes) - set(required))
    own = _OWN_FORM.get(schema.name, ())
    parameters += [_parameter(name, kind=_NAMES.get(kinds[name])) for name in [*required, *optional] if name in own]
    parameters += [_parameter(name, kind=_NAMES.get(kinds[name])) for name in required if name not in own]
    if schema.name == "Constant" and schema.since_version >= 11:
        parameters.append(_parameter("is_value_sparse", False, bool))
    for name in optional:
        if name not in own:
            parameters.append(_parameter(name, _read_default(attributes[name], schema.name), _NAMES.get(kinds[name])))
    parameters.append(_parameter("debugContext", "", str))
    return OpMethod(
        name=name_method(schema.name),
        op=schema.name,
        domain="",
        version=schema.since_version,
        attributes=kinds,
        least_inputs=schema.min_input,
        most_inputs=None if schema.max_input == _MANY else schema.max_input,
        has_args=has_args,
        outputs=schema.max_output if fixed else None,
        most_outputs=None if schema.max_output == _MANY else schema.max_output,
        several=several,
        signature=inspect.Signature(parameters, return_annotation=list[str] if several else str),
        doc=f"Add {schema.name} of ONNX, version {schema.since_version}, and return its outputs' names.",
    )


def _parameter(name: str, default: Any = inspect.Parameter.empty, kind: type | None = list) -> inspect.Parameter:
    annotation = inspect.Parameter.empty if kind is None else kind
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _read_default(attribute: Any, op: str) -> Any:
    kind = attribute.type.name
    if kind in _LISTS:  # PopART tells no list from an empty one only for the axes of reductions
        return None if op.startswith("Reduce") and attribute.name == "axes" else []
    given = attribute.default_value
    if kind == "INT":
        return int(given.i) if given.type else None
    if kind == "FLOAT":
        return round(float(given.f), 5) if given.type else None
    if kind == "STRING":
        return given.s.decode() if given.type else ""
    return None
