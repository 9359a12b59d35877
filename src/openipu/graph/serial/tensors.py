"""Named tensors as one run of bytes: a line of JSON, then the numbers.

In: a mapping of names to tensors. Out: bytes, and back. A tensor of the meta device has a shape and no numbers. Numbers
are stored densely in the order of dimensions, in the byte order of the machine, which is little-endian wherever PyTorch
runs; another one is refused.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import torch

from openipu.errors import ArchiveError
from openipu.graph.serial.values import DTYPES, shorten

_LARGEST_TENSOR_BYTES = 1 << 50


def pack_tensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """All tensors, in their order."""
    records, blocks = [], []
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise ArchiveError(f"tensor {name} is sparse or quantized, which cannot be written to a file")
        dtype = str(tensor.dtype).removeprefix("torch.")
        content = b"" if tensor.is_meta else _read_bytes(tensor)
        records.append([name, dtype, list(tensor.shape), "meta" if tensor.is_meta else "cpu", len(content)])
        blocks.append(content)
    header = json.dumps({"byte_order": sys.byteorder, "tensors": records}, separators=(",", ":"))
    return b"".join((header.encode(), b"\n", *blocks))


def unpack_tensors(content: bytes) -> dict[str, torch.Tensor]:
    """The tensors again; ArchiveError if the bytes are not what `pack_tensors` made."""
    end = content.find(b"\n")
    try:
        header: dict[str, Any] = json.loads(content[: max(end, 0)])
        if header["byte_order"] != sys.byteorder:
            raise ArchiveError(f"the tensors were written on a {header['byte_order']}-endian machine")
        tensors, place = {}, end + 1
        for name, dtype, shape, device, size in header["tensors"]:
            if not isinstance(name, str) or dtype not in DTYPES or device not in ("cpu", "meta"):
                raise ArchiveError(f"tensor {shorten(name)} has an unknown type")
            if name in tensors or type(size) is not int or not 0 <= size <= len(content) - place:
                raise ArchiveError(f"tensor {shorten(name)} stands there twice, or does not lie within the file")
            tensors[name] = _make_tensor(name, DTYPES[dtype], check_shape(shape), device, content[place : place + size])
            place += size
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArchiveError(f"the tensors are damaged ({str(error)[:300]})") from error
    if place != len(content):
        raise ArchiveError("the tensors are damaged (their sizes do not add up)")
    return tensors


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape from a file: whole numbers that are not negative, of a size that a machine could have."""
    if not isinstance(shape, list) or len(shape) > 64:
        raise ArchiveError(f"{shorten(shape)} is not a shape")
    elements = 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise ArchiveError(f"{shorten(shape)} is not a shape")
        elements *= max(size, 1)
    if elements > _LARGEST_TENSOR_BYTES:
        raise ArchiveError(f"{shorten(shape)} is larger than any machine")
    return tuple(shape)


def _read_bytes(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    return dense.view(torch.uint8).numpy().tobytes() if dense.numel() else b""


def _make_tensor(name: str, dtype: torch.dtype, shape: tuple[int, ...], device: str, content: bytes) -> torch.Tensor:
    wanted = 0 if device == "meta" else math.prod(shape) * dtype.itemsize
    if wanted != len(content):  # before any memory is taken
        raise ArchiveError(f"tensor {shorten(name)} has {len(content)} bytes instead of {wanted}")
    made = torch.empty(shape, dtype=dtype, device=device)
    if content:
        held = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if dtype is torch.bool and held.max() > 1:
            raise ArchiveError(f"tensor {shorten(name)} holds what is neither true nor false")
        made.view(-1).view(torch.uint8).copy_(held)
    return made
