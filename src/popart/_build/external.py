"""Weights in a file of their own, beside their model.

In: a model, names of weights, the path of the file. Out: the model with references, and the file: written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import numpy_helper

from openipu.files.saving import save_bytes
from popart._exceptions import popart_exception


def save_externally(model: onnx.ModelProto, names: Sequence[str], path: Path) -> None:
    """Move some weights of a model to a file."""
    if not path.absolute().parent.is_dir():
        raise popart_exception(f"Unable to save tensors to {path}: its parent directory does not exist.")
    by_name = {entry.name: entry for entry in model.graph.initializer}
    for name in names:
        entry = by_name.get(name)
        if entry is None:
            raise popart_exception(f"Unable to save tensor {name!r} externally: it is not an initializer of the model.")
        if entry.data_location == onnx.TensorProto.EXTERNAL:
            raise popart_exception(f"Tensor {name!r} already has an external data_location.")
    content = bytearray()
    for name in names:
        entry = by_name[name]
        data = entry.raw_data if entry.HasField("raw_data") else numpy_helper.to_array(entry).tobytes()
        start = len(content)
        content += data
        kind, dims = entry.data_type, list(entry.dims)
        entry.Clear()
        entry.name, entry.data_type = name, kind
        entry.dims.extend(dims)
        refer(entry, str(path), start, len(data))
    save_bytes(path, bytes(content))
    note_own(path)


def note_own(path: Path) -> None:
    """A file that this process wrote may be read again, wherever it lies."""
    _own.add(path.resolve())


def find_location(entry: onnx.TensorProto) -> str | None:
    """The file that has a weight's data; None: the model itself has it."""
    if entry.data_location != onnx.TensorProto.EXTERNAL:
        return None
    return next((item.value for item in entry.external_data if item.key == "location"), "")


def refer(entry: onnx.TensorProto, location: str, start: int, length: int) -> None:
    """Let a weight's data lie in a file."""
    entry.ClearField("raw_data")
    del entry.external_data[:]
    entry.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(start)), ("length", str(length))):
        entry.external_data.add(key=key, value=value)


def take_in(content: bytes, folder: Path) -> bytes:
    """A model with the data of its weights inside, where these lie in files that may be read.

    These are files in the model's folder, and files that builders of this process wrote, wherever they lie.
    """
    if b"location" not in content:
        return content
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception:  # protobuf's own class differs from version to version; the reader says what is wrong
        return content
    for entry in model.graph.initializer:
        if entry.data_location == onnx.TensorProto.EXTERNAL:
            data = _read_part(entry, folder)
            del entry.external_data[:]
            entry.data_location = onnx.TensorProto.DEFAULT
            entry.raw_data = data
    return bytes(model.SerializeToString())


def _read_part(entry: onnx.TensorProto, folder: Path) -> bytes:
    found = {item.key: item.value for item in entry.external_data}
    path = folder.joinpath(found.get("location", "")).resolve()
    if path not in _own and not path.is_relative_to(folder.resolve()):
        raise popart_exception(
            f"Tensor {entry.name!r} has its data in {found.get('location')!r}, which is neither in the model's folder "
            "nor a file that this program wrote: it is not read."
        )
    start, length = int(found.get("offset", 0)), int(found.get("length", -1))
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(length)
    except (OSError, ValueError) as error:
        raise popart_exception(
            f"Tensor {entry.name!r} has its data in {path}, but it doesn't exist or is not accessible: {error}"
        ) from error
    return data


_own: set[Path] = set()  # files that builders of this process wrote
