"""Two plans side by side: why one is faster or smaller than the other, in terms that add up exactly.

In: two profiles. Out: a `Comparison`: seconds for a sample, and bytes on the fullest tile, each as a sum of terms.
Arithmetic is in fractions, so "adds up" means equal, not close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from openipu.explore.compare.contributions import Grouping, sum_call, sum_peak
from openipu.plan import Plan
from openipu.report import Profile, build_profile

CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a difference."""

    name: str
    before: Fraction
    after: Fraction
    difference: Fraction  # after - before, except where a term has no sides of its own, such as the clock


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity before and after, and the terms of its difference, the largest first."""

    quantity: str
    unit: str
    before: Fraction
    after: Fraction
    terms: tuple[Term, ...]

    @property
    def difference(self) -> Fraction:
        return self.after - self.before

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "before": float(self.before),
            "after": float(self.after),
            "difference": float(self.difference),
            "terms": [
                {
                    "name": term.name,
                    "before": float(term.before),
                    "after": float(term.after),
                    "difference": float(term.difference),
                }
                for term in self.terms
            ],
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from one plan to another."""

    before: Profile
    after: Profile
    time: Change  # seconds for one sample
    memory: Change  # bytes on the fullest tile
    options: Mapping[str, tuple[Any, Any]]  # run options that differ
    figures: Mapping[str, tuple[Any, Any]]  # figures of the machine that differ

    @property
    def speedup(self) -> float:
        """Samples a second after, against before."""
        return float(self.time.before / self.time.after) if self.time.after else float("inf")

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "speedup": self.speedup,
            "options": {name: list(values) for name, values in self.options.items()},
            "figures": {name: list(values) for name, values in self.figures.items()},
            "time": self.time.describe(),
            "memory": self.memory.describe(),
        }


def compare_plans(before: Profile | Plan, after: Profile | Plan, grouping: Grouping = Grouping.FAMILY) -> Comparison:
    """Explain the difference between two plans."""
    first = before if isinstance(before, Profile) else build_profile(before)
    second = after if isinstance(after, Profile) else build_profile(after)
    return Comparison(
        before=first,
        after=second,
        time=_compare_time(first, second, grouping),
        memory=_compare_memory(first, second),
        options=_list_changes(first.options, second.options),
        figures=_list_changes(_list_figures(first), _list_figures(second)),
    )


def _compare_time(before: Profile, after: Profile, grouping: Grouping) -> Change:
    """t = cycles for a sample / clock. Work is priced at the first clock; what the clock changes is one more term."""
    samples = [Fraction(max(1, profile.timing.samples_per_call)) for profile in (before, after)]
    clocks = [Fraction(profile.timing.clock_hz) for profile in (before, after)]
    spent = [sum_call(profile, grouping) for profile in (before, after)]
    terms: list[Term] = []
    for name in dict.fromkeys([*spent[0], *spent[1]]):
        was = spent[0].get(name, Fraction()) / samples[0] / clocks[0]
        now = spent[1].get(name, Fraction()) / samples[1] / clocks[0]
        terms.append(Term(name, was, now, now - was))
    total = [sum(groups.values(), Fraction()) / count for groups, count in zip(spent, samples, strict=True)]
    if clocks[0] != clocks[1]:
        terms.append(Term(CLOCK, Fraction(), Fraction(), total[1] / clocks[1] - total[1] / clocks[0]))
    return Change("time for a sample", "s", total[0] / clocks[0], total[1] / clocks[1], _sort(terms))


def _compare_memory(before: Profile, after: Profile) -> Change:
    held = [sum_peak(profile) for profile in (before, after)]
    terms = []
    for name in dict.fromkeys([*held[0], *held[1]]):
        was, now = Fraction(held[0].get(name, 0)), Fraction(held[1].get(name, 0))
        terms.append(Term(name, was, now, now - was))
    peaks = (Fraction(before.fit.peak_bytes), Fraction(after.fit.peak_bytes))
    return Change("fullest tile", "B", *peaks, _sort(terms))


def _sort(terms: list[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: (-abs(term.difference), -term.after, term.name)))


def _list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*before, *after])
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _list_figures(profile: Profile) -> dict[str, Any]:
    """The machine's figures and the micro-batch, by name."""
    system, target = profile.system, profile.system.target
    found: dict[str, Any] = {"micro-batch": profile.micro_batch}
    for prefix, item in (("system", system), ("target", target)):
        for name in type(item).__dataclass_fields__:
            if name not in ("sources", "description", "target"):
                found[f"{prefix}.{name}"] = getattr(item, name)
    return found
