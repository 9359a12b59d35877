"""What a front end says of its own names.

In: the name of a front end. Out: its `Coverage`: from its own module `_coverage`, where it has one, because it knows
options, and names that are accepted and do nothing; else from what can be found in it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openipu.cli.usage.uses import State

Verdict = tuple[bool, str, str]  # is an option, how openipu stands to it, a remark

_COVERAGE = "_coverage"


@dataclass(frozen=True)
class Coverage:
    """Which names there are, which classes to watch, and what calls return."""

    judge_name: Callable[[str], Verdict | None]
    recorded: Mapping[str, type] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)


def load_coverage(front_end: str) -> Coverage:
    """The coverage of one front end."""
    if not _has_coverage(front_end):
        return Coverage(lambda name: _look_up(front_end, name))
    own = importlib.import_module(f"{front_end}.{_COVERAGE}")
    return Coverage(own.judge_name, own.RECORDED, own.RESULTS)


def _has_coverage(front_end: str) -> bool:
    """Without importing the front end: that may need a framework that is not installed, or change one that is."""
    try:
        spec = importlib.util.find_spec(front_end)
    except ImportError:  # of the package around it
        return False
    places = [] if spec is None else spec.submodule_search_locations or []
    return any((Path(place) / f"{_COVERAGE}.py").exists() or (Path(place) / _COVERAGE).exists() for place in places)


def _look_up(front_end: str, name: str) -> Verdict:
    """Whether a dotted name leads anywhere. Members of what it returns are not followed."""
    place: object = importlib.import_module(front_end)
    path = front_end
    for part in name.split("."):
        path = f"{path}.{part}"
        if not hasattr(place, part):
            try:
                place = importlib.import_module(path)
            except ImportError:
                return False, State.LACKS, ""
            continue
        place = getattr(place, part)
    return False, State.HAS, ""
