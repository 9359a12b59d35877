"""What the figures of a machine may be, and the check of figures that are from a file.

In: a `Target` or `System` as values by name. Out: the dataclass, or an error that names the figure. The types stand at
the fields themselves; Python code that makes a machine of its own is not checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import msgspec

from openipu.files.origin import Origin

Machine = TypeVar("Machine")

Tiles = Annotated[int, msgspec.Meta(ge=1, le=1 << 17)]  # arrays have an entry per tile
Ipus = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
Some = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Word = Annotated[int, msgspec.Meta(ge=4, le=64)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e30)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


def build_machine(
    kind: type[Machine], values: Mapping[str, Any], sources: Mapping[str, Any], origin: Origin
) -> Machine:
    """A chip or a system whose figures are what they may be."""
    hints = _list_hints(cast("Any", kind))
    for key, value in values.items():
        if key not in hints:
            raise origin.fail(f"has the unknown figure {key}")
        try:
            msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            raise origin.fail(f"{key} = {value!r} is wrong: {str(error)[0].lower()}{str(error)[1:]}") from error
    missing = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty and parameter.name not in values
    ]
    if missing:
        raise origin.fail(f"lacks the figures {', '.join(missing)}")
    return kind(**values, sources=sources)  # type: ignore[call-arg]


@cache
def _list_hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if name != "sources"}
