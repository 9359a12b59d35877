"""Runs public programs unmodified, each in a process of its own, and says which of them end well.

In: a `Suite`: commands, what each must print, how its folder is made from a checkout. Out: a line for each program, its
`Outcome`, and where a suite has a place in docs/conformance.md, that section.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"


@dataclass(frozen=True)
class Program:
    """A command, and what it must print."""

    folder: str
    words: str
    expected: str | tuple[str, ...] = ()  # patterns in its output
    accuracy: float = 0.0  # in percent, at least, if it prints one
    shim: str = "shim"  # the folder of what is imported first
    launch: str = ""  # what starts it; python itself if nothing is said
    environment: Mapping[str, str] = field(default_factory=dict)
    until: str = ""  # a program that would go on for hours is ended once it has printed this
    fails: str = ""  # it must end with an error that has this pattern
    reads: str = "stdout"  # where `expected` is looked for: stdout, or both

    @property
    def name(self) -> str:
        return f"{self.folder}: {self.words}"


@dataclass(frozen=True)
class Outcome:
    """How one program ended."""

    name: str
    passed: bool
    seconds: float
    detail: str


@dataclass(frozen=True)
class Suite:
    """Programs of one checkout."""

    title: str
    variable: str  # names the checkout
    branch: str
    parts: Sequence[str]  # folders of the checkout that are copied
    programs: Sequence[Program]
    not_run: Mapping[str, str]  # each with its reason
    prepare: Callable[[Path], None]  # shims and data, beside the copied parts
    surround: Callable[[Program, Path], Mapping[str, str]] = lambda program, folder: {}  # variables of a program
    known_misses: Mapping[str, str] = field(default_factory=dict)  # name of a program: why it fails
    mark: str = ""  # of its section of the page


def run_suite(suite: Suite, description: str | None) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names, such as lstm; all of them when none is given")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file; those of others in it stay")
    parser.add_argument("--timeout", type=int, default=600, help="seconds that a program may take")
    parser.add_argument("--verbose", action="store_true", help="show what the programs print")
    if suite.mark:
        parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    options = parser.parse_args()
    checkout = Path(os.environ.get(suite.variable, ""))
    if not all((checkout / part).is_dir() for part in suite.parts):
        print(f"Set {suite.variable} to a checkout of graphcore/tutorials, branch {suite.branch}.", file=sys.stderr)
        return 2
    wanted = [
        entry for entry in suite.programs if not options.names or any(name in entry.name for name in options.names)
    ]
    names = [entry.name for entry in suite.programs]
    with tempfile.TemporaryDirectory(prefix=f"{suite.title}-programs-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        for part in suite.parts:
            shutil.copytree(checkout / part, folder / part)
        suite.prepare(folder)
        outcomes = []
        for program in wanted:
            outcomes.append(run_program(suite, program, folder, options))
            if options.json:
                keep_outcomes(options.json, outcomes, names)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    for name, reason in suite.not_run.items():
        print(f"    not run: {name} ({reason})")
    if options.json:
        outcomes = keep_outcomes(options.json, outcomes, names)
    if suite.mark and options.page:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(replace_section(page, suite.mark, write_section(suite, outcomes)), encoding="utf-8")
    return 1 if any(outcome.name not in suite.known_misses for outcome in failed) else 0


def keep_outcomes(path: Path, outcomes: Sequence[Outcome], names: Sequence[str]) -> list[Outcome]:
    """New outcomes in the place of older ones of the same programs."""
    held = {entry["name"]: Outcome(**entry) for entry in json.loads(path.read_text())} if path.exists() else {}
    held |= {outcome.name: outcome for outcome in outcomes}
    kept = [held[name] for name in names if name in held]
    path.write_text(json.dumps([vars(outcome) for outcome in kept], indent=1))
    return kept


def run_program(suite: Suite, program: Program, folder: Path, options: argparse.Namespace) -> Outcome:
    paths = [str(folder / program.shim), str(folder / "utils"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        **suite.surround(program, folder),
        **program.environment,
    }
    launch = shlex.split(program.launch.format(python=sys.executable)) or [sys.executable]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*launch, *program.words.split()],
            cwd=folder / program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code = _wait(process, program, output, options.timeout)
        output.seek(0)
        errors.seek(0)
        done = subprocess.CompletedProcess(program.words, code or 0, output.read(), errors.read())
    seconds = round(time.monotonic() - started, 1)
    if options.verbose:
        print(done.stdout + done.stderr)
    detail = f"more than {options.timeout} s" if code is None else judge(program, done)
    return report(Outcome(program.name, not detail, seconds, detail))


def _wait(process: subprocess.Popen, program: Program, output, timeout: int) -> int | None:
    """The exit code; 0 for a program that was ended where it should be, None for one that took too long."""
    end = time.monotonic() + timeout
    try:
        while time.monotonic() < end:
            try:
                return process.wait(timeout=1 if program.until else max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                if program.until and re.search(
                    program.until, os.pread(output.fileno(), 1 << 24, 0).decode("utf-8", "replace")
                ):
                    return 0
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def judge(program: Program, done: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with how a program ended; nothing if all is well."""
    if program.fails:
        found = done.returncode != 0 and re.search(program.fails, done.stderr + done.stdout)
        return "" if found else f"it does not end with {program.fails!r}"
    if done.returncode != 0:
        lines = [line for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {done.returncode}"
    text = done.stdout if program.reads == "stdout" else done.stdout + done.stderr
    patterns = (program.expected,) if isinstance(program.expected, str) else program.expected
    for pattern in patterns:
        if not re.search(pattern, text, re.DOTALL):
            return f"its output has no {pattern!r}"
    if program.accuracy:
        accuracies = [float(number) for number in re.findall(r"[Aa]ccuracy\s*[=:]\s*([\d.]+)\s*%", text)]
        if not accuracies or accuracies[-1] < program.accuracy:
            told = accuracies[-1] if accuracies else "not printed"
            return f"its accuracy is {told}, not {program.accuracy:g} % or more"
    return ""


def report(outcome: Outcome) -> Outcome:
    word = "passed" if outcome.passed else "FAILED"
    print(f"{outcome.name:110} {word} {outcome.seconds:6.1f} s  {outcome.detail[:300]}", flush=True)
    return outcome


def write_section(suite: Suite, outcomes: Sequence[Outcome]) -> str:
    """Counts, a row for each program's folder, and what does not run with its reason."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    today = datetime.datetime.now(datetime.UTC).date()
    rest = len(suite.programs) - len(outcomes)
    lines = [
        f"Counted on {today}: **{len(outcomes) - len(failed)} of {len(outcomes)} runs of programs end well.**"
        + (f" {rest} more are in the list and have not been counted." if rest else ""),
        "",
        "| Program | Runs | pass |",
        "|---|--:|--:|",
    ]
    folders: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        folders.setdefault(outcome.name.partition(": ")[0], []).append(outcome)
    lines += [f"| `{name}` | {len(own)} | {sum(entry.passed for entry in own)} |" for name, own in folders.items()]
    if failed:
        lines += ["", "| Fails | Reason |", "|---|---|"]
        lines += [f"| `{entry.name}` | {suite.known_misses.get(entry.name, entry.detail[:160])} |" for entry in failed]
    lines += ["", "| Not run | Reason |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in suite.not_run.items()]
    return "\n".join(lines)


def replace_section(page: str, mark: str, text: str) -> str:
    """The page with new text between the two marks."""
    start, end = re.search(rf"<!-- {mark}: made by [^>]* -->", page), f"<!-- end of {mark} -->"
    if start is None or end not in page:
        raise SystemExit(f"The page has no <!-- {mark}: made by … --> … {end}.")
    return f"{page[: start.end()]}\n\n{text}\n\n{end}{page.partition(end)[2]}"
