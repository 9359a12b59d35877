"""A compiled model as a file: written by `save`, read by `load` and `loadExecutable`.

In: what an executor compiled. Out: a zip with JSON (inputs, fingerprint of the program, versions, random state), the
optimizer's state as tensors, and the program's graphs as data. The file holds no native code: what runs is compiled
again where it is loaded, on whatever machine, and reading the graphs runs nothing of the file. A program with functions
of the host has no graphs in the file, and is captured again. Only with export_model=True are the user's model, options
and optimizer in it, as a pickle: `load` therefore runs what the file says, and is for files of one's own.
"""

from __future__ import annotations

import io
import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch

from openipu.admission import Limits, check_program
from openipu.admission import read_program as read_graphs
from openipu.errors import ArchiveError, ExportError
from openipu.files.origin import Origin
from openipu.files.values import convert
from openipu.graph import Program, fingerprint_program
from openipu.graph.serial import (
    DTYPES,
    Archive,
    SerialProgram,
    check_shape,
    dump_program,
    read_archive,
    shorten,
    write_archive,
)
from poptorch._calls.binding import BoundInputs
from poptorch._logging import logger
from poptorch.errors import createPoptorchError

KIND = "poptorch executable"
MODEL_BLOB = "model.pickle"
GRAPH_BLOB, CONSTANTS_BLOB = "program.json", "program.bin"
FILE_NAME = "model.poptorch"  # where a directory is given
INTERFACE_VERSION = "3.4.0"


class _Values(msgspec.Struct, frozen=True):
    """What the archive says in JSON."""

    interface: str
    training: bool
    fingerprint: str
    names: list[str]
    args: dict[str, Any]
    kwargs: dict[str, Any]
    rng_state: Annotated[list[int], msgspec.Meta(min_length=1, max_length=10_000)] | None
    signature: str | None
    optimizer: str | None


@dataclass(frozen=True)
class SavedProgram:
    """What a file says, without the user's objects."""

    training: bool
    fingerprint: str
    inputs: BoundInputs
    rng_state: list[int] | None
    optimizer_state: dict[str, torch.Tensor]
    model: bytes | None  # a pickle that only `load` opens
    signature: str | None = None  # of the model, by `sign_model`
    optimizer: str | None = None  # its structure
    graphs: SerialProgram | None = None  # None: the program holds what only its own process has

    def read_graphs(self) -> Program | None:
        """The program of the file; ArchiveError if it is not the one that the file speaks of."""
        if self.graphs is None:
            return None
        try:
            program = read_graphs(self.graphs.document, self.graphs.tensors)
        except ArchiveError as error:
            raise ArchiveError(f"its graphs cannot be used ({str(error)[:300]}): export the model again.") from error
        if fingerprint_program(program) != self.fingerprint:
            raise ArchiveError("its graphs are not those that it was written for.")
        return program


def choose_path(filename: str) -> Path:
    """The file to write; a directory gets a file of a fixed name."""
    path = Path(filename)
    if path.is_dir():
        path = path / FILE_NAME
        logger.warning("%s is a directory: the model is saved to %s", filename, path)
    return path


def write_program(path: Path, program: SavedProgram) -> None:
    """Write a file that this version of openipu can read."""
    values = {
        "interface": INTERFACE_VERSION,
        "training": program.training,
        "fingerprint": program.fingerprint,
        "names": list(program.inputs.names),
        "args": _describe(program.inputs.args),
        "kwargs": _describe(program.inputs.kwargs),
        "rng_state": program.rng_state,
        "signature": program.signature,
        "optimizer": program.optimizer,
    }
    blobs = {} if program.model is None else {MODEL_BLOB: program.model}
    if program.graphs is not None:
        blobs |= {GRAPH_BLOB: program.graphs.document, CONSTANTS_BLOB: program.graphs.tensors}
    write_archive(path, Archive(KIND, values, program.optimizer_state, blobs))


def read_program(filename: str) -> SavedProgram:
    """Read a file; the reason why it cannot be used is an ArchiveError."""
    archive = read_archive(Path(filename), KIND)
    origin = Origin(filename, ArchiveError, "Export the model again.")
    values = convert(archive.values, _Values, origin)
    if values.interface != INTERFACE_VERSION:
        raise ArchiveError(
            f"PopTorch version mismatch: the file is of {values.interface}, and this is {INTERFACE_VERSION}."
        )
    if any(tensor.is_meta for tensor in archive.tensors.values()):
        raise origin.fail("is damaged: a tensor of the optimizer's state has no values")
    try:
        inputs = BoundInputs(tuple(values.names), _build(values.args), _build(values.kwargs))
    except (ValueError, TypeError, KeyError, RuntimeError, MemoryError) as error:
        raise origin.fail(f"is damaged: its inputs cannot be read ({error})") from error
    if not isinstance(inputs.args, tuple) or not isinstance(inputs.kwargs, dict):
        raise origin.fail("is damaged: its inputs are no arguments")
    return SavedProgram(
        values.training,
        values.fingerprint,
        inputs,
        values.rng_state,
        dict(archive.tensors),
        archive.blobs.get(MODEL_BLOB),
        values.signature,
        values.optimizer,
        _find_graphs(archive.blobs),
    )


def write_graphs(program: Program) -> SerialProgram | None:
    """The graphs of a program as data; None if it holds what only this process has, or what no reader would accept."""
    try:
        check_program(program, Limits(memory_bytes=sys.maxsize))  # another machine may have more
        return dump_program(program)
    except (ArchiveError, ExportError) as error:
        logger.debug("The file gets no graphs: %s", error)
        return None


def _find_graphs(blobs: Mapping[str, bytes]) -> SerialProgram | None:
    if GRAPH_BLOB not in blobs or CONSTANTS_BLOB not in blobs:
        return None
    return SerialProgram(blobs[GRAPH_BLOB], blobs[CONSTANTS_BLOB])


def pickle_objects(**objects: Any) -> bytes:
    """The user's objects, together: tensors that two of them share stay shared."""
    buffer = io.BytesIO()
    try:
        torch.save(objects, buffer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise createPoptorchError(
            f"The model cannot be saved together with the executable ({error}). Classes and functions that are local "
            "to a function cannot be pickled: define them at module level, or save with export_model=False."
        ) from error
    return buffer.getvalue()


def unpickle_objects(content: bytes) -> dict[str, Any]:
    """The user's objects again. Runs what the pickle says: the user asked for this file."""
    objects: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=False)
    return objects


def _describe(value: Any) -> Any:
    """A structure of inputs as JSON. Tensors are their shape and type."""
    if isinstance(value, torch.Tensor):
        return {"tensor": [list(value.shape), str(value.dtype).removeprefix("torch.")]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_describe(item) for item in value]}
    if type(value) in (dict, OrderedDict):
        return {type(value).__name__: [[_describe(key), _describe(item)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise createPoptorchError(
        f"An input of type {type(value).__name__} cannot be written to a file: "
        "save models whose inputs are tensors, numbers and texts in lists, tuples and dictionaries."
    )


def _build(described: dict[str, Any]) -> Any:
    ((kind, content),) = described.items()
    match kind:
        case "tensor":
            shape, dtype = content
            if dtype not in DTYPES or math.prod(check_shape(shape)) * DTYPES[dtype].itemsize > Limits().memory_bytes:
                raise ValueError(f"an input of type {shorten(dtype)} and shape {shape} fits no memory of this machine")
            return _make_zeros(check_shape(shape), DTYPES[dtype])
        case "list":
            return [_build(item) for item in content]
        case "tuple":
            return tuple(_build(item) for item in content)
        case "dict" | "OrderedDict":
            pairs = [(_build(key), _build(item)) for key, item in content]
            return dict(pairs) if kind == "dict" else OrderedDict(pairs)
        case "value" if content is None or isinstance(content, bool | int | float | str):
            return content
        case _:
            raise ValueError(f"{kind!r} is unknown")


def _make_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros that take no memory before somebody writes to them, whatever size a file asks for."""
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return torch.zeros(shape, dtype=dtype)
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
