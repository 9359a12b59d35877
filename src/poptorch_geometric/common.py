"""The classes that PyTorch Geometric gives to batches: they are made when they are first needed.

In: nothing. Out: `DataBatch` and `HeteroDataBatch`, for `isinstance` and for registering.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch_geometric.data import Batch, Data, HeteroData

DataBatch: Any = type(Batch(_base_cls=Data))
HeteroDataBatch: Any = type(Batch(_base_cls=HeteroData))


def call_once(function: Callable[[], None]) -> Callable[[], None]:
    """The same function, which does nothing from its second call on."""
    called = False

    @wraps(function)
    def call() -> None:
        nonlocal called
        if not called:
            called = True
            function()

    return call
