"""What `addCodelets` takes that is C++: a source file, a source text, a bundle of `popc`, a reference in an executable.

In: a path or a text, and flags for the compiler. Out: codelets for the engine. The same source in one process is one
library, whose vertices share a process.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from openipu.errors import ArchiveError
from poplar._errors import file_load_error, graph_object_load_error
from poplar.native.bundle import BUNDLE_SUFFIX, read_bundle
from poplar.native.codelet import REFERENCE_KIND, NativeCodelet, list_native
from poplar.native.library import CodeletSource, compile_codelets, find_codelets, read_source

_TILE_CODE = (".S", ".s", ".o")
CHECKS_VARIABLE = "OPENIPU_CODELET_CHECKS"


def load_source(source: str, options: Sequence[Any] = (), *, text: bool = False) -> list[NativeCodelet]:
    """The codelets of a file, or of a text."""
    flags = tuple(flag for option in options if isinstance(option, str) for flag in shlex.split(option))
    if os.environ.get(CHECKS_VARIABLE, "0") not in ("", "0"):
        flags = (*flags, "-DOPENIPU_CHECK_BOUNDS")
    if text:
        return list(_load(CodeletSource(source, "the source text", Path.cwd(), flags)))
    if source.endswith(_TILE_CODE):
        raise file_load_error(
            f"{source} is code for tiles, which this machine cannot run. Add the C++ source of the codelets instead."
        )
    if source.endswith(BUNDLE_SUFFIX):
        return list(_load(read_bundle(Path(source))))
    return list(_load(read_source(source, flags)))


def load_reference(reference: Mapping[str, str]) -> NativeCodelet | None:
    """A codelet that a saved executable refers to, if this user compiled it before; None for other references."""
    if reference.get("kind") != REFERENCE_KIND:
        return None
    title, key = str(reference.get("title")), str(reference.get("key"))
    try:
        codelets = _load_kept(key, title)
    except ArchiveError:  # no key at all
        codelets = ()
    for codelet in codelets:
        if codelet.name == reference.get("vertex"):
            return codelet
    raise graph_object_load_error(
        f"The executable needs the codelets of {title}, which this machine has not compiled, or not any more: a saved "
        "executable holds no code. Compile them first (popc, or addCodelets on any graph)."
    )


_kept: dict[str, tuple[NativeCodelet, ...]] = {}  # by key: codelets of one library share a process


def _load_kept(key: str, title: str) -> tuple[NativeCodelet, ...]:
    if key not in _kept:
        library = find_codelets(key, title)
        if library is None:
            return ()
        _kept[key] = tuple(list_native(library))
    return _kept[key]


@lru_cache(maxsize=64)
def _load(source: CodeletSource) -> tuple[NativeCodelet, ...]:
    return tuple(list_native(compile_codelets(source)))
