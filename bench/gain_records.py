"""Writes into the records of passes and kernels which workloads gain from them: `python -m bench.gain_records`.

In: `bench/gains.json`. Out: `gains=(…)` in each record of the files below, the clearest gains of two families. Whoever
has measured runs it, then ruff.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from bench.gain_subjects import KERNEL
from bench.gain_workloads import WORKLOADS
from bench.gains import FAMILIES, Results

FOLDER = Path(__file__).parents[1] / "src/openipu/run"
FILES = {
    FOLDER / "engine/pass_list.py": "",
    FOLDER / "rewrites/simplify.py": "",
    FOLDER / "kernels/catalog.py": KERNEL,
}
RECORDS = ("Pass", "Kernel", "Optimization")


def choose_workloads(found: dict[str, Any]) -> list[str]:
    """The clearest gain of each family, of so many families."""
    gaining = sorted((name for name in found if found[name]["gains"]), key=lambda name: -found[name]["lower"])
    best: dict[str, str] = {}
    for name in gaining:
        best.setdefault(WORKLOADS[name].family, name)
    return list(best.values())[:FAMILIES]


def write_records(text: str, prefix: str, entries: dict[str, Any]) -> str:
    """A file with other gains."""
    tree, lines = ast.parse(text), [line.encode() for line in text.splitlines(keepends=True)]
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    records = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in RECORDS]
    for call in sorted(records, key=lambda call: -call.lineno):
        first = call.args[0]
        name = constants.get(ast.unparse(first), getattr(first, "value", None))
        workloads = choose_workloads(entries.get(f"{prefix}{name}", {}))
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if "gains" in given:
            old = given["gains"]
            first_line, last_line = old.lineno - 1, (old.end_lineno or 0) - 1
            tail = lines[last_line][old.end_col_offset :]
            lines[first_line : last_line + 1] = [lines[first_line][: old.col_offset] + _write(workloads) + tail]
        elif workloads:
            last = max((*call.args, *given.values()), key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
            line, column = (last.end_lineno or 0) - 1, last.end_col_offset
            lines[line] = lines[line][:column] + b", gains=" + _write(workloads) + lines[line][column:]
    return b"".join(lines).decode()


def _write(workloads: list[str]) -> bytes:
    return repr(tuple(workloads)).replace("'", '"').encode()


def main() -> None:
    for path, prefix in FILES.items():
        path.write_text(write_records(path.read_text(), prefix, Results().entries))


if __name__ == "__main__":
    main()
