"""Reads source without running it: names of an SDK that the code mentions, also in branches that a run would not take.

In: a file, the modules of the SDK, what their functions return. Out: a `Use` for each name and line. Objects are
followed through assignments within one file: `opts = poptorch.Options()` makes `opts.Training` a name of the SDK.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from openipu.cli.usage.uses import Use


def scan_file(path: Path, modules: Collection[str], results: Mapping[str, str]) -> list[Use]:
    """The uses in one file. `results` maps a name that is called to the name of what it returns."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError):
        return []  # running it says what is wrong with it
    scanner = _Scanner(str(path), modules, results)
    scanner.visit(tree)
    return scanner.uses


def find_local_files(script: Path) -> Iterator[Path]:
    """The script and the modules beside or below it that it imports, also through each other."""
    root, waiting, seen = script.parent, [script], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield path
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for level, name in _list_imports(tree):
            start = path.parents[level - 1] if 0 < level <= len(path.parents) else root
            place = start.joinpath(*name.split("."))
            waiting += [place.with_suffix(".py"), place / "__init__.py"]


def _list_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(leading dots, name)"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.level, node.module
            prefix = f"{node.module}." if node.module else ""
            yield from ((node.level, f"{prefix}{alias.name}") for alias in node.names if alias.name != "*")


class _Scanner(ast.NodeVisitor):
    """Knows which expressions stand for names of the SDK."""

    def __init__(self, file: str, modules: Collection[str], results: Mapping[str, str]) -> None:
        self.uses: list[Use] = []
        self._file = file
        self._modules = modules
        self._results = results
        self._known: dict[str, str] = {}  # source text, such as "opts" or "self.opts" -> name

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if self._belongs(alias.name):
                self._add(alias.name, node.lineno)
                self._known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module:
            return
        inside = self._belongs(node.module)
        if inside:
            self._add(node.module, node.lineno)
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if alias.name != "*" and (inside or self._belongs(name)):  # `from tensorflow.python import ipu`
                self._add(name, node.lineno)
                self._known[alias.asname or alias.name] = name

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if node.value is not None:
            self._bind(node.target, node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        name = self._resolve(node)
        if name is not None:
            self._add(name, node.lineno)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            name = self._resolve(value)
            if name is not None:
                self._known[ast.unparse(target)] = name
            else:
                self._known.pop(ast.unparse(target), None)

    def _resolve(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name | ast.Attribute):
            known = self._known.get(ast.unparse(node))
            if known is not None:
                return known
        if isinstance(node, ast.Attribute):
            owner = self._resolve(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        if isinstance(node, ast.Call):
            called = self._resolve(node.func)
            return None if called is None else self._results.get(called)
        return None

    def _belongs(self, module: str) -> bool:
        return any(module == known or module.startswith(f"{known}.") for known in self._modules)

    def _add(self, name: str, line: int) -> None:
        self.uses.append(Use(name, self._file, line))
