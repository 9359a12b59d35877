"""Values of a graph are replaced in `drafts/` alone: by rules, or by the one function for passes over whole graphs."""

from __future__ import annotations

import ast
from pathlib import Path

from openipu import run

_ROOT = Path(run.__file__).parent
_BEFORE_RULES = "is being said as a rule"
# Files that still replace values by hand, and why.
EXCEPTED = {
    "rewrites/half/keep_wide.py": _BEFORE_RULES,
    "rewrites/half/partials.py": _BEFORE_RULES,
    "rewrites/half/redundant_roundings.py": _BEFORE_RULES,
    "rewrites/half/rounded_products.py": _BEFORE_RULES,
    "rewrites/half/rounding.py": _BEFORE_RULES,
    "rewrites/half/wide_weights.py": _BEFORE_RULES,
    "rewrites/half/widen_all.py": _BEFORE_RULES,
    "rewrites/half/widen_products.py": _BEFORE_RULES,
    "rewrites/pruning/prune.py": "changes the sizes of a whole graph, and still replaces by itself",
    "update/contraction.py": _BEFORE_RULES,
    "update/scalar_lanes.py": _BEFORE_RULES,
}


def replaces_values(source: str) -> bool:
    names = (node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return "replace_all_uses_with" in names


def test_passes_do_not_replace_values_by_hand() -> None:
    found = {
        path.relative_to(_ROOT).as_posix()
        for path in _ROOT.rglob("*.py")
        if "drafts" not in path.parts and replaces_values(path.read_text(encoding="utf-8"))
    }
    assert found == set(EXCEPTED), "a file replaces values by hand, or needs no exception any more"


def test_replacement_by_hand_is_noticed() -> None:
    assert replaces_values("def change(node, new):\n    node.replace_all_uses_with(new)")
    assert not replaces_values("# replace_all_uses_with\nreplace_value(graph, node, new)")
