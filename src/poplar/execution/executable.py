"""Compiled programs, and as files.

In: what `compileGraph` made, or a file. Out: an `Executable`. A file holds no code: codelets are found again among the
classes that this process has, or that are given; what is read is checked before anything of it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openipu.admission import check_mapped_program
from openipu.errors import ArchiveError
from openipu.files.arrays import read_arrays
from openipu.files.documents import dump_json, parse_json
from openipu.files.origin import Origin
from openipu.files.saving import write_aside
from openipu.graph.mapped import dump_mapped, find_conflicts, load_mapped
from poplar._codelets import PythonCodelet, Vertex
from poplar._errors import graph_object_load_error, graph_program_compilation_error
from poplar._target import TargetType
from poplar.execution.compile import Compiled

_DOCUMENT = "document"
_ADVICE = "Compile the graph again, and serialise it with this version."
_LARGEST_DOCUMENT = 1 << 30


class Executable:
    """A compiled program. It holds no values of variables."""

    def __init__(self, compiled: Compiled, options: Mapping[str, str], kind: TargetType) -> None:
        self.compiled = compiled
        self.options = dict(options)
        self.kind = kind

    def serialize(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all."""
        try:
            document, arrays = dump_mapped(self.compiled.program)
        except ArchiveError as error:
            raise graph_program_compilation_error(f"The executable cannot be serialised: {error}.") from error
        text = dump_json({**document, "options": self.options, "kind": self.kind.value})
        with write_aside(Path(path)) as part, part.open("wb") as file:
            np.savez(file, **{_DOCUMENT: np.frombuffer(text.encode(), dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]

    @staticmethod
    def deserialize(path: str | Path, codelets: Sequence[Any] = ()) -> Executable:
        """Read a file. `codelets` are those that it may refer to, beside the classes that are imported."""
        origin = Origin(f"The executable {path}", graph_object_load_error, _ADVICE)  # type: ignore[arg-type]
        arrays = read_arrays(Path(path), origin)
        if _DOCUMENT not in arrays:
            raise graph_object_load_error(f"{path} holds no executable. {_ADVICE}")
        content = parse_json(arrays.pop(_DOCUMENT).tobytes(), dict[str, Any], origin, _LARGEST_DOCUMENT)
        given = {_name(one): one for one in codelets}
        try:
            program = load_mapped(
                {key: content.get(key) for key in ("format", "nodes", "program")},
                arrays,
                lambda name, reference: _find_codelet(name, reference, given),
            )
            check_mapped_program(program)
            options, kind = dict(content["options"]), TargetType(content["kind"])
        except (ArchiveError, KeyError, ValueError, TypeError) as error:
            raise graph_object_load_error(f"{path} cannot be used: {error}. {_ADVICE}") from error
        conflicts = tuple(find_conflicts(compute_set, program.codelets) for compute_set in program.compute_sets)
        return Executable(Compiled(program, conflicts), {str(k): str(v) for k, v in options.items()}, kind)


def _name(codelet: Any) -> str:
    return str(codelet.__name__ if isinstance(codelet, type) else codelet.name)


def _find_codelet(name: str, reference: Mapping[str, str], given: Mapping[str, Any]) -> Any:
    """A codelet by name, among what was given, imported or, in C++, compiled already. A file brings no code along."""
    found = given.get(name)
    if found is None and reference.get("kind") == "c++":
        from poplar.native.loading import load_reference

        return load_reference(reference)
    if found is None:
        found = sys.modules.get(str(reference.get("module", "")))
        for part in str(reference.get("class", "")).split("."):
            found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Vertex):
        return PythonCodelet(found)
    if found is not None and not isinstance(found, type) and hasattr(found, "run") and hasattr(found, "fields"):
        return found
    raise ArchiveError(
        f"it refers to the codelet {name} of {reference.get('module') or reference.get('file')}, which is not imported "
        "here; import its module first, or give the class: Executable.deserialize(path, codelets=[…])"
    )
