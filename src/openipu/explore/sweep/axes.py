"""What a sweep varies.

In: words such as "batch=1,2,4", "ipus=1..256", "target.clock_hz=1.3e9,1.85e9". Out: axes, and the points of their
product. A point says what to change of a job and of a machine; nothing is planned here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from openipu.errors import OptionError
from openipu.graph import RunOptions
from openipu.machine import System, Target, list_systems, resolve_system

Value = int | float | bool | str

SHORT_NAMES = {  # word -> field of RunOptions
    "accumulation": "gradient_accumulation",
    "iterations": "device_iterations",
    "replicas": "replicas",
    "proportion": "available_memory_proportion",
}
_SPECIAL = ("system", "ipus", "batch")
_NUMBERS = (int, float, bool)


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that varies, and its values."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of each axis."""

    values: tuple[tuple[str, Value], ...]

    @property
    def micro_batch(self) -> int | None:
        return next((int(value) for name, value in self.values if name == "batch"), None)

    @property
    def ipus(self) -> int | None:
        return next((int(value) for name, value in self.values if name == "ipus"), None)

    def describe(self) -> str:
        return ", ".join(f"{name} {_format(value)}" for name, value in self.values)

    def choose_system(self, base: System) -> System:
        """The machine of this point: another system, more IPUs, other figures."""
        chosen = base
        for name, value in self.values:
            if name == "system":
                chosen = resolve_system(str(value))
        if self.ipus is not None:
            chosen = _grow(chosen, self.ipus)
        figures = {name: value for name, value in self.values if name.startswith(("target.", "system."))}
        own = {name.partition(".")[2]: value for name, value in figures.items() if name.startswith("target.")}
        if own:
            chosen = dataclasses.replace(chosen, target=dataclasses.replace(chosen.target, **own))  # type: ignore[arg-type]
        own = {name.partition(".")[2]: value for name, value in figures.items() if name.startswith("system.")}
        return dataclasses.replace(chosen, **own) if own else chosen  # type: ignore[arg-type]

    def change_options(self, options: RunOptions, program_ipus: int) -> RunOptions:
        """The run options of this point. More IPUs than one copy of the program needs hold further copies."""
        changes: dict[str, Value] = {}
        for name, value in self.values:
            field = SHORT_NAMES.get(name, name.removeprefix("options."))
            if name in SHORT_NAMES or name.startswith("options."):
                changes[field] = value
        if self.ipus is not None and "replicas" not in changes:
            if self.ipus < program_ipus:
                raise OptionError(f"The program spans {program_ipus} IPUs; {self.ipus} are too few.")
            changes["replicas"] = self.ipus // program_ipus
        if "available_memory_proportion" in changes:
            options = dataclasses.replace(options, memory_proportions=())
        return dataclasses.replace(options, **changes)  # type: ignore[arg-type]


def parse_axis(words: str) -> Axis:
    """ "batch=1,2,4" or "ipus=1..256" (doubled from the first to the last)."""
    name, equals, listed = words.partition("=")
    name = name.strip()
    if not equals or not listed.strip():
        raise OptionError(f"{words!r} is not an axis. Write NAME=VALUE,VALUE,… such as batch=1,2,4 or ipus=1..256.")
    _check_name(name)
    values: list[Value] = []
    for part in listed.split(","):
        if ".." in part:
            values.extend(_double(part, words))
        else:
            values.append(_read_value(part.strip(), name))
    return Axis(name, tuple(values))


def list_points(axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Every combination, the first axis slowest."""
    names = [axis.name for axis in axes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(f"The axis {', '.join(twice)} is given twice. Put all of its values into one.")
    return tuple(Point(tuple(zip(names, chosen, strict=True))) for chosen in product(*(axis.values for axis in axes)))


def _check_name(name: str) -> None:
    fields = {
        **{f"target.{entry.name}": entry.name for entry in dataclasses.fields(Target)},
        **{f"system.{entry.name}": entry.name for entry in dataclasses.fields(System)},
        **{f"options.{entry.name}": entry.name for entry in dataclasses.fields(RunOptions)},
    }
    if name in _SPECIAL or name in SHORT_NAMES or name in fields:
        return
    known = ", ".join([*_SPECIAL, *SHORT_NAMES])
    near = [field for field in fields if field.partition(".")[2] == name]
    hint = f" Did you mean {near[0]}?" if near else ""
    raise OptionError(
        f"There is no axis {name!r}.{hint} Axes: {known}, and every figure as target.NAME, system.NAME or options.NAME."
    )


def _read_value(text: str, name: str) -> Value:
    if name == "system":
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if name in _SPECIAL or name in SHORT_NAMES:
        raise OptionError(f"{name}={text}: {name} takes numbers.")
    return text


def _double(part: str, words: str) -> list[int]:
    first, _, last = part.partition("..")
    try:
        low, high = int(first), int(last)
    except ValueError as error:
        raise OptionError(f"{words!r}: a range has two whole numbers, such as 1..256.") from error
    if low < 1 or high < low:
        raise OptionError(f"{words!r}: a range goes up from at least 1, such as 1..256.")
    found = [low]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    return found


def _grow(system: System, ipus: int) -> System:
    """The smallest machine of the catalog with this chip that has so many IPUs, else this one with more of them."""
    alike = [
        entry
        for entry in list_systems().values()
        if entry.target == system.target and entry.ipus >= ipus and (ipus == 1 or entry.ipu_link_bytes_per_second > 0)
    ]
    base = system if system.ipus >= ipus or not alike else min(alike, key=lambda entry: entry.ipus)
    return dataclasses.replace(base, ipus=max(ipus, 1))


def _format(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
