"""Workers that are watched, and started again when they die.

In: jobs. Out: results, one a case. A worker that is gone, or waits or computes for minutes in one case, has failed it;
one that waits for a processor on a busy machine has not.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.cases import Case

WAIT_SECONDS = 120.0  # a guard against a reader that waits for ever
BUSY_SECONDS = 60.0  # of a processor: against one that no signal reaches; slowness is measured by the worker itself
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Job:
    """Cases of one kind, in a row."""

    kind: str
    seed: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """How one case went."""

    case: Case
    verdict: str
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict not in ("ok", "refused")


class _Worker:
    """A process and its last words."""

    def __init__(self, seeds: Path, directory: Path) -> None:
        self._log = directory.with_suffix(".log")
        directory.mkdir()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "80"}
        environment |= {name: str(directory) for name in ("TMPDIR", "OPENIPU_CACHE_DIR", "OPENIPU_STATE_DIR")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.worker", str(seeds), str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=Path(__file__).parent.parent,
                start_new_session=True,
            )
        self._note_progress()
        self._silent = False

    def run(self, job: Job) -> Iterator[Result | Job]:
        """Results of a job. If the process ends, the rest of the job comes last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        begun: int | None = None
        self._note_progress()
        try:
            self._process.stdin.write(json.dumps([job.kind, job.seed, job.first, job.count]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its output has ended as well
        for line in self._process.stdout:
            self._note_progress()
            said = json.loads(line)
            if "done" in said:
                return
            if "begin" in said:
                begun = int(said["begin"])
            else:
                yield Result(Case(job.kind, job.seed, said["end"]), said["verdict"], said["text"])
        code = self._process.wait()
        words = self._log.read_text(errors="replace")[-3000:]
        if begun is None:
            raise RuntimeError(f"A worker ended before its first case of {job.kind} ({code}):\n{words}")
        yield Result(Case(job.kind, job.seed, begun), "hang" if self._silent else "crash", f"exit code {code}\n{words}")
        yield Job(job.kind, job.seed, begun + 1, job.first + job.count - begun - 1)

    def _note_progress(self) -> None:
        self._active, self._used = time.monotonic(), self._read_state()[1]

    def _read_state(self) -> tuple[bool, float]:
        """Whether it runs or would like to, and the seconds of a processor that it has had."""
        try:
            words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return False, 0.0
        return words[0] == "R", (int(words[11]) + int(words[12])) / _TICKS_PER_SECOND

    def watch(self) -> None:
        """End a process that waits for something, or that nothing else ends."""
        wants_to_run, used = self._read_state()
        if wants_to_run:
            self._active = time.monotonic()
        stuck = time.monotonic() - self._active > WAIT_SECONDS or used - self._used > BUSY_SECONDS
        if stuck and self._process.poll() is None:
            self._silent = True
            self.stop()

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def run_jobs(jobs: Iterable[Job], workers: int, seeds: Path, directory: Path) -> Iterator[Result]:
    """Results as they come."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    results: queue.SimpleQueue[Result | BaseException | None] = queue.SimpleQueue()
    running: dict[int, _Worker] = {}

    def serve(index: int) -> None:
        starts = 0
        try:
            while True:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                while job.count:
                    if index not in running:
                        starts += 1
                        running[index] = _Worker(seeds, directory / f"worker{index}-{starts}")
                    rest = Job(job.kind, job.seed, job.first, 0)
                    for said in running[index].run(job):
                        if isinstance(said, Job):
                            rest = said
                            del running[index]
                        else:
                            results.put(said)
                    job = rest
        except BaseException as error:
            results.put(error)
        finally:
            results.put(None)

    threads = [threading.Thread(target=serve, args=(index,), daemon=True) for index in range(workers)]
    for thread in threads:
        thread.start()
    left, next_look = len(threads), 0.0
    try:
        while left:
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + 1.0
                for worker in list(running.values()):
                    worker.watch()
            try:
                result = results.get(timeout=1.0)
            except queue.Empty:
                continue
            if result is None:
                left -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result
    finally:
        for worker in list(running.values()):
            worker.stop()
