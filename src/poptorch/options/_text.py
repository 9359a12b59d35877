"""Options written as text: a file with one setter a line, or JSON from a string or from the environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from poptorch import enums

if TYPE_CHECKING:
    from poptorch.options._options import Options


class ConfigFileError(Exception):
    """A line of an options file is wrong; the message shows it."""


def apply_file(options: Options, path: str) -> None:
    """Call one setter a line, e.g. `deviceIterations(4)`; blank lines and `#` comments are skipped.

    The file is Python, chosen by the user, and is run as such.
    """
    import poptorch

    names = {"options": options, "poptorch": poptorch, "torch": torch}
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        statement = f"options.{text}"
        try:
            exec(compile(statement, path, "single"), names)
        except Exception as error:
            words = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ConfigFileError(
                f"{type(error).__name__} at line {number} of {path}: {words}\n> {statement}"
            ) from error


def apply_json(options: Options, text: str) -> None:
    """Call one setter a key: `{"deviceIterations": 2, "_Popart.set": ["key", 1]}`; a list holds several arguments."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"Options in JSON are an object of setter names, not {text!r}")
    for path, value in values.items():
        setter: Any = options
        for name in path.split("."):
            setter = getattr(setter, name)
        arguments = value if isinstance(value, list) else [value]
        setter(*(_read_value(argument) for argument in arguments))


def _read_value(value: Any) -> Any:
    """`"ConnectionType.OnDemand"` and `"torch.half"` become what they name; all else stays."""
    if isinstance(value, str) and value.count(".") == 1:
        owner_name, member = value.split(".")
        owner = torch if owner_name == "torch" else getattr(enums, owner_name, None)
        return getattr(owner, member, value)
    return value
