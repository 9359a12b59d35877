"""Runs generated cases of every family, each family in a process of its own, so that a crash is a failure like others.

As a script: `tests/run/fuzz_rules.py`.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from generated.case import Case
from generated.check import examine
from generated.engine import watch_passes
from generated.models import MODELS
from generated.patterns import FAMILIES
from generated.writer import Writer

_TRIES = 20
_ALL = FAMILIES | MODELS


@dataclass
class Report:
    """What came of some cases of a family."""

    family: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # cases that each pass changed
    refused: Counter[str] = field(default_factory=Counter)  # by the start of the message

    def list_unreached(self, *, kernels: bool) -> list[str]:
        """Passes that the family is there for, and that changed nothing."""
        family = _ALL[self.family]
        wanted = family.kernels if kernels and family.kernels else family.passes
        return [name for name in wanted if not self.counts[name]]


def make_case(family: str, seed: int) -> Case | None:
    """The case of a seed; None: nothing that eager PyTorch computes came of it."""
    for attempt in range(_TRIES):
        writer = Writer(family, seed * _TRIES + attempt)
        try:
            _ALL[family].generate(writer)
            case = writer.finish()
        except Exception:  # shapes that do not fit
            continue
        if case is not None:
            return case
    return None


def run_family(family: str, seeds: Sequence[int]) -> Iterator[int | Report]:
    """Each seed before it is tried; then the report."""
    report = Report(family)
    with watch_passes() as watch:
        for seed in seeds:
            yield seed
            case = make_case(family, seed)
            if case is None:
                continue
            report.cases += 1
            failure = examine(case, watch)
            if failure is not None:
                report.failures.append(str(failure))
    report.counts, report.refused = watch.counts, watch.refused
    yield report


def run_apart(family: str, seeds: Sequence[int]) -> Iterator[Report]:
    """Reports on all seeds. A seed whose process dies is a failure, and the others go on in another process."""
    while seeds:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_send, args=(family, seeds, sender))
        process.start()
        sender.close()
        last = seeds[0]
        try:
            while isinstance(got := receiver.recv(), int):
                last = got
            yield got
            seeds = ()
        except EOFError:
            process.join()
            case = make_case(family, last)
            script = "" if case is None else case.print_script()
            text = f"# {family}, seed {last}: the process died with code {process.exitcode}\n{script}"
            yield Report(family, cases=seeds.index(last) + 1, failures=[text])
            seeds = seeds[seeds.index(last) + 1 :]
        process.join()


def _send(family: str, seeds: Sequence[int], sender: Connection) -> None:
    for item in run_family(family, seeds):
        sender.send(item)
    sender.close()
