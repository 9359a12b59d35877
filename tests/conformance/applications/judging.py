"""Did a run do what it should? In: a `Run`, how it ended, what it printed. Out: the losses, and what is wrong."""

from __future__ import annotations

import math
import re

from applications.entries import Run

LEAST = 3  # losses that a training run must print
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read_losses(run: Run, output: str) -> list[float]:
    """Every loss that the output has, in order. A progress bar repeats itself: equal neighbours count once."""
    if not run.loss:
        return []
    found = [float(match.replace(",", "")) for match in re.findall(run.loss, ANSI.sub("", output))]
    return [loss for place, loss in enumerate(found) if place == 0 or loss != found[place - 1]]


def falls(losses: list[float]) -> bool:
    """The last third is lower than the first one, on average."""
    third = max(1, len(losses) // 3)
    return sum(losses[-third:]) < sum(losses[:third])


def judge(run: Run, code: int | None, output: str) -> str:
    """What is wrong; nothing if all is well. `code` is None for a run that took too long."""
    if code is None:
        return "it took too long"
    if code != 0:
        return last_words(output) or f"exit code {code}"
    if run.expects and not re.search(run.expects, ANSI.sub("", output)):
        return f"it does not print {run.expects!r}"
    if run.kind not in ("train", "both"):
        return ""
    losses = read_losses(run, output)
    if len(losses) < LEAST:
        return f"it prints {len(losses)} losses, not {LEAST}"
    if not all(map(math.isfinite, losses)):
        return "a loss is not finite"
    return "" if falls(losses) else f"the loss does not fall: {losses[0]:g} to {losses[-1]:g}"


def last_words(output: str) -> str:
    """The line that names the error: the last one of the form `SomeError: …`, else the last one."""
    lines = [line.strip() for line in ANSI.sub("", output).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Refused)\b", line)]
    return (named or lines or [""])[-1][:400]
