"""`openipu` starts without any framework but PyTorch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import openipu

FRAMEWORKS = {"onnx", "tensorflow", "keras", "paddle"}
NOT_FOR_TYPES = "if TYPE_CHECKING:\n    pass\nelse:\n    import onnx"
FILES = sorted(Path(openipu.__file__).parent.rglob("*.py"))


def find_early_imports(tree: ast.AST) -> set[str]:
    """Packages that are imported when the module is, also under if and try, but not in functions or for types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found.update(entry.name.partition(".")[0] for entry in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
        waiting.extend(ast.iter_child_nodes(node))
    return found


def test_no_module_of_openipu_imports_another_framework_when_it_is_imported() -> None:
    assert len(FILES) > 100
    early = {path: find_early_imports(ast.parse(path.read_text(encoding="utf-8"))) & FRAMEWORKS for path in FILES}
    assert {str(path): names for path, names in early.items() if names} == {}


@pytest.mark.parametrize(
    "text", ["import onnx", "from onnx import helper", "if 1:\n    import keras.layers", NOT_FOR_TYPES]
)
def test_the_search_sees_an_import_at_module_level(text: str) -> None:
    assert find_early_imports(ast.parse(text)) & FRAMEWORKS
    assert not find_early_imports(ast.parse("def f():\n    import onnx"))
