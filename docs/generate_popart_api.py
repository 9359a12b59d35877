"""Writes docs/popart_api.md from the code: every public name of `popart`, every option and what it does here.

python docs/generate_popart_api.py            write the page
python docs/generate_popart_api.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from generate_api import _escape, _read_first_line, _write_signature

import popart
from popart._enumerations.base import Enumeration
from popart._options import EFFECTS

PAGE = Path(__file__).parent / "popart_api.md"
WORDS = {"acts": "acts", "plan": "plan only", "none": "no effect"}
LACKS = {  # names of the original that are not here, each with its reason
    "OpDefinition": "describes patterns of PopART's own IR; `getSupportedOperationsDefinition` answers with dicts",
    "Session.getIr, _serializeIr": "PopART's own IR: openipu's is in the report and in `getSerializedGraph`",
    "initializePoplarDebugInfo, closePoplarDebugInfo": "write a file for Poplar's tools",
    "popart._internal": "bindings of PopART's own classes in C++",
    "popxl": "another front end, on top of these",
    "custom ops in C++": "register them in Python: `openipu.register_custom_op`",
}
INTRODUCTION = """\
# PopART: every name

<!-- Made by docs/generate_popart_api.py from the code. Do not edit. -->

What `import popart` gives, in the words of PopART {version}. [What works, and how](popart.md).

- **acts**: changes the run, as on an IPU.
- **plan only**: changes the modelled machine; results do not depend on it.
- **no effect**: accepted and checked; there is nothing here that it could change.
"""


def build_page() -> str:
    """The whole page."""
    names = {name: getattr(popart, name) for name in sorted(popart.__all__, key=str.lower)}
    classes = {name: found for name, found in names.items() if inspect.isclass(found) and not _is_enumeration(found)}
    functions = {name: found for name, found in names.items() if inspect.isfunction(found)}
    parts = [
        INTRODUCTION.format(version=popart.__version__),
        *_write_entries("Classes", {f"popart.{name}": found for name, found in classes.items()}),
        *_write_entries("Functions", {f"popart.{name}": found for name, found in functions.items()}),
        *(
            line
            for owner in ("Builder", "InferenceSession", "TrainingSession", "DeviceManager", "DeviceInfo", "DataFlow")
            for line in _write_members(owner, getattr(popart, owner))
        ),
        *_write_members("GraphTransformer", popart.GraphTransformer),
        *_write_options(),
        *_write_operations(),
        *_write_enumerations(names),
        *_write_missing(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _is_enumeration(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, Enumeration | enum.Enum)


def _write_entries(title: str, entries: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| Name | |"
    yield "|---|---|"
    for name, found in entries.items():
        yield f"| `{name}{_escape(_write_signature(found))}` | {_read_first_line(found)} |"
    yield ""


def _write_members(title: str, owner: type) -> Iterator[str]:
    members = {}
    for name in sorted(dir(owner), key=str.lower):
        member = inspect.getattr_static(owner, name)
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
            members[name] = member
    yield f"## {title}\n"
    yield "| Member | |"
    yield "|---|---|"
    for name, member in members.items():
        signature = "" if isinstance(member, property) else _escape(_write_signature(member))
        yield f"| `{name}{signature}` | {_read_first_line(member)} |"
    yield ""


def _write_options() -> Iterator[str]:
    yield "## SessionOptions\n"
    yield "| Attribute | Default | | |"
    yield "|---|---|---|---|"
    for name, (default, effect, reason) in EFFECTS.items():
        yield f"| `{name}` | {_write_option_default(default)} | {WORDS[effect]} | {_escape(reason)} |"
    yield ""


def _write_option_default(default: Any) -> str:
    if inspect.isclass(default):
        return f"`{default.__name__}()`"
    if callable(default):
        default = default()
    if isinstance(default, set | frozenset):
        return ", ".join(f"`{_name(item)}`" for item in sorted(default, key=str)) or "none"
    return f"`{_name(default)}`"


def _name(value: Any) -> str:
    if _is_enumeration(type(value)):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


def _write_operations() -> Iterator[str]:
    yield "## Operations\n"
    graphcore = _list_operations(popart.AiGraphcoreOpset1)
    yield f"`builder.aiGraphcore` has {len(graphcore)}: {', '.join(f'`{name}`' for name in graphcore)}.\n"
    yield "| Operator set | Methods |"
    yield "|---|--:|"
    for number in range(6, 12):
        yield f"| `builder.aiOnnxOpset{number}` | {len(_list_operations(getattr(popart, f'AiOnnxOpset{number}')))} |"
    yield ""


def _list_operations(owner: type) -> list[str]:
    return sorted(name for name in dir(owner) if not name.startswith("_") and name not in ("domain", "version"))


def _write_enumerations(names: dict[str, Any]) -> Iterator[str]:
    yield "## Enumerations\n"
    yield "| Name | Values |"
    yield "|---|---|"
    for name, found in names.items():
        if _is_enumeration(found):
            yield f"| `popart.{name}` | {', '.join(f'`{member}`' for member in found.__members__)} |"
    yield ""


def _write_missing() -> Iterator[str]:
    yield "## Not here\n"
    yield "| Name | |"
    yield "|---|---|"
    for name, reason in LACKS.items():
        yield f"| `{name}` | {_escape(reason)} |"


def main() -> int:
    page = build_page()
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page:
            print(f"{PAGE} is not up to date: run python {Path(__file__).name}", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
