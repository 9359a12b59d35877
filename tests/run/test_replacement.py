"""Values of a graph are replaced in `drafts/` alone: by rules, or by the one function for passes over whole graphs."""

from __future__ import annotations

import ast
from pathlib import Path

from openipu import run

_ROOT = Path(run.__file__).parent


def replaces_values(source: str) -> bool:
    names = (node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return "replace_all_uses_with" in names


def test_passes_do_not_replace_values_by_hand() -> None:
    found = {
        path.relative_to(_ROOT).as_posix()
        for path in _ROOT.rglob("*.py")
        if "drafts" not in path.parts and replaces_values(path.read_text(encoding="utf-8"))
    }
    assert not found, "use a rule, or `replace_value` of drafts/replacement.py"


def test_replacement_by_hand_is_noticed() -> None:
    assert replaces_values("def change(node, new):\n    node.replace_all_uses_with(new)")
    assert not replaces_values("# replace_all_uses_with\nreplace_value(graph, node, new)")
