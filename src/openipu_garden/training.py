"""Trains a family's small version and says how good it became.

In: a `Family`. Out: an `Outcome`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from openipu.environment.extras import explain_missing
from openipu.errors import OptionError
from openipu.overrides import read_overrides, set_overrides
from openipu_garden.family import EXTRAS, Course, Family

Tell = Callable[[int, int, float], None]  # calls done, calls in all, loss


class MissingFrameworkError(OptionError):
    """A family's framework is not installed: the user installs it, or trains another family."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How good a small version became, and what an IPU would have done for it."""

    family: Family
    quality: float
    first_loss: float
    last_loss: float
    seconds: float
    modelled_samples_per_second: float
    fits: bool

    @property
    def reached(self) -> bool:
        return self.family.goal.is_reached(self.quality)


def begin_course(family: Family) -> Course:
    """The small version, ready to be trained; without its framework an error that says what to install."""
    try:
        return family.begin()
    except ModuleNotFoundError as error:
        extra = EXTRAS[family.front_end]
        if not extra:
            raise
        raise MissingFrameworkError(str(explain_missing(error, f"{family.title} in the garden", extra))) from error


@contextmanager
def _with_operators() -> Iterator[None]:
    """Native code comes when it is ready, and rounds otherwise: a course is to be the same each time."""
    before = set_overrides(replace(read_overrides(), engine="operators"))
    try:
        yield
    finally:
        set_overrides(before)


def train_family(family: Family, tell: Tell = lambda done, all_calls, loss: None) -> Outcome:
    """From first weights to the measured quality. Random numbers of the caller stay as they are."""
    started = time.perf_counter()
    with torch.random.fork_rng(), _with_operators():
        course = begin_course(family)
        try:
            plan = course.plan()
            losses = []
            for done in range(course.calls):
                losses.append(course.advance())
                tell(done + 1, course.calls, losses[-1])
            quality = course.measure()
        finally:
            course.close()
    return Outcome(
        family=family,
        quality=quality,
        first_loss=losses[0],
        last_loss=losses[-1],
        seconds=time.perf_counter() - started,
        modelled_samples_per_second=plan.timing.samples_per_second,
        fits=plan.fit.fits,
    )
