"""Lets this environment find the packages of another: `python tools/overlay.py .venv`, run by the environment on top.

A path in a `.pth` file would not do: the editable install of this project is a `.pth` file itself.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

NAME = "openipu-overlay.pth"


def main(below: str) -> None:
    inside = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    packages = Path(below).resolve() / inside
    if not packages.is_dir():
        raise SystemExit(f"{packages} is not there: make {below} first.")
    line = f"import site; site.addsitedir({str(packages)!r})\n"
    (Path(sysconfig.get_path("purelib")) / NAME).write_text(line, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
