"""Configurations for well-known checkpoints, so that their names work without a network.

In: the id of a configuration or of a checkpoint. Out: the fields of its IPUConfig, or None.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_CATALOG = Path(__file__).with_name("catalog.toml")


def find_configuration(name: str) -> dict[str, Any] | None:
    """The fields for an id, as `Graphcore/bert-base-ipu` or `bert-base-uncased`."""
    return dict(found) if (found := _read_catalog().get(_normalise(name))) is not None else None


def list_configurations() -> list[str]:
    """The ids that are known, each of a configuration."""
    return [f"Graphcore/{name}" for name in tomllib.loads(_CATALOG.read_text(encoding="utf-8"))]


@cache
def _read_catalog() -> dict[str, dict[str, Any]]:
    catalog: dict[str, dict[str, Any]] = {}
    for name, entry in tomllib.loads(_CATALOG.read_text(encoding="utf-8")).items():
        fields = dict(entry)
        for checkpoint in [name, *fields.pop("checkpoints", [])]:
            catalog[_normalise(checkpoint)] = fields
    return catalog


def _normalise(name: str) -> str:
    return name.strip("/").rsplit("/", 1)[-1].lower()
