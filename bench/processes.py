"""The driver's side of a worker process.

In: a class of `bench.work` and an environment. Out: a `WorkerProcess` whose `call` returns what a method returned
over there. A worker that fails or dies is a `WorkerError` with the last lines that it wrote.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[1]


class WorkerError(Exception):
    """A way could not be measured."""


class WorkerProcess:
    """One process with one object in it."""

    def __init__(self, made: str, environment: Mapping[str, str], log: Path, **arguments: Any) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("a", encoding="utf-8") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker"],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                encoding="utf-8",
            )
        try:
            self._ask({"make": made, "arguments": arguments})
        except WorkerError:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method over there, and wait for what it returns."""
        return self._ask({"call": method, "arguments": arguments})

    def stop(self) -> None:
        """Let the process end by itself; one that does not is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"the process ended with code {self._process.wait()}: {self._read_log_end()}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply["answer"]

    def _read_log_end(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"nothing in {self._log}"
