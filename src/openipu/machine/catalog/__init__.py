"""Reads chips and systems: the built-in catalog beside this file, and users' own TOML files.

In: a name of the catalog, a path of a TOML file, a `System`, or nothing (`OPENIPU_SYSTEM`, then the default).
Out: a frozen `System`.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from openipu.errors import TargetError, suggest
from openipu.files.documents import read_toml
from openipu.files.origin import Origin, shorten
from openipu.files.values import Text, convert
from openipu.machine.bounds import build_machine
from openipu.machine.target import Provenance, Source, System, Target

CATALOG = "the catalog"
DEFAULT_SYSTEM = "bow-2000"
SYSTEM_VARIABLE = "OPENIPU_SYSTEM"
_LONGEST_NAME = 100

_FIGURE = (
    "A figure is a plain value, or { value = …, provenance = …, source = '…' } with the provenance "
    "'published', 'derived', 'guessed' or 'user'."
)


class _Figure(msgspec.Struct, frozen=True):
    value: int | float | str
    provenance: Provenance
    source: Text


_Tables = Mapping[str, Mapping[str, Any]]


def resolve_system(choice: str | os.PathLike[str] | System | None = None) -> System:
    """The system a user means: an object, a catalog name, a TOML file, or the default."""
    if isinstance(choice, System):
        return choice
    origin = ""
    if choice is None:
        choice = os.environ.get(SYSTEM_VARIABLE) or DEFAULT_SYSTEM
        origin = f", given by the environment variable {SYSTEM_VARIABLE}"
    name = os.fspath(choice)
    if name.endswith(".toml"):
        return load_system_file(Path(name))
    systems = list_systems()
    if name.lower() not in systems:
        raise TargetError(
            f"Unknown system {shorten(name)}{origin}.{suggest(name, systems)} "
            f"Known systems: {', '.join(systems)}. "
            "Choose one of them, or give the path of a TOML file that describes your own."
        )
    return systems[name.lower()]


@cache
def list_targets() -> Mapping[str, Target]:
    """Every chip of the catalog by name."""
    tables = _read_catalog("targets.toml")
    return {name: _build_target(name, tables, {}, CATALOG) for name in tables}


@cache
def list_systems() -> Mapping[str, System]:
    """Every system of the catalog by name."""
    tables = _read_catalog("systems.toml")
    return {name: _build_system(name, tables, list_targets(), CATALOG) for name in tables}


def load_system_file(path: Path) -> System:
    """A user's own machine: a TOML file with a `[system]` table and, if the chip is new, a `[target]` table.

    Both may name a `base` of the catalog and change only what differs.
    """
    origin = Origin(f"The system file {path}", TargetError, "Correct the file at that place, or check the path.")
    document = read_toml(path, dict[str, dict[str, Any]], origin)
    unknown = sorted(set(document) - {"system", "target"})
    if unknown or "system" not in document:
        found = f"found {', '.join(shorten(key) for key in unknown[:10])}" if unknown else "there is no [system] table"
        raise TargetError(f"{path}: {found}. A system file has a [system] table and may have a [target] table.")
    targets = dict(list_targets())
    system = dict(document["system"])
    name = str(system.pop("name", path.stem))[:_LONGEST_NAME]
    if "target" in document:
        own = dict(document["target"])
        own_name = str(own.pop("name", f"{name}-ipu"))[:_LONGEST_NAME]
        targets[own_name] = _build_target(
            own_name, {**_read_catalog("targets.toml"), own_name: own}, targets, str(path)
        )
        system.setdefault("target", own_name)
    return _build_system(name, {**_read_catalog("systems.toml"), name: system}, targets, str(path))


def _read_catalog(file: str) -> _Tables:
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _flatten_base(name: str, tables: _Tables, where: str) -> dict[str, Any]:
    chain: list[str] = []
    merged: dict[str, Any] = {}
    current: str | None = name
    while current is not None:
        if current in chain or not isinstance(current, str) or current not in tables:
            what = (
                "refers to itself"
                if isinstance(current, str) and current in chain
                else f"names the unknown base {shorten(current)}"
            )
            raise TargetError(f"{where}: [{name}] {what}. Known entries: {', '.join(tables)}.")
        chain.append(current)
        table = dict(tables[current])
        current = table.pop("base", None)
        merged = {**table, **merged}
    return merged


def _split_figures(name: str, tables: _Tables, where: str) -> tuple[dict[str, Any], dict[str, Source]]:
    """Values, and the source of each. A bare value is the user's own in a user's file, structure in the catalog."""
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for key, entry in _flatten_base(name, tables, where).items():
        if isinstance(entry, Mapping):
            figure = convert(entry, _Figure, Origin(f"{where}: [{name}] {key[:100]}", TargetError, _FIGURE))
            values[key] = figure.value
            sources[key] = Source(figure.provenance, figure.source)
        else:
            values[key] = entry
            if where != CATALOG and key in tables[name]:
                sources[key] = Source(Provenance.USER, where)
    return values, sources


def _check_fields(kind: type[Target] | type[System], name: str, values: Mapping[str, Any], where: str) -> None:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    required = {
        key
        for key, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    unknown = sorted(set(values) - set(fields))
    missing = sorted(required - set(values) - {"name"})
    if unknown or missing:
        listed = ", ".join(shorten(key).strip("'") for key in unknown[:10])
        parts = [f"unknown {listed}"] * bool(unknown) + [f"missing {', '.join(missing)}"] * bool(missing)
        raise TargetError(
            f"{where}: [{name}] has {' and '.join(parts)}. "
            f"Fields of a {kind.__name__.lower()}: {', '.join(sorted(set(fields) - {'name', 'sources'}))}; "
            "or name a base of the catalog and give only what differs."
        )


def _build_target(name: str, tables: _Tables, known: Mapping[str, Target], where: str) -> Target:
    values, sources = _split_figures(name, tables, where)
    _check_fields(Target, name, values, where)
    target = build_machine(Target, {**values, "name": name}, sources, _speak_of(name, where))
    kept = target.tile_reserved_bytes + target.tile_gap_bytes
    if target.tile_memory_bytes <= kept:
        raise TargetError(
            f"{where}: [{name}] tile_memory_bytes ({target.tile_memory_bytes}) must be more than "
            f"tile_reserved_bytes and tile_gap_bytes together ({kept}), or nothing is left for programs."
        )
    if target.vector_bytes not in (4, 8, 16, 32, 64):
        raise TargetError(f"{where}: [{name}] vector_bytes = {target.vector_bytes} must be 4, 8, 16, 32 or 64.")
    return target


def _build_system(name: str, tables: _Tables, targets: Mapping[str, Target], where: str) -> System:
    values, sources = _split_figures(name, tables, where)
    _check_fields(System, name, values, where)
    chip = values.pop("target")
    if not isinstance(chip, str) or chip not in targets:
        raise TargetError(f"{where}: [{name}] names the unknown target {shorten(chip)}. Known: {', '.join(targets)}.")
    return build_machine(System, {**values, "name": name, "target": targets[chip]}, sources, _speak_of(name, where))


def _speak_of(name: str, where: str) -> Origin:
    return Origin(f"{where}: [{name}]", TargetError, "Give the figure in the unit that its name says.")
