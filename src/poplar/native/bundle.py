"""Bundles of `popc`: preprocessed codelets in a file, to be compiled where they are loaded.

In and out: `CodeletSource`. A bundle holds text, never native code, so that one from somebody else runs nothing before
it is compiled here, and works on another kind of machine.
"""

from __future__ import annotations

from pathlib import Path

from poplar._errors import file_load_error
from poplar.native.library import CodeletSource

BUNDLE_SUFFIX = ".gp"
_HEAD = "// openipu codelets 1\n"
_LIMIT_BYTES = 256 << 20


def write_bundle(path: Path, source: CodeletSource) -> None:
    """Save preprocessed codelets."""
    path.write_text(f"{_HEAD}// {source.title.splitlines()[0]}\n{source.text}", encoding="utf-8")


def read_bundle(path: Path) -> CodeletSource:
    """Codelets that `popc` has written."""
    try:
        if path.stat().st_size > _LIMIT_BYTES:
            raise file_load_error(f"The bundle {path} has more than {_LIMIT_BYTES >> 20} MiB.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise file_load_error(
            f"The bundle {path} cannot be read ({error.strerror}). Paths are relative to {Path.cwd()}; `popc` makes it."
        ) from error
    except UnicodeDecodeError as error:
        raise file_load_error(_describe(path)) from error
    head, _, rest = text.partition("\n")
    if f"{head}\n" != _HEAD or not rest.startswith("// "):
        raise file_load_error(_describe(path))
    title, _, body = rest.removeprefix("// ").partition("\n")
    return CodeletSource(body, title, preprocessed=True)


def _describe(path: Path) -> str:
    return (
        f"{path} is no bundle of openipu's popc; one of the original holds code for tiles. Compile the source again: "
        f"popc codelets.cpp -o {path.name}."
    )
