"""Where the store lies, how large it may grow, and whether it is the user's own.

In: a directory or nothing, and the environment. Out: a path, a limit in bytes, and the reason why native code of a
directory is not to be loaded, if there is one.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from openipu.errors import OptionError

DIRECTORY_VARIABLE = "OPENIPU_CACHE_DIR"
LIMIT_VARIABLE = "OPENIPU_CACHE_LIMIT"
DEFAULT_LIMIT_BYTES = 4 * 10**9
UNLIMITED = "none"

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def choose_directory(directory: str | Path | None = None) -> Path:
    """An explicit choice, else the environment's, else the place for caches in the user's home."""
    chosen = directory or os.environ.get(DIRECTORY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "openipu"


def choose_limit_bytes() -> int | None:
    """How large a store may grow; None: without end."""
    wished = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not wished:
        return DEFAULT_LIMIT_BYTES
    if wished.lower() == UNLIMITED:
        return None
    return parse_size(wished, LIMIT_VARIABLE)


def parse_size(text: str, option: str = "size") -> int:
    """`"1.5 GB"` -> bytes. Units: B, kB, MB, GB, TB, and KiB to TiB."""
    match = _SIZE.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        raise OptionError(
            f"{option} is {text!r}, which is not a size: write a number with B, kB, MB, GB or TB, such as '500 MB'."
        )
    return int(float(match[1]) * _UNITS[match[2]])


def explain_exposure(directory: Path) -> str | None:
    """Why native code that lies here may be somebody else's; None if only this user could have put it there."""
    if not hasattr(os, "geteuid"):  # Windows keeps a user's files apart by other means
        return None
    own = os.geteuid()
    try:
        found = directory.stat()
        if found.st_uid != own:
            return f"{directory} belongs to user {found.st_uid}, and this is user {own}"
        if found.st_mode & _OTHERS_MAY_WRITE:
            return f"others may write to {directory} (run `chmod go-w` on it)"
        for parent in directory.resolve().parents:
            above = parent.stat()
            if above.st_uid not in (0, own):
                return f"{parent} above it belongs to user {above.st_uid}"
            if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
                return f"anybody may replace what lies in {parent} (run `chmod o-w` on it)"
    except OSError as error:
        return f"{directory} cannot be looked at ({error.strerror})"
    return None


def explain_openness(directory: Path) -> str | None:
    """Why others may look into a directory, or decide what it is; None if it is this user's alone."""
    try:
        found = directory.lstat()
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "it is a symbolic link" if stat.S_ISLNK(found.st_mode) else "it is not a directory"
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        return f"it is open to others (mode {stat.S_IMODE(found.st_mode):o})"
    return None
