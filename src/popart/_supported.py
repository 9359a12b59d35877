"""What is supported: ops of sessions, versions.

In: nothing but the table of translation rules. Out: operators by domain, name and version, and what cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.defs

from openipu import __version__ as own_version
from openipu.translate.onnx import TABLE
from popart._build.graphcore import METHODS
from popart._enumerations.devices import SyncPattern
from popart._exceptions import popart_exception
from popart.tensorinfo import TensorInfo

_INTERFACE = (3, 4, 0)
_NEWEST = 11


@dataclass(frozen=True, order=True)
class OperatorIdentifier:
    """An op of a version of a domain."""

    domain: str
    type: str
    version: int


@dataclass(frozen=True)
class OpParameter:
    """An input or an output."""

    name: str
    supportedTensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpAttribute:
    """An attribute. Values are checked by the rules, not by a pattern."""

    supportedValuesRegex: str = ".*"


@dataclass(frozen=True)
class OpDefinition:
    """What is known of an op: its inputs, outputs and attributes."""

    identifier: OperatorIdentifier
    inputs: tuple[OpParameter, ...] = ()
    outputs: tuple[OpParameter, ...] = ()
    attributes: Mapping[str, OpAttribute] = field(default_factory=dict)


def versionString() -> str:
    """The version of the interface, and of openipu."""
    return f"PopART version {'.'.join(map(str, _INTERFACE))} on openipu {own_version}"


def versionNumber() -> tuple[int, int, int]:
    """The version of the interface."""
    return _INTERFACE


def packageHash() -> str:
    """What tells builds apart: openipu's own version."""
    return own_version


def _list_schemas(newer: bool = False) -> list[Any]:
    return [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and (newer or schema.since_version <= _NEWEST)
    ]


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Every op that a builder writes and a session runs; with `includeInternal` also those of newer operator sets."""
    known = {name for domain, name in TABLE.list_ops() if domain == ""}
    found = {
        OperatorIdentifier("ai.onnx", schema.name, schema.since_version)
        for schema in _list_schemas(includeInternal)
        if schema.name in known
    }
    found |= {OperatorIdentifier(domain, name, 1) for domain, name in TABLE.list_ops() if domain == "ai.graphcore"}
    return sorted(found)


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Ops of an operator set of ONNX that no session runs."""
    known = {name for domain, name in TABLE.list_ops() if domain == ""}
    newest: dict[str, int] = {}
    for schema in _list_schemas():
        if schema.since_version <= opsetVersion:
            newest[schema.name] = max(newest.get(schema.name, 0), schema.since_version)
    return sorted(OperatorIdentifier("ai.onnx", name, version) for name, version in newest.items() if name not in known)


def getSupportedOperationsDefinition(includeInternal: bool) -> dict[OperatorIdentifier, OpDefinition]:
    """Every op that a session runs, with what is known of it."""
    schemas = {(schema.name, schema.since_version): schema for schema in _list_schemas(includeInternal)}
    return {
        entry: _define(entry, schemas.get((entry.type, entry.version)) if entry.domain == "ai.onnx" else None)
        for entry in getSupportedOperations(includeInternal)
    }


def _define(entry: OperatorIdentifier, schema: Any) -> OpDefinition:
    if schema is None:
        methods = [method for method in METHODS.values() if method.op == entry.type]
        return OpDefinition(entry, attributes={name: OpAttribute() for one in methods for name in one.attributes})
    return OpDefinition(
        entry,
        tuple(OpParameter(one.name, tuple(sorted(one.types))) for one in schema.inputs),
        tuple(OpParameter(one.name, tuple(sorted(one.types))) for one in schema.outputs),
        {name: OpAttribute() for name in schema.attributes},
    )


def getTensorInfo(array: Any) -> TensorInfo:
    """The format and shape of an array."""
    return TensorInfo(np.asarray(array))


def syncPatternFromString(pattern: str) -> SyncPattern:
    """`SyncPattern.Full` for "full"."""
    found = {entry.name.lower(): entry for entry in SyncPattern}
    if pattern.lower() not in found:
        raise popart_exception(f"Unknown sync pattern {pattern!r}. Known are {', '.join(found)}.")
    return found[pattern.lower()]


def syncPatternToString(pattern: SyncPattern) -> str:
    """The name of a pattern."""
    return pattern.name
