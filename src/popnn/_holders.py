"""Arguments where C++ passes a pointer to a tensor that the function makes: here a list, which gets it.

In: what stands behind the fixed arguments. Out: the list (or none), and the program.
"""

from __future__ import annotations

from typing import Any

from poplar import Tensor
from poplar import program as programs
from poplar._errors import poplar_error

Holder = list[Tensor] | None


def read_rest(function: str, rest: tuple[Any, ...]) -> tuple[Holder, programs.Sequence]:
    """`([intermediates,] prog, …)`."""
    place = next((at for at, value in enumerate(rest) if isinstance(value, programs.Sequence)), None)
    if place is None:
        raise poplar_error(f"{function} needs a Sequence to add to.")
    holder = rest[0] if place else None
    if holder is not None and not isinstance(holder, list):
        raise poplar_error(f"{function}: intermediates go to a list, which gets the tensor, not to {holder!r}.")
    return holder, rest[place]


def fill(holder: Holder, made: Tensor) -> None:
    if holder is not None:
        holder.append(made)
