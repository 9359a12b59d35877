"""What a front end says of its own names.

In: the name of a front end. Out: its `Coverage`: from its own module `_coverage`, where it has one, because it knows
options, and names that are accepted and do nothing; else from what can be found in it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

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
    """The coverage of one front end. Its module judges all names, or options alone, as members of its `OWNERS`."""
    if not _has_coverage(front_end):
        return Coverage(functools.partial(_look_up, front_end))
    own = importlib.import_module(f"{front_end}.{_COVERAGE}")
    if hasattr(own, "OWNERS"):
        return Coverage(functools.partial(_judge_or_look_up, front_end, own), own.RECORDED, own.RESULTS)
    return Coverage(own.judge_name, own.RECORDED, own.RESULTS)


def _has_coverage(front_end: str) -> bool:
    """Without importing the front end: that may need a framework that is not installed, or change one that is."""
    package, _, below = front_end.partition(".")
    if below and package not in sys.modules:  # to look below a package imports it, which the script did not
        return False
    try:
        spec = importlib.util.find_spec(front_end)
    except ImportError:  # of the package around it
        return False
    places = [] if spec is None else spec.submodule_search_locations or []
    if spec is not None and spec.submodule_search_locations is not None and spec.origin:  # of a module by another name
        places = [*places, str(Path(spec.origin).parent)]
    return any((Path(place) / f"{_COVERAGE}.py").exists() or (Path(place) / _COVERAGE).exists() for place in places)


def _judge_or_look_up(front_end: str, own: ModuleType, name: str) -> Verdict | None:
    if any(name.startswith(f"{owner}.") for owner in own.OWNERS):
        verdict: Verdict | None = own.judge_option(name)
        return verdict
    return _look_up(front_end, name)


def _look_up(front_end: str, name: str) -> Verdict:
    """Whether a dotted name leads anywhere. Members of what it returns are not followed."""
    try:
        place: object = importlib.import_module(front_end)
    except ImportError as error:
        return False, State.LACKS, f"{error.name} is not installed" if error.name else str(error)
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
