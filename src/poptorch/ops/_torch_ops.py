"""The few ops that libraries reach under `torch.ops.poptorch`.

In: nothing. Out: `push_name_scope`, `pop_name_scope` and `internal_cast` in that namespace.
"""

from __future__ import annotations

import torch

from openipu.capture import pop_name_scope, push_name_scope
from poptorch.errors import createPoptorchError

_CASTS = {"FLOAT": torch.float32, "FLOAT16": torch.float16}
_library = torch.library.Library("poptorch", "DEF")  # type: ignore[no-untyped-call]


def _cast(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype not in _CASTS:
        raise createPoptorchError(f"internal_cast knows {', '.join(_CASTS)}, not {dtype!r}.")
    return tensor.to(_CASTS[dtype])


for _schema, _function in (
    ("push_name_scope(str name) -> ()", push_name_scope),
    ("pop_name_scope() -> ()", pop_name_scope),
    ("internal_cast(Tensor tensor, str dtype) -> Tensor", _cast),
):
    _library.define(_schema)  # type: ignore[no-untyped-call]
    _library.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
