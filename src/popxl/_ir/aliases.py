"""Who shares memory with whom in a graph, and what is written over.

In: a graph. Out: the tensor whose memory each tensor shows, the inputs that the graph writes to, and whether an output
is one of them. What a call of another graph does counts, where its caller lets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from popxl._ir.sites import CallOp
from popxl._ir.transfers import HostLoadOp, HostStoreOp, RemoteLoadOp, RemoteStoreOp

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.remote_buffer import RemoteBuffer
    from popxl.streams import DeviceToHostStream, HostToDeviceStream
    from popxl.tensor import Tensor


@dataclass(frozen=True, eq=False)
class Sharing:
    """Roots of a graph's tensors, and those that are written."""

    roots: dict[int, Tensor]  # id of the object -> the tensor whose memory it shows
    written: set[int]  # ids of roots

    def root(self, tensor: Tensor) -> Tensor:
        return self.roots.get(id(tensor), tensor)

    def is_written(self, tensor: Tensor) -> bool:
        return id(self.root(tensor)) in self.written


def find_sharing(graph: Graph) -> Sharing:
    """Follow views and writes through the ops of a graph."""
    found = Sharing({}, set())
    for op in graph._ops:
        for out, source in op.aliases.items():
            found.roots[id(op.outputs[out])] = found.root(op.inputs[source])
        places = op.modified if isinstance(op, CallOp) else op.writes
        for place in places:
            found.written.add(id(found.root(op.inputs[place])))
    return found


@dataclass(eq=False)
class Traffic:
    """How often one run of a graph uses each stream, and the remote buffers that it writes to."""

    loads: dict[HostToDeviceStream, int]
    stores: dict[DeviceToHostStream, int]
    stored: dict[int, RemoteBuffer]
    loaded: dict[int, RemoteBuffer]


def count_traffic(graph: Graph) -> Traffic:
    """What one run of a graph moves, all that it calls included."""
    from popxl._ir.sites import RepeatOp

    total = Traffic({}, {}, {}, {})
    for op in graph._ops:
        if isinstance(op, HostLoadOp):
            total.loads[op.stream] = total.loads.get(op.stream, 0) + 1
        elif isinstance(op, HostStoreOp):
            total.stores[op.stream] = total.stores.get(op.stream, 0) + 1
        elif isinstance(op, RemoteStoreOp):
            total.stored[op.buffer.remote_buffer_id] = op.buffer
        elif isinstance(op, RemoteLoadOp):
            total.loaded[op.buffer.remote_buffer_id] = op.buffer
        times = op.count if isinstance(op, RepeatOp) else 1
        for called in op.called:
            inner = count_traffic(called)
            for stream, count in inner.loads.items():
                total.loads[stream] = total.loads.get(stream, 0) + count * times
            for target, count in inner.stores.items():
                total.stores[target] = total.stores.get(target, 0) + count * times
            total.stored.update(inner.stored)
            total.loaded.update(inner.loaded)
    return total
