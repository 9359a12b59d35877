"""The system's C++ compiler: found, asked, and quoted where it complains.

In: arguments. Out: what it printed, or `graph_program_compilation_error` with its own lines. `CXX` chooses another one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from poplar._errors import graph_program_compilation_error

INCLUDE = Path(__file__).parent.parent / "cxx" / "include"
STANDARD = "-std=c++17"
LIMIT_SECONDS = 600.0
_CANDIDATES = ("g++", "c++", "clang++")
_SHOWN_LINES = 40


def find_compiler() -> tuple[str, ...]:
    """The command of the compiler: `CXX`, or the first that is on the path."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise graph_program_compilation_error(
                f"CXX names the compiler {chosen[0]!r}, which is not on the path. Correct CXX, or unset it to use g++."
            )
        return tuple(chosen)
    for name in _CANDIDATES:
        if shutil.which(name):
            return (name,)
    raise graph_program_compilation_error(
        "C++ codelets need a C++ compiler, and neither g++, c++ nor clang++ is on the path. Install one "
        "(Debian, Ubuntu: `apt install g++`), name it in CXX, or write the codelet as a Python class."
    )


@cache
def _read_version(compiler: tuple[str, ...]) -> str:
    found = subprocess.run([*compiler, "--version"], capture_output=True, text=True, timeout=60)
    return found.stdout.partition("\n")[0]


def describe_compiler() -> str:
    """What compiled code depends on, as text: another compiler makes another entry in the cache."""
    compiler = find_compiler()
    return f"{' '.join(compiler)}: {_read_version(compiler)}"


def run_compiler(arguments: Sequence[str], what: str, text: str | None = None, folder: Path | None = None) -> str:
    """Run it, with a text to read or none; `what` is what the user handed over, for the message."""
    command = [*find_compiler(), *arguments]
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            input=text or "",
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env=environment,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise graph_program_compilation_error(
            f"{what}: the compiler {command[0]} did not end within {LIMIT_SECONDS:g} s."
        ) from error
    except OSError as error:
        raise graph_program_compilation_error(f"The compiler {command[0]} cannot be started: {error}.") from error
    if done.returncode != 0:
        raise graph_program_compilation_error(
            f"{what} does not compile for this machine's processor. {command[0]} says:\n{_shorten(done.stderr)}\n"
            "Correct the source; code for tiles alone belongs between `#ifdef __IPU__` and `#endif`."
        )
    return done.stdout


def _shorten(text: str) -> str:
    lines = text.strip().splitlines()
    more = [f"  … and {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    return "\n".join([*(f"  {line}" for line in lines[:_SHOWN_LINES]), *more])
