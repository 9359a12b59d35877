"""`custom_op`: an op that the user wrote for the IPU.

What it computes here is a Python function, registered with `openipu.register_custom_op` under the same name, domain and
version; those that came with PopTorch are there already. Outside of a capture an op that is not registered gives zeros,
as in PopTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.capture import call_custom_op, find_custom_op, is_capturing
from poptorch.errors import createPoptorchError
from poptorch.ops._shipped import SHIPPED

_LARGEST_FLOAT = torch.finfo(torch.float32).max


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: Mapping[str, Any] | None = None,
) -> list[torch.Tensor]:
    """Apply a custom op. `example_outputs` have the shapes and types of its outputs; their values do not matter."""
    given = dict(attributes or {})
    _check_attributes(given)
    op = find_custom_op(name, domain, domain_version)
    shipped = SHIPPED.get((name, domain, domain_version))
    if op is None and shipped is not None:
        return shipped(list(inputs), given)
    if is_capturing():
        _check_ranges(given)
        return call_custom_op(name, domain, domain_version, list(inputs), list(example_outputs), given)
    if op is not None:
        return op.run(list(inputs), given)
    return [torch.zeros_like(example) for example in example_outputs]


def _check_attributes(attributes: Mapping[str, Any]) -> None:
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise ValueError("All attribute keys must be strings.")
        if not isinstance(value, float | int | str | list | tuple):
            raise ValueError(
                f"Attribute values must be floats, ints, strings or a list/tuple of float, ints or strings: {key} is "
                f"{type(value)}."
            )
        if isinstance(value, list | tuple) and any(not isinstance(item, type(value[0])) for item in value):
            raise ValueError(f"The types in a list/tuple attribute must all be the same: convert those of {key}.")
        for text in (key, *_list_items(value)):
            if isinstance(text, str) and not text.isascii():
                raise ValueError(f"{text} contains non-ASCII characters.")


def _check_ranges(attributes: Mapping[str, Any]) -> None:
    """Attributes reach an IPU as float32 and int64."""
    for value in attributes.values():
        for number in _list_items(value):
            if isinstance(number, float) and abs(number) > _LARGEST_FLOAT and abs(number) != float("inf"):
                side = "low" if number < 0 else "high"
                raise createPoptorchError(f"{number:g} is too {side} for a Popart float attribute.")
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise createPoptorchError(f"{number} does not fit the 64 bits of an integer attribute.")


def _list_items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]
