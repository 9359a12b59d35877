"""Options written as text: a file with one setter a line, or JSON from a string or from the environment.

Either may be from somebody else: setters are called with plain values, and no Python of the text is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from openipu.errors import OptionError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.plain import read_text
from poptorch.options._expressions import ExpressionError, call_setter, find_constant, find_setter

if TYPE_CHECKING:
    from poptorch.options._options import Options

_LARGEST = 1 << 20
_LONGEST = 300  # letters of an error


class ConfigFileError(OptionError):
    """A line of an options file is wrong; the message shows it."""


def apply_file(options: Options, path: str) -> None:
    """Call one setter a line, e.g. `deviceIterations(4)`; blank lines and `#` comments are skipped."""
    origin = Origin(f"The options file {path}", ConfigFileError, "Check the path; the file has one setter a line.")
    for number, line in enumerate(read_text(Path(path), origin, _LARGEST).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            call_setter(options, text)
        except Exception as error:  # whatever a setter raises
            words = (error.msg if isinstance(error, SyntaxError) else str(error))[:_LONGEST]
            raise ConfigFileError(
                f"{type(error).__name__} at line {number} of {path}: {words}\n> options.{text[:200]}"
            ) from error


def apply_json(options: Options, text: str) -> None:
    """Call one setter a key: `{"deviceIterations": 2, "_Popart.set": ["key", 1]}`; a list holds several arguments."""
    origin = Origin("The JSON of options", ConfigFileError, "Write an object of setter names and their arguments.")
    for path, value in parse_json(text, dict[str, Any], origin, _LARGEST).items():
        arguments = value if isinstance(value, list) else [value]
        try:
            find_setter(options, path)(*(_read_value(argument) for argument in arguments))
        except Exception as error:  # whatever a setter raises
            shown = f"{path}: {value!r}"[:200]
            raise ConfigFileError(
                f"{type(error).__name__} in the JSON of options: {str(error)[:_LONGEST]}\n> {shown}"
            ) from error


def _read_value(value: Any) -> Any:
    """`"ConnectionType.OnDemand"` and `"torch.half"` become what they name; all else stays."""
    if isinstance(value, str) and value.count(".") == 1:
        try:
            return find_constant(*value.split("."))
        except ExpressionError:
            return value
    return value
