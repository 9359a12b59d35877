"""Kills processes with SIGKILL at random moments of their work, and looks for what was lost and what was left.

    python tests/robustness/crash.py --kills 1000 --seed 1

Every victim is a fork of this process, so that it starts at once. Half of them are killed at a call, of Python or of C,
whose number the seed chooses; the others after a random time. Only the moment depends on a clock: what is asserted is
the state that a victim left. Exit code 1, and the seed of the case, if anything was lost or left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["OPENIPU_COMPILE_AFTER"] = "inf"
sys.path.insert(0, str(Path(__file__).parent))

STEPS = 3  # of a victim that lives
BEYOND = 1.05  # how far the moments reach over the length of the work: some victims live
FAILED = 70  # exit code of a victim that found a mistake by itself


@dataclass(frozen=True, slots=True)
class Length:
    """How long a victim's work is."""

    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """What became of a victim."""

    done: int  # the last step that returned
    killed: bool
    mistaken: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000, help="processes to kill (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="openipu-crash-") as directory:
        scratch = Path(directory) / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)  # what victims leave there is seen
        os.environ["OPENIPU_CACHE_DIR"] = f"{directory}/user-cache"
        return attack(Path(directory), options.kills, options.seed)


def attack(directory: Path, kills: int, seed: int) -> int:
    """Kill so many victims, the kinds of work in turn."""
    import torch
    from crash_cases import list_parts, make_cases

    torch.set_num_threads(1)
    cases = make_cases()
    places = {case.name: directory / case.name for case in cases}
    numbers: dict[str, int] = {}  # of the last step of each case
    lengths: dict[str, Length] = {}
    for case in cases:
        places[case.name].mkdir(mode=0o700)
        case.step(places[case.name], 1)
        lengths[case.name] = measure(case, places[case.name], 1)
        numbers[case.name] = 1 + STEPS
    counts: Counter[tuple[str, str]] = Counter()
    attempt = failures = 0
    while count_killed(counts) < kills:
        case = cases[attempt % len(cases)]
        place, number = places[case.name], numbers[case.name]
        moment = random.Random(f"{seed}:{attempt}")
        attempt += 1
        try:
            end = run_victim(case, place, number, lengths[case.name], moment)
            assert not end.mistaken, "a victim found a mistake; its traceback is above"
            found = case.read(place, end.done)
            assert found in (end.done, end.done + 1), f"after step {end.done} the state is that of step {found}"
            counts[case.name, "killed" if end.killed else "lived"] += 1
            if end.killed and count_killed(counts) % 50 == 0:
                sys.stderr.write(f"{count_killed(counts)} of {kills}\n")
            counts[case.name, "new"] += found > end.done
            counts[case.name, "leftovers"] += bool(list_parts(place))
            case.step(place, found + 1)
            assert case.read(place, found + 1) == found + 1
            left = [*case.list_left(place), *(directory / "tmp").iterdir()]
            assert not left, f"left behind: {', '.join(str(path.relative_to(directory)) for path in left)}"
            numbers[case.name] = found + 1
        except KeyboardInterrupt:
            break  # what was done until now counts
        except Exception:
            failures += 1
            sys.stderr.write(f"{case.name}, attempt {attempt - 1} of seed {seed}, after step {number}:\n")
            traceback.print_exc()
            break  # the state is not to be trusted any more
    report(counts, attempt, failures)
    return 1 if failures else 0


def measure(case, place: Path, number: int) -> Length:
    """Do a victim's work in a process that nobody kills."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        work(case, place, number, -1)
        sys.setprofile(None)
        started = time.perf_counter()
        work(case, place, number, -1)
        os.write(writer, f"{calls} {time.perf_counter() - started}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        words = answers.read().split()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the work of {case.name} fails without being killed"
    return Length(int(words[0]), float(words[1]))


def run_victim(case, place: Path, number: int, length: Length, moment: random.Random) -> End:
    """Let a fork work on from step `number`, and kill it at the moment."""
    at_call = moment.random() < 0.5
    share = moment.random() * BEYOND
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = FAILED
        try:
            if at_call:
                sys.setprofile(make_killer(int(share * length.calls)))
            work(case, place, number, writer)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.setprofile(None)
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    if not at_call:
        time.sleep(share * length.seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as answers:
        done = [int(word) for word in answers.read().split()]
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return End(done[-1] if done else number, killed, not killed and os.WEXITSTATUS(status) != 0)


def work(case, place: Path, number: int, writer: int) -> None:
    """The steps after `number`; each is told when it has returned."""
    for step in range(number + 1, number + 1 + STEPS):
        case.step(place, step)
        if writer >= 0:
            os.write(writer, f"{step}\n".encode())


def make_killer(calls: int):
    """A profile function that ends this very process after so many calls and returns."""
    remaining = calls

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def count_killed(counts: Counter[tuple[str, str]]) -> int:
    return sum(count for (_, what), count in counts.items() if what == "killed")


def report(counts: Counter[tuple[str, str]], attempts: int, failures: int) -> None:
    columns = ("killed", "lived", "new", "leftovers")
    print(f"{'work':<12}{'killed':>8}{'lived':>8}{'took effect':>13}{'left, then swept':>18}")
    for name in dict.fromkeys(name for name, _ in counts):
        killed, lived, new, leftovers = (counts[name, column] for column in columns)
        print(f"{name:<12}{killed:>8}{lived:>8}{new:>13}{leftovers:>18}")
    verdict = "FAILED" if failures else "nothing lost, nothing left"
    print(f"{count_killed(counts)} killed in {attempts} attempts: {verdict}")


if __name__ == "__main__":
    sys.exit(main())
