"""Ops that move data: from and to the host, remote buffers, other IPUs and I/O tiles; and what starts from nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch

from popxl import dtypes
from popxl._ir.operation import SHAPES, add_op, check_inputs, make_op, make_place
from popxl._ir.transfers import HostLoadOp, HostStoreOp, RemoteLoadOp, RemoteStoreOp
from popxl.context import gcg
from popxl.errors import UndefinedValue
from popxl.graph import Graph
from popxl.ops.utils import check_in_graph, make_one
from popxl.remote_buffer import RemoteBuffer
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Tensor, constant


def host_load(h2d_stream: HostToDeviceStream, name: str | None = None) -> Tensor:
    """The next transfer of a stream."""
    graph = gcg()
    made: Tensor = graph._add_tensor(name or h2d_stream.tensor_id, h2d_stream.shape, h2d_stream.dtype)
    add_op(HostLoadOp(graph, "HostLoad", [], [made], make_place(), stream=h2d_stream))
    return made


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Give the next transfer of a stream."""
    graph = gcg()
    check_in_graph(graph, t=t)
    if d2h_stream.dtype is not t.dtype:
        raise ValueError(
            f"Stream {d2h_stream.tensor_id} takes {d2h_stream.dtype}, and the tensor that is stored to it is {t.dtype}."
        )
    if d2h_stream.shape != t.shape:
        raise ValueError(
            f"Stream {d2h_stream.tensor_id} takes tensors of shape {d2h_stream.shape}, and this one has {t.shape}."
        )
    add_op(HostStoreOp(graph, "HostStore", [t], [], make_place(), stream=d2h_stream))


def _find_offset(offset: int | Tensor) -> Tensor:
    return offset if isinstance(offset, Tensor) else constant(offset, dtypes.uint32, name="offset")


def remote_load(remote_buffer: RemoteBuffer, offset: int | Tensor, name: str | None = None) -> Tensor:
    """A copy of an entry of a remote buffer."""
    graph, where = gcg(), _find_offset(offset)
    check_inputs(graph, [where])
    title = name or f"id_{remote_buffer.remote_buffer_id}_offset_{where.name}"
    made: Tensor = graph._add_tensor(
        title, remote_buffer.tensor_shape, remote_buffer.tensor_dtype, remote_buffer.meta_shape
    )
    add_op(RemoteLoadOp(graph, "RemoteLoad", [where], [made], make_place(), buffer=remote_buffer))
    return made


def remote_load_(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> Tensor:
    """Writes an entry of a remote buffer over a tensor."""
    graph, where = gcg(), _find_offset(offset)
    check_inputs(graph, [where, t])
    remote_buffer.validate_tensor_matches_buffer(t)
    t._meta_shape = remote_buffer.meta_shape
    made: Tensor = graph._add_tensor(t.name, t.shape, t.dtype, remote_buffer.meta_shape)
    op = RemoteLoadOp(graph, "RemoteLoad", [where, t], [made], make_place(), buffer=remote_buffer)
    op.aliases, op.writes = {0: 1}, (1,)
    add_op(op)
    return made


def remote_store(remote_buffer: RemoteBuffer, offset: int | Tensor, t: Tensor) -> None:
    """Write a tensor over an entry of a remote buffer."""
    graph, where = gcg(), _find_offset(offset)
    check_inputs(graph, [t, where])
    remote_buffer.validate_tensor_matches_buffer(t)
    add_op(RemoteStoreOp(graph, "RemoteStore", [t, where], [], make_place(), buffer=remote_buffer))


def init(
    shape: Iterable[int],
    dtype: dtypes.dtype,
    name: str | None = None,
    init_type: Literal["zero", "undef"] = "zero",
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """A new tensor, of zeros or of anything. Here anything is zeros, too."""
    if init_type not in ("zero", "undef"):
        raise ValueError(f"Unknown init_type: {init_type}")
    sizes = tuple(int(size) for size in shape)
    return make_one(
        "Init",
        lambda: torch.zeros(sizes, dtype=dtype._held),
        [],
        name=name or "t",
        specs=[(sizes, dtype)],
        meta_shape=tuple(meta_shape or ()),
    )


def ipu_copy(t: Tensor, destination: int, source: int | None = None) -> Tensor:
    """A copy on another IPU."""
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue:
            raise ValueError(f"It is not known on which IPU {t} lies: say so by `source`.") from None
    return make_op(
        "IpuCopy",
        lambda x: x.view_as(x),
        [t],
        rule=SHAPES,
        name=f"{t.name}_c{destination}",
        specs=[(t.shape, t.dtype)],
        meta_shape=t.meta_shape,
        attributes={"destination": destination, "source": source, "shows": True},
    )[0]


def io_tile_copy(t: Tensor) -> Tensor:
    """A copy on the other kind of tiles: from compute to I/O tiles, or back."""
    _, tiles = t._get_ipu_and_tile_set(False, False)
    return make_op(
        "IoTileCopy",
        lambda x: x.view_as(x),
        [t],
        rule=SHAPES,
        name=f"{t.name}_tile_copy",
        specs=[(t.shape, t.dtype)],
        meta_shape=t.meta_shape,
        attributes={"to_io_tiles": tiles != "io", "shows": True},
    )[0]


def remote_code_load(graph: Graph, destination: str) -> None:
    """Bring a graph's code to the device. Here all code is there: the destination is checked, and that is all."""
    if gcg() is graph:
        raise ValueError(f"{graph.id} would load its own code: load it in the graph that calls it.")
    if destination in ("compute_buffer", "io_buffer"):
        raise NotImplementedError(f"Code of {graph.id} cannot be loaded to {destination!r} yet.")
    if destination != "executable":
        raise ValueError(f"Code is loaded to executable, compute_buffer or io_buffer, not to {destination!r}.")


def print_tensor(
    t: Tensor,
    title: str | None = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """The same tensor, which is printed in each run."""
    for name, mark in (("separator", separator), ("open_bracket", open_bracket), ("close_bracket", close_bracket)):
        if len(mark) != 1:
            raise ValueError(f"{name} is a single character, not {mark!r}.")
    from popxl._lowering.printing import print_values

    shown = title or f"print_{t.name}"
    layout = {"threshold": summarise_threshold, "edgeitems": edge_items, "linewidth": max_line_width}
    layout |= {"precision": digits, "scientific": float_format == "scientific"}
    marks = (separator, open_bracket, close_bracket)

    def run(x: Any) -> Any:
        return print_values(x, shown, layout, marks) if print_self else x.view_as(x)

    def differentiate(gradients: Any, inputs: Any, outputs: Any) -> Any:
        found = gradients[0]
        return [print_values(found, f"{shown}_gradient", layout, marks) if print_gradient else found]

    from popxl._ir.operation import Rule

    rule = Rule(inputs=(), formula=differentiate)
    return make_one("PrintTensor", run, [t], rule=rule, specs=[(t.shape, t.dtype)], name=f"{t.name}_print")
