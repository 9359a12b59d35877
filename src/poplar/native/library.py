"""C++ codelets as a compiled library, from the cache or newly made.

In: `CodeletSource`, a file or a text. Out: `CodeletLibrary`: native code on disk, and the vertices in it. The key is
the preprocessed text (with our headers in it), the compiler and its flags; nothing native comes from anywhere else than
the user's own cache.
"""

from __future__ import annotations

import platform
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openipu.store import Part, make_key, open_store
from poplar._errors import file_load_error, graph_object_creation_error
from poplar.native.compiler import INCLUDE, STANDARD, describe_compiler, run_compiler
from poplar.native.counting import count_instructions
from poplar.native.description import VertexType, parse_description
from poplar.native.members import find_vertices, strip_targets
from poplar.native.registration import write_registration

RUNNER_SOURCE = INCLUDE.parent / "runner" / "runner.cpp"

# Results must not depend on the machine: no fused multiply-add, no reordering. A vertex is never constructed.
_CODE = ("-O2", "-ftree-vectorize", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-access-control", "-fPIC", "-w")
_SOURCE_LIMIT_BYTES = 64 << 20
Parts = dict[str, Part]

LIBRARY, TEXT, SOURCE, COUNTER, RUNNER = "codelets.so", "vertices.txt", "codelets.ii", "counter.so", "runner"


@dataclass(frozen=True, slots=True)
class CodeletSource:
    """What was handed to addCodelets. `preprocessed`: from popc, with all includes in it."""

    text: str
    title: str
    folder: Path | None = None
    flags: tuple[str, ...] = ()
    preprocessed: bool = False


@dataclass(frozen=True, eq=False)
class CodeletLibrary:
    """Compiled codelets. Files stay as long as this lives."""

    title: str
    key: str  # in the cache
    code: Path
    vertices: tuple[VertexType, ...]
    preprocessed: str
    _kept: object  # the entry of the cache, or a folder of our own

    def find(self, name: str) -> VertexType | None:
        return next((vertex for vertex in self.vertices if vertex.name == name), None)


def read_source(path: str | Path, flags: tuple[str, ...] = ()) -> CodeletSource:
    """A C++ file."""
    path = Path(path)
    try:
        if path.stat().st_size > _SOURCE_LIMIT_BYTES:
            raise file_load_error(f"The codelet file {path} has more than {_SOURCE_LIMIT_BYTES >> 20} MiB.")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise file_load_error(
            f"The codelet file {path} cannot be read ({error.strerror}). Paths are relative to {Path.cwd()}."
        ) from error
    return CodeletSource(text, str(path), path.resolve().parent, flags)


def preprocess(source: CodeletSource) -> str:
    """The whole text that the compiler sees."""
    if source.preprocessed:
        return source.text
    shown = source.title.replace("\\", "/").replace('"', "'")
    here = ["-iquote", str(source.folder)] if source.folder else []
    arguments = [
        *(STANDARD, "-E", "-D__POPC__", "-isystem", str(INCLUDE), *here, *source.flags),
        *("-include", "poplar/Codelet.hpp", "-x", "c++", "-"),
    ]
    text = f'#line 1 "{shown}"\n{source.text}'
    return strip_targets(run_compiler(arguments, source.title, text, source.folder))


def compile_codelets(source: CodeletSource) -> CodeletLibrary:
    """The library of a source."""
    preprocessed = preprocess(source)
    try:
        vertices = find_vertices(preprocessed)
    except RecursionError as error:
        raise graph_object_creation_error(f"{source.title} nests namespaces or classes too deeply.") from error
    if not vertices:
        run_compiler([STANDARD, "-fsyntax-only", "-w", "-x", "c++-cpp-output", "-"], source.title, preprocessed)
        raise graph_object_creation_error(
            f"{source.title} defines no vertex. Derive a class from poplar::Vertex or poplar::MultiVertex; a template "
            "needs a line such as `template class MyVertex<float>;`."
        )
    whole = preprocessed + write_registration(vertices)

    def make(scratch: Path) -> Parts:
        unit, code = scratch / "unit.ii", scratch / LIBRARY
        unit.write_text(whole, encoding="utf-8")
        run_compiler([STANDARD, *_CODE, "-shared", "-x", "c++-cpp-output", str(unit), "-o", str(code)], source.title)
        return {
            LIBRARY: Part(code.read_bytes(), native=True),
            TEXT: Part(_ask_for_description(code, source.title)),
            SOURCE: Part(preprocessed.encode()),
        }

    key, kept, find = _obtain(
        {"kind": "codelets", "parts": (LIBRARY, TEXT, SOURCE), "text": whole, "flags": _CODE}, make
    )
    return _open(source.title, key, kept, find)


def find_codelets(key: str, title: str) -> CodeletLibrary | None:
    """A library that this user compiled before, if the cache still has it."""
    entry = open_store().read(key)
    if entry is None or not all(name in entry for name in (LIBRARY, TEXT, SOURCE)):
        return None
    return _open(title, key, entry, entry.find)


def _open(title: str, key: str, kept: object, find: Callable[[str], Path]) -> CodeletLibrary:
    described = find(TEXT).read_text(encoding="utf-8")
    preprocessed = find(SOURCE).read_text(encoding="utf-8")
    return CodeletLibrary(title, key, find(LIBRARY), parse_description(described, title), preprocessed, kept)


def compile_counter(library: CodeletLibrary) -> Path | None:
    """The same codelets with a counter of instructions; None where the rule does not know the processor."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    whole = library.preprocessed + write_registration(find_vertices(library.preprocessed))
    flags = ("-O1", "-fsanitize-coverage=trace-pc", *_CODE[2:])

    def make(scratch: Path) -> Parts:
        unit, assembly, code = scratch / "unit.ii", scratch / "unit.s", scratch / COUNTER
        unit.write_text(whole, encoding="utf-8")
        arguments = [STANDARD, *flags, "-S", "-x", "c++-cpp-output", str(unit), "-o", str(assembly)]
        run_compiler(arguments, library.title)
        assembly.write_text(count_instructions(assembly.read_text(encoding="utf-8")), encoding="utf-8")
        run_compiler(["-shared", str(assembly), "-o", str(code)], library.title)
        return {COUNTER: Part(code.read_bytes(), native=True)}

    _, kept, find = _obtain({"kind": "counted codelets", "text": whole, "flags": flags}, make)
    _counters[library] = kept
    return find(COUNTER)


_counters: weakref.WeakKeyDictionary[CodeletLibrary, object] = weakref.WeakKeyDictionary()


@cache
def find_runner() -> Path:
    """The program that runs codelets, compiled once."""
    text = RUNNER_SOURCE.read_text(encoding="utf-8")
    headers = "".join(path.read_text(encoding="utf-8") for path in sorted((INCLUDE / "poplar").glob("[CVHT]*.hpp")))

    def make(scratch: Path) -> Parts:
        program = scratch / RUNNER
        arguments = [STANDARD, "-O2", "-isystem", str(INCLUDE), str(RUNNER_SOURCE), "-ldl", "-o", str(program)]
        run_compiler(arguments, "The runner of codelets")
        return {RUNNER: Part(program.read_bytes(), native=True)}

    _, kept, find = _obtain({"kind": "codelet runner", "text": text, "headers": headers}, make)
    _kept_runner.append(kept)
    program = find(RUNNER)
    program.chmod(0o700)
    return program


_kept_runner: list[object] = []


def _obtain(facts: dict[str, object], make: Callable[[Path], Parts]) -> tuple[str, object, Callable[[str], Path]]:
    """Parts from the cache, or made now. Where native code cannot be kept, it lives in a folder of this process."""
    made: Parts = {}

    def make_parts() -> Parts:
        with tempfile.TemporaryDirectory(prefix="openipu-codelets-") as scratch:
            made.update(make(Path(scratch)))
        return made

    key = make_key({**facts, "compiler": describe_compiler(), "machine": platform.machine()})
    entry, _ = open_store().obtain(key, make_parts)
    if entry is not None and any(name in entry for name in (LIBRARY, COUNTER, RUNNER)):
        return key, entry, entry.find
    if not made:
        make_parts()
    folder = tempfile.TemporaryDirectory(prefix="openipu-codelets-")
    for name, part in made.items():
        (Path(folder.name) / name).write_bytes(part.content if isinstance(part.content, bytes) else b"")
    return key, folder, lambda name: Path(folder.name) / name


def _ask_for_description(code: Path, title: str) -> bytes:
    from poplar.native.process import CodeletProcess

    with CodeletProcess(code, title) as process:
        text = process.describe()
    parse_description(text, title)
    return text.encode()
