"""What a family is: its name, where it is from, what its small version learns, and the figures published of it.

In: nothing. Out: types. A family is data and one function, `begin`, which makes the small version and its data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from openipu.plan import Plan


class Area(StrEnum):
    """What a family is for."""

    IMAGES = "image classification"
    DETECTION = "object detection"
    SEGMENTATION = "segmentation"
    GRAPHS = "graphs"
    PROBABILITY = "probability"
    REINFORCEMENT = "reinforcement learning"
    LANGUAGE = "language"
    RECOGNITION = "speech recognition"
    SYNTHESIS = "speech synthesis"
    GENERATIVE = "generative"
    REGRESSION = "regression"
    RANKING = "ranking"


class FrontEnd(StrEnum):
    """In which framework the small version is written."""

    POPTORCH = "PopTorch"
    POPART = "PopART"
    KERAS = "Keras"


EXTRAS = {FrontEnd.POPTORCH: "", FrontEnd.POPART: "onnx", FrontEnd.KERAS: "tensorflow"}


@dataclass(frozen=True, slots=True)
class Goal:
    """The quality that training is to reach on data that it has not seen."""

    measure: str  # "accuracy"
    bar: float
    guess: float  # what the best answer has that is the same for all, or chance
    more_is_better: bool = True

    def is_reached(self, value: float) -> bool:
        """Whether a quality is good enough; never for a value that is not a number."""
        return value >= self.bar if self.more_is_better else value <= self.bar

    def __str__(self) -> str:
        sign = "≥" if self.more_is_better else "≤"
        return f"{self.measure} {sign} {self.bar:g}"


class Course(Protocol):
    """A small version at work."""

    @property
    def calls(self) -> int:
        """How often `advance` is to be called until the course is over."""

    def plan(self) -> Plan:
        """What an IPU would do with one call; compiles, if nobody has yet."""

    def advance(self) -> float:
        """Train for one call. The loss."""

    def measure(self) -> float:
        """The quality on data that was not trained on."""

    def close(self) -> None:
        """Leave the IPUs to others."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Family:
    """One family of the garden."""

    name: str  # on the command line
    title: str
    area: Area
    paper: str
    learns: str  # what the small version learns, and from which data
    goal: Goal
    begin: Callable[[], Course]
    front_end: FrontEnd = FrontEnd.POPTORCH
    figures: tuple[str, ...] = ()  # ids of rows of figures.csv; the first is the configuration that `plan` moves
