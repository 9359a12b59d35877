"""Types of values in files, with the bounds that keep what is computed from them finite.

In: values of a file, and a type made of these. Out: the same values, checked by msgspec.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from openipu.files.origin import Origin

Value = TypeVar("Value")

LARGEST_WHOLE = 1 << 62  # numpy counts in 64 bits
LARGEST_NUMBER = 1e30

Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_WHOLE)]
Index = Annotated[int, msgspec.Meta(ge=-1, le=LARGEST_WHOLE)]  # -1: none
Finite = Annotated[float, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]  # a NaN is not between them
Positive = Annotated[float, msgspec.Meta(ge=0, le=LARGEST_NUMBER)]
Cycles = Annotated[float, msgspec.Meta(ge=0, le=LARGEST_WHOLE)]  # readers round them to whole numbers


def convert(value: Any, kind: type[Value], origin: Origin) -> Value:
    """A value that Python already holds, of the type that it must have."""
    try:
        return msgspec.convert(value, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, RecursionError) as error:
        raise origin.fail(f"is damaged: {error}") from error
