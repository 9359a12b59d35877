"""Writes the table of options of docs/paddle.md and all of docs/paddle_api.md from the code, without Paddle.

In: paddle_names.json, the public names of the original; our classes, tables and rules. Out: what is there and what is
lacking of each; a name that is missing without a reason, and a reason for what is there, are errors.

python docs/generate_paddle.py            write the pages
python docs/generate_paddle.py --check    exit code 1 if a page is not up to date
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, API_PAGE = HERE / "paddle.md", HERE / "paddle_api.md"
SOURCES = HERE.parent / "src" / "openipu_paddle"
NAMES = HERE / "paddle_names.json"  # what the original has
START, END = "<!-- options: made by docs/generate_paddle.py -->", "<!-- end of options -->"

# what users call a class, its file, and the class in it: all of its public members are listed
CLASSES = {
    "paddle.static.IpuStrategy": ("strategy.py", "IpuStrategy"),
    "paddle.static.IpuCompiledProgram": ("compiled_program.py", "IpuCompiledProgram"),
    "paddle.base.core.IpuStrategy": ("strategy.py", "OptionStore"),
    "paddle.base.core.IpuBackend": ("backend.py", "IpuBackend"),
    "paddle.IPUPlace": ("devices.py", "make_place_class.IPUPlace"),
    "paddle.inference.Config": ("inference.py", "make_config_class.Config"),
}
INTRODUCTION = """\
# PaddlePaddle on IPU: every name

<!-- Made by docs/generate_paddle.py from the code. Do not edit. -->

What Paddle's IPU wheel adds to Paddle, and what of it is here. [How to use it](paddle.md); [every option of
IpuStrategy](paddle.md#options).

- **acts**: does here what it does there.
- **no effect**: accepted; there is nothing here that it could change.
- **lacks**: is not here, and a program that needs it is refused with an error that says so.
"""


def load_module(name: str) -> Any:
    """A module with a table; its package would import Paddle."""
    spec = importlib.util.spec_from_file_location(f"paddle_{name}", SOURCES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_page(page: str) -> str:
    """The page with a new table."""
    table = load_module("option_table")
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


def load_names() -> dict[str, list[str]]:
    """The original's names: members by class, functions, variables, ops."""
    return {kind: names.split() for kind, names in json.loads(NAMES.read_text(encoding="utf-8")).items()}


def find_lacking(wanted: list[str], found: Iterable[str], reasons: Mapping[str, str], what: str) -> dict[str, str]:
    """The names that are not there, with reasons."""
    missing = sorted(set(wanted) - set(found))
    wrong = [name for name in missing if name not in reasons] + [name for name in reasons if name not in missing]
    if wrong:
        raise SystemExit(f"{what}: {wrong[0]} is missing without a reason, or has a reason and is there.")
    return {name: reasons[name] for name in missing}


def find_replaced() -> set[str]:
    """The last parts of the names that the code puts into Paddle: `module.name = …`, and calls that name them."""
    found = set()
    for path in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                found |= {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_set_everywhere", "_replace"):
                found |= {entry.value for entry in node.args if isinstance(entry, ast.Constant)}
    return found


def find_variables() -> set[str]:
    """The environment variables that the code reads, by its constants `…_VARIABLE`, and those of its start-up hook."""
    found = set()
    for path in (*SOURCES.glob("*.py"), *(SOURCES.parent / "openipu_startup").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else []
            if any(isinstance(target, ast.Name) and target.id.endswith("_VARIABLE") for target in targets):
                found.add(node.value.value)
    return found


def check_tables(names: Any, original: Mapping[str, list[str]]) -> None:
    """What the tables of functions and variables say is what the code does."""
    put = find_replaced()
    own = names.PADDLES_OWN
    silent = [name for name in names.FUNCTIONS if (name.rpartition(".")[2] in put) == (name in own)]
    read = find_variables()
    silent += [name for name, effect in names.VARIABLES.items() if effect.startswith("acts") and name not in read]
    if silent:
        raise SystemExit(f"names.py says that {silent[0]} acts, or is Paddle's own, and {SOURCES.name} says otherwise.")
    find_lacking(original["functions"], names.FUNCTIONS, {}, "functions")
    find_lacking(original["variables"], names.VARIABLES, {}, "environment variables")


def build_api_page() -> str:
    """The page of names."""
    from openipu.translate.paddle.optimizers import OPTIMIZERS
    from openipu.translate.paddle.pir_table import ADAPTERS
    from openipu.translate.paddle.table import TABLE as OPS

    names, original = load_module("names"), load_names()
    check_tables(names, original)
    ops = sorted(op for _, op in OPS.list_ops())
    new = sorted(set(ADAPTERS) - set(ops))
    lines = [INTRODUCTION]
    for name, (file, path) in CLASSES.items():
        lines += ["", f"## `{name}`", "", *_write_class(file, path, original[name])]
    lines += ["", "## Functions", "", *_write_rows("Name", names.FUNCTIONS)]
    lines += ["", "## Environment", "", *_write_rows("Variable", names.VARIABLES)]
    lacking = find_lacking(original["ops"], ops, names.ABSENT_OPS, "ops")
    has = len(original["ops"]) - len(lacking)
    lines += [
        "",
        "## Ops",
        "",
        f"Of the original's {len(original['ops'])} types of ops {has} are translated. It lacks:",
        "",
    ]
    lines += _write_rows("Op", lacking)
    lines += ["", f"{len(ops)} types of ops of the legacy form are translated in all:", ""]
    lines += [", ".join(f"`{op}`" for op in ops) + "."]
    lines += ["", f"Programs of the new form (PIR) have {len(new)} ops more under names of their own:", ""]
    lines += [", ".join(f"`{op}`" for op in new) + "."]
    find_lacking(original["updates"], OPTIMIZERS, {}, "ops that update weights")
    lines += [
        "",
        f"Ops that update weights, all of the original's: {', '.join(f'`{op}`' for op in sorted(OPTIMIZERS))}.",
    ]
    return "\n".join(lines) + "\n"


def _write_rows(title: str, rows: Mapping[str, str]) -> list[str]:
    return [f"| {title} | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows.items())]


def _write_class(file: str, path: str, wanted: list[str]) -> list[str]:
    """The first line of a class, and its public members: all of the original's are there."""
    node = find_class(file, path)
    find_lacking(wanted, [member.name for member in list_members(node)], {}, path)
    lines = [ast.get_docstring(node) or "", "", "| Member | |", "|---|---|"]
    for member in list_members(node):
        text = (ast.get_docstring(member) or "").split("\n")[0]
        is_property = any(isinstance(entry, ast.Name) and entry.id == "property" for entry in member.decorator_list)
        lines.append(f"| `{member.name}{'' if is_property else _write_signature(member)}` | {text} |")
    return lines


def find_class(file: str, path: str) -> ast.ClassDef:
    """A class by the names that lead to it."""
    node: Any = ast.parse((SOURCES / file).read_text(encoding="utf-8"))
    for part in path.split("."):
        node = next(entry for entry in node.body if getattr(entry, "name", None) == part)
    assert isinstance(node, ast.ClassDef)
    return node


def list_members(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The public methods and properties of a class."""
    return [entry for entry in node.body if isinstance(entry, ast.FunctionDef) and not entry.name.startswith("_")]


def _write_signature(member: ast.FunctionDef) -> str:
    """The parameters and their defaults, without types."""
    for entry in (*member.args.args, *member.args.kwonlyargs, *member.args.posonlyargs):
        entry.annotation = None
    for more in (member.args.vararg, member.args.kwarg):
        if more is not None:
            more.annotation = None
    member.args.args = [entry for entry in member.args.args if entry.arg not in ("self", "cls")]
    return f"({ast.unparse(member.args).replace('|', chr(92) + '|')})"


def main() -> int:
    pages = {PAGE: build_page(PAGE.read_text(encoding="utf-8")), API_PAGE: build_api_page()}
    if "--check" in sys.argv[1:]:
        return int(any(not path.is_file() or path.read_text(encoding="utf-8") != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
