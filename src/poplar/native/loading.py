"""What `addCodelets` takes that is C++: a source file, a source text, a bundle of `popc`, a reference in an executable.

In: a path or a text, and flags for the compiler. Out: codelets for the engine. The same source in one process is one
library, whose vertices share a process.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from poplar._errors import file_load_error, graph_object_creation_error
from poplar.native.bundle import BUNDLE_SUFFIX, read_bundle
from poplar.native.codelet import NativeCodelet, list_native
from poplar.native.library import CodeletSource, compile_codelets, read_source

_TILE_CODE = (".S", ".s", ".o")


def load_source(source: str, options: Sequence[Any] = (), *, text: bool = False) -> list[NativeCodelet]:
    """The codelets of a file, or of a text."""
    flags = tuple(flag for option in options if isinstance(option, str) for flag in shlex.split(option))
    if text:
        return list(_load(CodeletSource(source, "the source text", Path.cwd(), flags)))
    if source.endswith(_TILE_CODE):
        raise file_load_error(
            f"{source} is code for tiles, which this machine cannot run. Add the C++ source of the codelets instead."
        )
    if source.endswith(BUNDLE_SUFFIX):
        return list(_load(read_bundle(Path(source))))
    return list(_load(read_source(source, flags)))


def load_reference(reference: Mapping[str, str]) -> NativeCodelet:
    """A codelet out of a saved executable: its text is compiled again, or found in the cache."""
    source = CodeletSource(reference["text"], reference["title"], preprocessed=True)
    for codelet in _load(source):
        if codelet.name == reference["vertex"]:
            return codelet
    raise graph_object_creation_error(f"{reference['title']} has no vertex {reference['vertex']!r}.")


@lru_cache(maxsize=64)
def _load(source: CodeletSource) -> tuple[NativeCodelet, ...]:
    return tuple(list_native(compile_codelets(source)))
