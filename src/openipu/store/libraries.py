"""Native libraries of entries: whether they can be loaded.

In: an entry whose description lists, under `LIBRARIES`, the functions of its native parts. Out: why one is unusable.
A process of its own loads it: a broken library may end that.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIBRARIES = "libraries"  # in a description: {part: {symbol: bytes of the struct that it reads}}
CHECK_LIBRARY = Path(__file__).with_name("check_library.py")
_MOST_SECONDS = 30.0


def explain_unusable(path: Path, sizes: Mapping[str, Any]) -> str | None:
    """Why a library cannot be used; None if it can."""
    described = [f"{symbol}={size}" for symbol, size in sizes.items()]
    command = [sys.executable, "-I", "-S", str(CHECK_LIBRARY), str(path), *described]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return "loading it does not end"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines and done.returncode > 0 else "loading it ends the process"
