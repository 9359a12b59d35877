"""Writes docs/tensorflow_api.md: which names of TensorFlow on IPU are there, read from the code, without TensorFlow.

In: tensorflow_names.json, the public names of the original by module; our sources. Out: the page.

    python docs/generate_tensorflow_api.py            write the page
    python docs/generate_tensorflow_api.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE, NAMES = HERE / "tensorflow_api.md", HERE / "tensorflow_names.json"
SOURCES = HERE.parent / "src"
PLACES = {  # what programs import, and the package of ours that answers
    "tensorflow.python.ipu": "openipu_tensorflow.ipu",
    "keras.ipu": "openipu_tensorflow.keras",
    "ipu_tensorflow_addons": "openipu_tensorflow.addons",
}
HAS, REFUSED, LACKS = "has", "refused", "lacks"
METHODS = (  # of models that are made in the scope of a strategy
    "export_for_ipu_serving",
    "get_pipeline_stage_assignment",
    "print_pipeline_stage_assignment_summary",
    "reset_pipeline_stage_assignment",
    "set_asynchronous_callbacks",
    "set_gradient_accumulation_options",
    "set_infeed_queue_options",
    "set_outfeed_queue_options",
    "set_pipeline_stage_assignment",
    "set_pipelining_options",
    "set_replication_options",
)
HEAD = """\
# TensorFlow and Keras on IPU: every name

<!-- Made by docs/generate_tensorflow_api.py from the code. Do not edit. -->

The public names of `tensorflow.python.ipu`, `keras.ipu`, `ipu_tensorflow_addons` and `popdist.tensorflow`, and what of them is here. How to use them: [TensorFlow 1 programs](tensorflow1.md), [Keras](keras.md); what each [option](tensorflow1.md#options) and each [flag](tensorflow1.md#flags) does.

- **has**: does here what it does there, as far as its page says.
- **refused**: can be imported; calling it is an error that says what to do instead.
- **lacks**: is not here. `openipu run --check script.py` lists which of these a script uses.
"""  # noqa: E501


@dataclass(frozen=True)
class Entry:
    """A name of the original, and how we stand to it."""

    state: str
    signature: str = ""
    text: str = ""


def find_source(module: str) -> Path | None:
    """The file of a module of ours, by the name that programs import."""
    for theirs, ours in PLACES.items():
        if module == theirs or module.startswith(f"{theirs}."):
            module = ours + module.removeprefix(theirs)
            break
    path = SOURCES.joinpath(*module.split("."))
    return next((entry for entry in (path.with_suffix(".py"), path / "__init__.py") if entry.is_file()), None)


def find_name(file: Path, name: str, depth: int = 0) -> Entry | None:
    """A name of a module, followed through imports."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return describe(node)
        if isinstance(node, ast.Assign) and any(
            isinstance(entry, ast.Name) and entry.id == name for entry in node.targets
        ):
            same = isinstance(node.value, ast.Name) and find_name(file, node.value.id, depth + 1)
            return same or Entry(HAS)
        if isinstance(node, ast.ImportFrom) and node.module and depth < 8:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _follow(node.module, alias.name, depth) or Entry(HAS)
    return None


def _follow(module: str, name: str, depth: int) -> Entry | None:
    source = find_source(f"{module}.{name}")
    if source is not None:  # a module
        return Entry(HAS, text=(ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n")[0])
    source = find_source(module)
    return None if source is None else find_name(source, name, depth + 1)


def describe(node: ast.FunctionDef | ast.ClassDef) -> Entry:
    """The signature and the first line of what is written about it."""
    text = (ast.get_docstring(node) or "").split("\n")[0]
    call = node if isinstance(node, ast.FunctionDef) else _find_constructor(node)
    state = REFUSED if isinstance(call, ast.FunctionDef) and _only_raises(call) else HAS
    return Entry(state, "" if call is None else write_signature(call), text)


def _find_constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    for entry in node.body:
        if isinstance(entry, ast.FunctionDef) and entry.name == "__init__":
            return entry
    return None


def _only_raises(node: ast.FunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (
        bool(body)
        and isinstance(body[-1], ast.Raise)
        and all(isinstance(entry, (ast.Raise, ast.Import, ast.ImportFrom)) for entry in body)
    )


def write_signature(node: ast.FunctionDef) -> str:
    """The parameters and their defaults, without types."""
    arguments = node.args
    for entry in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if entry is not None:
            entry.annotation = None
    arguments.args = [entry for entry in arguments.args if entry.arg not in ("self", "cls")]
    return f"({ast.unparse(arguments)})".replace("|", "\\|")


def list_entries() -> dict[str, dict[str, Entry]]:
    """Every name by module."""
    found: dict[str, dict[str, Entry]] = {}
    for module, names in json.loads(NAMES.read_text(encoding="utf-8")).items():
        source = find_source(module)
        found[module] = {name: (source and find_name(source, name)) or Entry(LACKS) for name in names}
    found["keras.Model"] = {name: _find_method(name) for name in METHODS}
    return found


def _find_method(name: str) -> Entry:
    for file in sorted((SOURCES / "openipu_tensorflow" / "keras").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                entry = describe(node)
                return Entry(entry.state, entry.signature.replace("(model, ", "(").replace("(model)", "()"), entry.text)
    return Entry(LACKS)


def build_page() -> str:
    entries = list_entries()
    states = [entry.state for names in entries.values() for entry in names.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in (HAS, REFUSED, LACKS))
    lines = [HEAD, f"Of {len(states)} names: {counts}."]
    for module, names in entries.items():
        title = "Methods of `keras.Model`" if module == "keras.Model" else f"`{module}`"
        lines += ["", f"## {title}", ""]
        if all(entry.state == LACKS for entry in names.values()):
            lines += ["**lacks**: " + ", ".join(f"`{name}`" for name in names) + "."]
            continue
        lines += ["| Name | | |", "|---|---|---|"]
        lines += [f"| `{name}{entry.signature}` | {entry.state} | {entry.text} |" for name, entry in names.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    wanted = build_page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
