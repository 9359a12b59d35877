"""The kernels of our own operators as text: what a file that needs no openipu must carry along.

In: names of operators, such as "lstm_layer". Out: the functions that compute them, from the modules that define them,
with every function that these call. Names that two modules define differently are told apart by their module's.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Collection
from types import ModuleType

from openipu.graph.recurrent import gru, lstm, rnn, steps

_ENTRIES: dict[str, tuple[ModuleType, str]] = {
    "lstm_layer": (lstm, "run_lstm"),
    "lstm_layer_backward": (lstm, "differentiate_lstm"),
    "gru_layer": (gru, "run_gru"),
    "gru_layer_backward": (gru, "differentiate_gru"),
    "rnn_layer": (rnn, "run_rnn"),
    "rnn_layer_backward": (rnn, "differentiate_rnn"),
}
_GIVEN = frozenset({"aten", "torch"})  # the file has them


def write_kernels(own_ops: Collection[str]) -> str:
    """The definitions of all these operators, under their names; nothing where there are none."""
    parts: dict[str, str] = {}
    for op in sorted(own_ops):
        module, function = _ENTRIES[op]
        _add(module, function, parts)
        parts[f"{op}="] = f"{op} = {_title(module, function)}\n"
    return "\n\n".join(parts.values())


def _add(module: ModuleType, name: str, parts: dict[str, str]) -> None:
    title = _title(module, name)
    if title in parts:
        return
    node = copy.deepcopy(_find_definition(module, name))
    _Renamer({}).visit(node)
    names = _list_names(node)
    for read in names:
        owner = module if _find(module, read) is not None else steps
        if read not in (*_GIVEN, name) and _find(owner, read) is not None:
            _add(owner, read, parts)
    own = [name, *(read for read in names if read not in _GIVEN and _find(module, read) is not None)]
    renamed = _Renamer({read: _title(module, read) for read in own})
    parts[title] = ast.unparse(renamed.visit(node)) + "\n"


def _title(module: ModuleType, name: str) -> str:
    short = module.__name__.rpartition(".")[2]
    return name if module is steps or short in name.lower() else f"{short}_{name.strip('_')}"


@functools.cache
def _parse(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _find(module: ModuleType, name: str) -> ast.stmt | None:
    for node in _parse(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
        if isinstance(node, ast.Assign) and any(isinstance(at, ast.Name) and at.id == name for at in node.targets):
            return node
    return None


def _find_definition(module: ModuleType, name: str) -> ast.stmt:
    node = _find(module, name)
    assert node is not None, f"{module.__name__} has no {name}"
    return node


def _list_names(node: ast.AST) -> list[str]:
    read = [entry.id for entry in ast.walk(node) if isinstance(entry, ast.Name)]
    return list(dict.fromkeys(read))


class _Renamer(ast.NodeTransformer):
    """Gives definitions other names, and takes annotations out."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._names.get(node.name, node.name)
        node.returns = None  # types are for those who change a kernel
        self.generic_visit(node)
        return node
