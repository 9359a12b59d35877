"""Which items of the public PopART suite use its public interface alone, told from what their code names.

In: a test file as it is. Out: for each test function what it uses besides the public interface, one of `KINDS`, or
`PUBLIC`. Names are followed through helpers and fixtures: functions and classes of the same file, of modules of the
suite that it imports, and of the `conftest.py` files above it. Outcomes of tests play no part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PUBLIC = "the public interface alone"
# The first that an item uses is its kind. Reports and cycle counts are public: `getReport`, `getCycleCount`.
KINDS: dict[str, tuple[str, ...]] = {
    "loads C++ ops of the suite's own build": ("LoadLibrary", "cdll"),
    "uses PopXL, another interface": ("popxl",),
    "reads PopART's private IR": ("_serializeIr", "_internal"),
    "reads log text": ("capfd", "capsys", "caplog", "POPLIBS_LOG_LEVEL", "POPLAR_LOG_LEVEL", "POPART_LOG_LEVEL"),
}
_MARKS = frozenset(mark for marks in KINDS.values() for mark in marks)


def classify(file: Path, root: Path) -> dict[str, str]:
    """The kind of each test function of a file. `root`: the folder of the whole suite."""
    found = _read(file)
    fixtures = _list_fixtures(file, root)
    return {
        name: _choose(_reach(found, name, root, fixtures))
        for name in found.definitions
        if name.rpartition(".")[2].startswith("test")
    }


def classify_item(item: str, kinds: dict[str, str]) -> str:
    """The kind of one item, such as "test_x[2-float]". A file that was not collected is what most of it uses."""
    name = item.partition("[")[0]
    known = [kind for test, kind in kinds.items() if test == name or test.endswith(f".{name}")]
    every = known or list(kinds.values()) or [PUBLIC]
    return max(every, key=every.count)


class _File:
    """What a file defines and imports, and what its own level names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.definitions: dict[str, ast.AST] = {}
        self.modules: dict[str, str] = {}  # name -> module that it is
        self.imported: dict[str, tuple[str, str]] = {}  # name -> module and name there
        self.level: set[str] = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                self.definitions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.definitions[node.name] = node
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                self.definitions |= {f"{node.name}.{part.name}": part for part in methods}
            elif isinstance(node, ast.Import):
                self.modules |= {alias.asname or alias.name: alias.name for alias in node.names}
                self.level |= _list_names(node) & _MARKS
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
                self.level |= _list_names(node) & _MARKS
            else:
                self.level |= _list_names(node)


@cache
def _read(path: Path) -> _File:
    return _File(path)


def _list_names(node: ast.AST) -> set[str]:
    return set(_walk_names(node))


def _walk_names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.alias):
            yield from part.name.split(".")
        elif isinstance(part, ast.ImportFrom) and part.module:
            yield from part.module.split(".")
        elif isinstance(part, ast.Constant) and part.value in _MARKS:
            yield str(part.value)


def _list_fixtures(file: Path, root: Path) -> list[_File]:
    folders = [folder for folder in file.parents if folder == root or root in folder.parents]
    return [_read(folder / "conftest.py") for folder in folders if (folder / "conftest.py").is_file()]


def _reach(file: _File, test: str, root: Path, fixtures: list[_File]) -> set[str]:
    """Every name that a test names, by itself or through what it calls."""
    found = set(file.level)
    todo, seen = [(file, test)], {(file.path, test)}
    while todo:
        place, name = todo.pop()
        own = _list_names(place.definitions[name])
        found |= own
        for other, called in _list_called(place, name, own, root, fixtures if place is file else []):
            if called in other.definitions and (other.path, called) not in seen:
                seen.add((other.path, called))
                todo.append((other, called))
                found |= other.level & _MARKS
    return found


def _list_called(
    place: _File, name: str, own: set[str], root: Path, fixtures: list[_File]
) -> Iterator[tuple[_File, str]]:
    kind = name.partition(".")[0]
    for word in own:
        yield place, word
        yield place, f"{kind}.{word}"
        if word in place.imported:
            module, there = place.imported[word]
            for other in _find_module(module, place.path, root):
                yield other, there
        for fixture in fixtures:
            yield fixture, word
    for alias in own & set(place.modules):
        for other in _find_module(place.modules[alias], place.path, root):
            for word in own:
                yield other, word


def _find_module(name: str, path: Path, root: Path) -> Iterator[_File]:
    """A module of the suite: beside the file, or further up, as the suite's own search path has it."""
    for folder in path.parents:
        candidate = folder.joinpath(*name.split(".")).with_suffix(".py")
        if name and candidate.is_file():
            yield _read(candidate)
            return
        if folder == root:
            return


def _choose(names: set[str]) -> str:
    return next((kind for kind, marks in KINDS.items() if names.intersection(marks)), PUBLIC)
