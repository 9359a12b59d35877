"""One case: a file, made from a seed by damage that follows from the case's name.

In: a kind, a seed and a number. Out: a path with something at it: mostly a damaged file, sometimes no file at all.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz.mutations import MUTATE
from fuzz.mutations.special import make_special

REGRESSIONS = Path(__file__).parent / "regressions"
_SPECIAL_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """Says everything about a file."""

    kind: str
    seed: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Case:
        kind, seed, number = text.split(":")
        return cls(kind, int(seed), int(number))


def make_case(case: Case, seeds: Path, directory: Path, suffix: str) -> Path:
    """Put the file of a case into an empty directory."""
    path = directory / f"case{suffix}"
    if case.number < 0:
        path.write_bytes(list_regressions(case.kind)[-case.number - 1].read_bytes())
        return path
    random = Random(str(case))
    sources = sorted((seeds / case.kind).iterdir())
    source = random.choice(sources)
    if random.random() < _SPECIAL_SHARE:
        make_special(path, source, random)
        return path
    mutate = MUTATE[source.suffix]
    content = source.read_bytes()
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = mutate(content, random, directory)
    path.write_bytes(content)
    return path


def list_regressions(kind: str) -> list[Path]:
    """Files that once went wrong. They are cases -1, -2, … of their kind, whatever the seed."""
    return sorted((REGRESSIONS / kind).glob("*"))


def empty_directory(directory: Path) -> None:
    """Remove whatever a case left."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
