"""Finds families: every module below `families/` that has a `FAMILY`.

In: a name. Out: a `Family`, or an `OptionError` that says which names are near.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from openipu.errors import OptionError, suggest
from openipu_garden import families
from openipu_garden.family import Area, Family


@cache
def list_families() -> tuple[Family, ...]:
    """All of them, by area and name."""
    found = [
        family
        for info in pkgutil.walk_packages(families.__path__, f"{families.__name__}.")
        for family in getattr(importlib.import_module(info.name), "FAMILIES", ())
    ]
    order = list(Area)
    return tuple(sorted(found, key=lambda family: (order.index(family.area), family.name)))


def find_family(name: str) -> Family:
    """The family of a name, in capitals or not."""
    known = {family.name: family for family in list_families()}
    wanted = name.strip().lower()
    if wanted not in known:
        raise OptionError(
            f"The garden has no {name!r}.{_suggest(wanted, known)} `openipu garden list` names all {len(known)}."
        )
    return known[wanted]


def _suggest(wanted: str, known: dict[str, Family]) -> str:
    """Names that contain what was typed, or are contained in it; else the nearest one."""
    bare = wanted.replace("-", "").replace(" ", "").replace("_", "")
    inside = [name for name in known if bare and (bare in name.replace("-", "") or name.replace("-", "") in bare)]
    return f" Did you mean {' or '.join(map(repr, inside[:4]))}?" if inside else suggest(wanted, known)
