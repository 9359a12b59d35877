"""The one library of operators that are our own: `torch.ops.openipu`.

In: a schema, and functions for the devices that an operator runs on. Out: the operator. Each stands where its meaning
is (recurrent layers in `graph/recurrent/`, random bits and rounding in `run/`, held values and calls in `capture/`),
and all of them are in `OPERATORS`, by name, once their modules are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_library = torch.library.Library("openipu", "DEF")  # type: ignore[no-untyped-call]

OPERATORS: dict[str, Any] = {}  # name -> its one overload


def define_operator(
    schema: str,
    *,
    meta: Callable[..., Any] | None = None,
    cpu: Callable[..., Any] | None = None,
    tags: Sequence[torch.Tag] = (),
) -> Any:
    """A new operator: its schema ("twice(Tensor x) -> Tensor"), what it returns by shape, and what it computes."""
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))  # type: ignore[no-untyped-call]
    for key, function in (("Meta", meta), ("CPU", cpu)):
        if function is not None:
            _library.impl(name, function, key)  # type: ignore[no-untyped-call]
    operator = OPERATORS[name] = getattr(torch.ops.openipu, name).default
    return operator
