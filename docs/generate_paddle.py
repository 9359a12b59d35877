"""Writes the table of options of docs/paddle.md from the code, without Paddle.

python docs/generate_paddle.py            write the page
python docs/generate_paddle.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "paddle.md"
TABLE = HERE.parent / "src" / "openipu_paddle" / "option_table.py"
START, END = "<!-- options: made by docs/generate_paddle.py -->", "<!-- end of options -->"


def load_table() -> Any:
    """The module of the table; its package would import Paddle."""
    spec = importlib.util.spec_from_file_location("paddle_option_table", TABLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_page(page: str) -> str:
    """The page with a new table."""
    table = load_table()
    acts = [(name, f"{o.type}, {o.default!r}", o.effect) for name, o in table.OPTIONS.items() if o.acts]
    acts += [(name, "dictionary or function", text) for name, text in table.SPECIAL.items() if text.startswith("acts")]
    silent: dict[str, list[str]] = {}
    for name, effect in [*((n, o.effect) for n, o in table.OPTIONS.items()), *table.SPECIAL.items()]:
        if not effect.startswith("acts"):
            silent.setdefault(effect.removeprefix("no effect: "), []).append(name)
    lines = [
        "| Option | Type, default | Acts |",
        "|---|---|---|",
        *(f"| `{name}` | {kind} | {text.removeprefix('acts: ')} |" for name, kind, text in sorted(acts)),
        "",
        "Accepted, checked, and without effect:",
        "",
        "| Because | Options |",
        "|---|---|",
        *(f"| {reason} | {', '.join(f'`{name}`' for name in sorted(names))} |" for reason, names in silent.items()),
    ]
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} has no {START} … {END}.")
    return f"{before}{START}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = build_page(page)
    if "--check" in sys.argv[1:]:
        return 0 if wanted == page else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
