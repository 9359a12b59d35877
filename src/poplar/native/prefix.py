"""A folder that C++ programs are built against: headers, the library, files for CMake.

In: the sources of this package and the system's compiler. Out: a folder in the user's cache, made once for them:

    include -> the package's headers
    lib/libpoplar.a, and libpopops.a, libpoplin.a, … which stand for it
    lib/cmake/poplar/poplar-config.cmake, and the same for the other names

The library starts the Python that this runs in; OPENIPU_PYTHON names another one when a program runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from openipu.store import choose_directory, make_key
from poplar.native.compiler import INCLUDE, STANDARD, describe_compiler, run_compiler

SOURCES = INCLUDE.parent / "source"
CMAKE = INCLUDE.parent / "cmake" / "config.cmake.in"
FURTHER_LIBRARIES = ("popops", "poplin", "popnn", "poprand", "poputil", "pva")
_PACKAGES = ("poplar", "poplibs", *FURTHER_LIBRARIES)
_FLAGS = (STANDARD, "-O2", "-fPIC", "-w")


def find_prefix() -> Path:
    """The folder, made now if there is none for these sources."""
    files = sorted([*SOURCES.iterdir(), *INCLUDE.rglob("*.hpp"), CMAKE])
    key = make_key(
        {
            "kind": "prefix",
            "files": {str(path.relative_to(INCLUDE.parent)): path.read_text(encoding="utf-8") for path in files},
            "compiler": describe_compiler(),
            "flags": _FLAGS,
            "python": sys.executable,
            "include": str(INCLUDE),
        }
    )
    place = choose_directory() / "cxx" / key[:16]
    if not place.exists():
        _make(place)
    return place


def _make(place: Path) -> None:
    """Build beside the place, and move there as a whole: another process may build the same."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        library = scratch / "lib"
        library.mkdir()
        os.symlink(INCLUDE, scratch / "include")
        _compile(library)
        for name in FURTHER_LIBRARIES:
            (library / f"lib{name}.a").write_text("INPUT ( -lpoplar )\n", encoding="utf-8")
        _write_cmake(library / "cmake", place)
        with contextlib.suppress(OSError):  # the other one was quicker
            scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile(folder: Path) -> None:
    python = sys.executable.replace("\\", "\\\\").replace('"', '\\"')
    unit = folder / "poplar.cpp"
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix == ".cpp")
    unit.write_text("".join(f'#include "{path}"\n' for path in sources), encoding="utf-8")
    arguments = [
        "-isystem",
        str(INCLUDE),
        f'-DOPENIPU_PYTHON="{python}"',
        "-c",
        str(unit),
        "-o",
        str(folder / "poplar.o"),
    ]
    run_compiler([*_FLAGS, *arguments], "openipu's library for C++")
    archive = folder / "libpoplar.a"
    _write_archive(archive, folder / "poplar.o")
    unit.unlink()
    (folder / "poplar.o").unlink()


def _write_archive(archive: Path, member: Path) -> None:
    """One object behind a linker script would need a fixed path; an archive of one member is a few bytes more."""
    import subprocess

    subprocess.run(["ar", "rcs", str(archive), str(member)], check=True, capture_output=True, timeout=120)


def _write_cmake(folder: Path, place: Path) -> None:
    text = CMAKE.read_text(encoding="utf-8")
    popc = Path(sysconfig.get_path("scripts")) / "popc"
    for mark, value in (("@LIBRARY@", place / "lib" / "libpoplar.a"), ("@INCLUDE@", INCLUDE), ("@POPC@", popc)):
        text = text.replace(mark, str(value))
    for name in _PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}-config.cmake").write_text(text, encoding="utf-8")
        (folder / name / f"{name}-config-version.cmake").write_text(
            "set(PACKAGE_VERSION_COMPATIBLE TRUE)\n", encoding="utf-8"
        )
