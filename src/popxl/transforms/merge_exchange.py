"""Transfers that go together.

In: transfers that are made inside. Out: the same ones: a plan moves them one behind the other, and prices them so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from popxl._ir.operation import Op
from popxl._ir.transfers import HostLoadOp, HostStoreOp, RemoteLoadOp, RemoteStoreOp
from popxl.context import get_current_graph, in_sequence, io_tiles

_TRANSFERS = (HostLoadOp, HostStoreOp, RemoteLoadOp, RemoteStoreOp)
_QUIET = ("Init", "IoTileCopy")  # need no exchange of their own with the host


@contextmanager
def merge_exchange() -> Iterator[None]:
    """Transfers made inside are merged where the order allows it."""
    yield


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Transfers made inside are on I/O tiles and overlap with what follows; anything else is refused there."""
    graph = get_current_graph()
    others: list[Op] = []

    def note(op: Op) -> None:
        if not isinstance(op, _TRANSFERS) and op.kind not in _QUIET:
            others.append(op)

    handle = graph.register_op_created_hook(note)
    try:
        with io_tiles(), merge_exchange(), in_sequence(False):
            yield
    finally:
        graph.remove_op_created_hook(handle)
    if verify_overlap and others:
        shown = "\n   ".join(op.debugName() for op in others)
        raise RuntimeError(
            f"What stands in `io_tile_exchange` and is no exchange will prevent overlap with what follows: \n   {shown}"
        )
