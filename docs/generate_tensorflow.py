"""Writes the tables of docs/tensorflow1.md from the code, without TensorFlow.

python docs/generate_tensorflow.py            write the page
python docs/generate_tensorflow.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "tensorflow1.md"
TABLES = Path(__file__).parents[1] / "src" / "openipu_tensorflow" / "ipu" / "configuration"
MARKS = {
    "options": ("<!-- options: made by docs/generate_tensorflow.py -->", "<!-- end of options -->"),
    "flags": ("<!-- flags: made by docs/generate_tensorflow.py -->", "<!-- end of flags -->"),
}


def load_module(name: str) -> Any:
    """A module with a table; its package would import TensorFlow."""
    spec = importlib.util.spec_from_file_location(f"tensorflow_{name}", TABLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_table(what: str, effects: Iterable[tuple[str, str]]) -> str:
    """What acts, by name; then what does not, by reason."""
    acting: list[tuple[str, str]] = []
    silent: dict[str, list[str]] = {}
    for name, effect in effects:
        if effect.startswith("acts: "):
            acting.append((name, effect.removeprefix("acts: ")))
        else:
            silent.setdefault(effect.removeprefix("no effect: "), []).append(name)
    lines = [
        f"| {what} | Acts |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in acting),
        "",
        "Accepted, checked, and without effect:",
        "",
        f"| Because | {what} |",
        "|---|---|",
        *(f"| {reason} | {', '.join(f'`{name}`' for name in names)} |" for reason, names in silent.items()),
    ]
    return "\n".join(lines)


def build_page(page: str) -> str:
    """The page with new tables."""
    flags = load_module("flags").FLAGS
    tables = {
        "options": write_table("Option", load_module("effects").EFFECTS.items()),
        "flags": write_table("Flag", ((f"--{name}", flag.effect) for name, flag in flags.items())),
    }
    for kind, (start, end) in MARKS.items():
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"{PAGE} has no {start} … {end}.")
        page = f"{before}{start}\n\n{tables[kind]}\n\n{end}{after}"
    return page


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = build_page(page)
    if "--check" in sys.argv[1:]:
        return 0 if wanted == page else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
