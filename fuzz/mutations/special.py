"""Things at a path that are no file, or no file that anybody should read."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random


def make_special(path: Path, source: Path, random: Random) -> None:
    """Put one of them there."""
    match random.choice(("fifo", "directory", "device", "dangling", "loop", "empty", "sparse", "link", "nothing")):
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "dangling":
            path.symlink_to("nowhere")
        case "loop":
            path.symlink_to(path.name)
        case "empty":
            path.touch()
        case "sparse":
            path.write_bytes(source.read_bytes())
            os.truncate(path, 8 << 30)
        case "link":
            path.symlink_to(source)
