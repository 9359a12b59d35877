"""A process that runs codelets, and the memory that it shares with this one.

In: a compiled library, tables of where each field of each vertex lies. Out: results in the shared memory. A vertex that
crashes, does not end or takes too much memory ends that process only, and `VertexFault` says which vertex it was.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import subprocess
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openipu.errors import InternalError
from openipu.graph.mapped import VertexFault
from openipu.run.mapped import find_shared_memory

SECONDS_VARIABLE = "OPENIPU_CODELET_SECONDS"
HEAP_VARIABLE = "OPENIPU_CODELET_HEAP_MB"
DEFAULT_SECONDS = 60.0
DEFAULT_HEAP_MB = 4096

_DESCRIBE, _PREPARE, _RUN, _RELEASE, _COUNT, _PLACE = range(1, 7)
_DONE, _FALSE, _NO_MEMORY, _THROWN, _BAD = range(5)
_HEAD = struct.Struct("<IQ")
_PROGRESS_WORDS = 3


class CodeletProcess:
    """One process for one library. Use it as a context, or let it go: it ends with its owner."""

    def __init__(self, code: Path, title: str, seconds: float | None = None) -> None:
        from poplar.native.library import find_runner

        memory = find_shared_memory()
        self._title = title
        self._seconds = seconds or _read_limit(SECONDS_VARIABLE, DEFAULT_SECONDS)
        self._heap_bytes = int(_read_limit(HEAP_VARIABLE, DEFAULT_HEAP_MB)) << 20
        self._progress = memory.allocate((_PROGRESS_WORDS,), np.dtype(np.uint64))
        self._progress[:] = 0
        request_out, self._request = os.pipe()
        self._reply, reply_in = os.pipe()
        numbers = (memory.descriptor, memory.capacity, memory.locate(self._progress), request_out, reply_in)
        arguments = [str(find_runner()), str(code), *map(str, (*numbers, self._heap_bytes))]
        try:
            self._process = subprocess.Popen(
                arguments, pass_fds=(memory.descriptor, request_out, reply_in), stdin=subprocess.DEVNULL
            )
        finally:
            os.close(request_out)
            os.close(reply_in)
        self.close = weakref.finalize(self, _end, self._process, self._request, self._reply)

    def __enter__(self) -> CodeletProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return self.close.alive and self._process.poll() is None

    def describe(self) -> str:
        return self._ask(_DESCRIBE, b"").decode("utf-8", errors="replace")

    def prepare(self, vertex: int, count: int, tables: bytes) -> int:
        """Build vertices; the number that they are run by comes back."""
        payload = struct.pack("<IQ", vertex, count) + tables
        return int(struct.unpack("<Q", self._ask(_PREPARE, payload))[0])

    def place(self, number: int, tables: bytes) -> None:
        """Let fields of vertices point elsewhere; what the tables leave out stays."""
        self._ask(_PLACE, struct.pack("<I", number) + tables)

    def release(self, number: int) -> None:
        self._ask(_RELEASE, struct.pack("<I", number))

    def run(self, number: int, *, goes_on: bool = False) -> int:
        """Compute all vertices of a batch. -1, or the number of the first that returned false."""
        return self._run(_RUN, struct.pack("<II", goes_on, number))[0]

    def count(self, number: int, count: int) -> npt.NDArray[np.int64]:
        """Compute them with a library that counts: cycles of each."""
        payload = self._run(_COUNT, struct.pack("<I", number))[1]
        return np.frombuffer(payload, dtype=np.int64, count=count)

    def _run(self, op: int, payload: bytes) -> tuple[int, bytes]:
        status, answer = self._exchange(op, payload)
        vertex = int(self._progress[1])
        if status == _NO_MEMORY:
            raise VertexFault(
                f"{self._title}: a vertex asked for more memory than the {self._heap_bytes >> 20} MiB that all "
                f"codelets may hold beside their tensors. Allocate less in compute(), or set {HEAP_VARIABLE}.",
                vertex,
            )
        if status == _THROWN:
            text = answer.decode("utf-8", errors="replace")
            raise VertexFault(f"{self._title}: compute() threw an exception: {text or 'of an unknown type'}.", vertex)
        if status == _BAD:
            raise InternalError(f"The runner of codelets refused a request: {answer.decode(errors='replace')}.")
        return (vertex if status == _FALSE else -1), answer

    def _ask(self, op: int, payload: bytes) -> bytes:
        return self._run(op, payload)[1]

    def _exchange(self, op: int, payload: bytes) -> tuple[int, bytes]:
        try:
            _write(self._request, _HEAD.pack(op, len(payload)) + payload)
            status, size = _HEAD.unpack(self._read(_HEAD.size))
            return status, self._read(size)
        except (OSError, EOFError) as error:
            raise self._explain_end() from error

    def _read(self, size: int) -> bytes:
        """So many bytes of the reply, while vertices make progress."""
        pieces, missing = [], size
        begun = -1
        while missing:
            ready, _, _ = select.select([self._reply], [], [], self._seconds / 2)
            if ready:
                piece = os.read(self._reply, min(missing, 1 << 20))
                if not piece:
                    raise EOFError
                pieces.append(piece)
                missing -= len(piece)
                continue
            now = int(self._progress[2])
            if now == begun:
                vertex = int(self._progress[1])
                self.close()
                raise VertexFault(
                    f"{self._title}: compute() of a vertex did not end within {self._seconds:g} s. Look for a loop "
                    f"without an end; a vertex that needs longer gets it by {SECONDS_VARIABLE}.",
                    vertex,
                )
            begun = now
        return b"".join(pieces)

    def _explain_end(self) -> VertexFault:
        vertex = int(self._progress[1]) if int(self._progress[2]) else -1
        code = self._wait_for_end()
        self.close()
        if code < 0:
            name = signal.Signals(-code).name if -code in {int(one) for one in signal.Signals} else f"signal {-code}"
            why = {
                "SIGSEGV": "It read or wrote outside its fields: look for an index beyond size().",
                "SIGFPE": "It divided an integer by zero.",
                "SIGABRT": "It aborted: an assertion, or an exception out of a noexcept function.",
                "SIGILL": "It ran into __builtin_trap or the end of a function without return.",
                "SIGKILL": "The system ended it, most likely for want of memory.",
            }.get(name, "")
            return VertexFault(f"{self._title}: compute() of a vertex crashed with {name}. {why}".rstrip(), vertex)
        return VertexFault(f"{self._title}: compute() of a vertex ended its process with code {code}.", vertex)

    def _wait_for_end(self) -> int:
        try:
            return self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _end(process: subprocess.Popen[bytes], *descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)


def _read_limit(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if value <= 0:
        raise VertexFault(f"{variable} is {text!r}; it has to be a number above 0.")
    return value
