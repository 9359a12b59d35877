"""A process that makes and reads one case after another, under limits.

In: jobs on standard input, one a line: kind, seed, first number, count. Out: lines of JSON: `begin` before a case is
read, `end` with its verdict. The process may die or hang in a case: the one that began is the one to blame.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from fuzz.cases import Case, empty_directory, make_case
from fuzz.kinds import KINDS

SECONDS = 5.0  # of the processor, a case
SPARE_BYTES = 500 << 20  # beyond what the process has after its first case
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "socket.connect",
    "socket.bind",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "pickle.find_class",
    "shutil.rmtree",
    "ctypes.dlopen",
    "exec_module",
    "webbrowser.open",
)


_PREPARED: set[Path] = set()


class HangError(BaseException):
    """A case takes too long. No reader catches this."""


class Guard:
    """Notes what a reader must not do: write, start processes, open connections, unpickle."""

    def __init__(self) -> None:
        self.armed = False
        self.found: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
        if writes or event in _FORBIDDEN:
            self.found.append(f"{event} {arguments[0] if arguments else ''}"[:200])


def main() -> None:
    seeds = Path(sys.argv[1])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    guard = Guard()
    signal.signal(signal.SIGPROF, _stop)
    directory = Path(sys.argv[2])
    os.chdir(directory)
    for line in sys.stdin:
        kind, seed, first, count = json.loads(line)
        _prepare(kind, seeds, directory)
        for number in range(first, first + count):
            case = Case(kind, seed, number)
            path = make_case(case, seeds, directory, KINDS[kind].suffix)
            print(json.dumps({"begin": number}), file=answers)
            verdict, text = read_case(case, path, guard)
            print(json.dumps({"end": number, "verdict": verdict, "text": text}), file=answers)
            empty_directory(directory)
        print(json.dumps({"done": kind}), file=answers)


def read_case(case: Case, path: Path, guard: Guard) -> tuple[str, str]:
    """The verdict on one file: ok, refused, or what went wrong, with the error."""
    from openipu.errors import OpenIpuError

    before = sorted(os.listdir(path.parent))
    guard.found.clear()
    verdict, text = "ok", ""
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        guard.armed = True
        try:
            KINDS[case.kind].read(path)
        except OpenIpuError as error:
            verdict, text = _judge_message(str(error))
        except SystemExit as error:
            verdict, text = ("refused", "exit") if error.code == 2 else ("traceback", f"SystemExit({error.code})")
        except HangError:
            verdict, text = "hang", traceback.format_exc()
        except MemoryError:
            verdict, text = "memory", traceback.format_exc()
        except BaseException:
            verdict, text = "traceback", traceback.format_exc()
        finally:
            guard.armed = False
            signal.setitimer(signal.ITIMER_PROF, 0)
    if guard.found or sorted(os.listdir(path.parent)) != before:
        verdict, text = "wrote", "\n".join(guard.found) or "files beside the case"
    return verdict, text[-4000:]


def _judge_message(text: str) -> tuple[str, str]:
    """An error says something, in a length that people read."""
    return ("refused", text) if 20 < len(text) < 2000 else ("message", text)


def _prepare(kind: str, seeds: Path, directory: Path) -> None:
    """Import what a kind needs by reading its seeds, then limit memory."""
    if (seeds / kind) in _PREPARED:
        return
    _PREPARED.add(seeds / kind)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for source in sorted((seeds / kind).iterdir()):
        path = directory / f"seed{KINDS[kind].suffix}"
        path.write_bytes(source.read_bytes())
        KINDS[kind].read(path)  # a seed that cannot be read is a mistake of the fuzzer
        path.unlink()
    empty_directory(directory)
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _stop(*_: object) -> None:
    raise HangError


if __name__ == "__main__":
    main()
