"""Writes docs/poptorch.md from the code: every public name, every option and what it does here.

python docs/generate_api.py            write the page
python docs/generate_api.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import poptorch
from poptorch.options import POPART, TABLE, Effect

PAGE = Path(__file__).parent / "poptorch.md"
EFFECTS = {
    Effect.ACTS: "acts",
    Effect.PLAN: "plan only",
    Effect.NONE: "no effect",
    Effect.MISSING: "**not there yet**",
}
INTRODUCTION = """\
# PopTorch

<!-- Made by docs/generate_api.py from the code. Do not edit. -->

`import poptorch` gives the names of PopTorch {version}, on any machine and without an SDK. Scripts stay as they are:
[how to bring one along](porting.md), [how much of the public test suite passes](conformance.md).

- **acts**: changes the run, as on an IPU.
- **plan only**: changes the modelled machine; results do not depend on it.
- **no effect**: accepted and checked; there is nothing here that it could change.
- **not there yet**: stored, and said once when it is set, because on an IPU it would change results.

`openipu run --check script.py` lists which of these a script uses.
"""


def build_page() -> str:
    """The whole page."""
    names = {name: _find(name) for name in poptorch.__all__}
    parts = [
        INTRODUCTION.format(version=poptorch.__version__),
        *_write_section("Models, data, errors", _select(names, _is_plain_class)),
        *_write_section("Functions and ops", _select(names, inspect.isfunction)),
        *_write_methods("PoplarExecutor", poptorch.PoplarExecutor),
        *_write_options(),
        *_write_section("Optimizers", _list_optimizers()),
        *_write_enums(names),
        *_write_missing(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _find(name: str) -> Any:
    return getattr(poptorch, name)


def _select(names: dict[str, Any], wanted: Callable[[Any], bool]) -> dict[str, Any]:
    return {f"poptorch.{name}": found for name, found in sorted(names.items(), key=_ignore_case) if wanted(found)}


def _ignore_case(entry: tuple[str, Any]) -> str:
    return entry[0].lower()


def _is_plain_class(found: Any) -> bool:
    return inspect.isclass(found) and not issubclass(found, enum.Enum)


def _list_optimizers() -> dict[str, Any]:
    return {
        f"poptorch.optim.{name}": found
        for name, found in sorted(vars(poptorch.optim).items())
        if inspect.isclass(found) and not name.startswith("_") and found.__module__.startswith("poptorch.optim")
    }


def _write_section(title: str, entries: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| Name | |"
    yield "|---|---|"
    for name, found in entries.items():
        yield f"| `{name}{_write_signature(found)}` | {_read_first_line(found)} |"
    yield ""


def _write_methods(title: str, owner: type) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| Member | |"
    yield "|---|---|"
    for name in sorted(dir(owner), key=str.lower):
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or not isinstance(member, property | types.FunctionType):
            continue
        signature = "" if isinstance(member, property) else _write_signature(member)
        yield f"| `{name}{signature}` | {_read_first_line(member)} |"
    yield ""


def _write_options() -> Iterator[str]:
    yield "## Options\n"
    yield "| Setter of `poptorch.Options()` | | |"
    yield "|---|---|---|"
    for setter, (effect, remark) in TABLE.items():
        yield f"| `{setter}{_write_signature(_find_setter(setter))}` | {EFFECTS[effect]} | {_escape(remark)} |"
    for key, (effect, remark) in POPART.items():
        yield f'| `_Popart.set("{key}", …)` | {EFFECTS[effect]} | {_escape(remark)} |'
    yield ""


def _find_setter(path: str) -> Any:
    owner: Any = poptorch.Options()
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _write_enums(names: dict[str, Any]) -> Iterator[str]:
    yield "## Enumerations\n"
    yield "| Name | Values |"
    yield "|---|---|"
    for name, found in sorted(names.items(), key=_ignore_case):
        if inspect.isclass(found) and issubclass(found, enum.Enum):
            yield f"| `poptorch.{name}` | {', '.join(f'`{member.name}`' for member in found)} |"
    yield ""


def _write_missing() -> Iterator[str]:
    from poptorch import _poplar_executor

    missing = [f"poptorch.{name}" for name in getattr(poptorch, "_NOT_YET", ())]
    missing += [f"PoplarExecutor.{name}" for name in getattr(_poplar_executor, "NOT_YET", ())]
    if missing:
        yield "## Not there yet\n"
        yield ", ".join(f"`{name}`" for name in sorted(missing)) + "."


def _write_signature(found: Any) -> str:
    """`(model, options=None)`: names and defaults, without types."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return ""
    if inspect.isclass(found) and issubclass(found, Exception):
        return ""
    words = []
    for parameter in parameters:
        if parameter.name == "self":
            continue
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_write_default(parameter.default)}"
        words.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(words)})"


def _write_default(value: Any) -> str:
    return str(value) if isinstance(value, enum.Enum) and not isinstance(value, int) else _write_plain(value)


def _write_plain(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value).replace("|", "\\|")


def _read_first_line(found: Any) -> str:
    text = found.__doc__ or ""
    return _escape(" ".join(text.strip().partition("\n\n")[0].split()))


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


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
