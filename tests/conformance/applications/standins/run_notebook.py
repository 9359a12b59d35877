"""Runs the code of a notebook from top to bottom, as one program: `python -m run_notebook NAME.ipynb`.

Lines for IPython alone are left out (`%pip`, `!…`). As in a notebook, the value of a cell's last line is shown.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path


def read_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [
        "\n".join(line for line in cell.splitlines() if not (line.startswith("%") or line.lstrip().startswith("!")))
        for cell in code
    ]


def run_cell(source: str, name: str, names: dict[str, object]) -> None:
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None:
            print(f"{name}: {ast.unparse(last)} = {str(value)[:300]}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, "")
    cells = read_cells(Path(sys.argv[1]))
    for number, cell in enumerate(cells):
        run_cell(cell, f"cell {number} of {len(cells)}", globals())
