"""A session's weights on the host, and their way to the device and back.

In: the weights of a model. Out: `PyWeightsIO`s filled or taken from, models written with new values, a program's
memory loaded and read. Optimizer state is kept beside the weights, under PopART's names for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from openipu.files.saving import save_bytes
from openipu.graph import InputKind
from openipu.run import Executable
from popart._build.external import find_location, note_own, refer, take_in
from popart._build.tensor_data import write_values
from popart._exceptions import popart_exception
from popart._formats import BY_TORCH
from popart._sessions.model import SessionModule
from popart._stepio import PyWeightsIO

Array = np.ndarray[Any, Any]


class HostWeights:
    """Weights by name, as the host has them now."""

    def __init__(self, module: SessionModule, grouped: Mapping[str, torch.Tensor] | None = None) -> None:
        """`grouped`: variables that groups of replicas hold values of their own of, as the host has them."""
        self.values: dict[str, torch.Tensor] = {}
        for name, weight in module.graph.weights.items():
            held: torch.Tensor | None = module._parameters.get(name)
            held = held if held is not None else module._buffers.get(name)
            self.values[name] = (held if held is not None else weight.read()).detach().clone()
        self.values |= {name: value.clone() for name, value in (grouped or {}).items()}
        self.state: dict[str, torch.Tensor] = {}  # optimizer state, by PopART's names
        self._moved: dict[str, str] = {}  # file that a model names -> file that has its weights now

    def load_into(self, executable: Executable) -> None:
        """Copy to the device."""
        parameters, buffers = self._split(executable)
        executable.load_weights(parameters, buffers)

    def read_from(self, executable: Executable) -> None:
        """Copy from the device."""
        parameters, buffers = self._split(executable)
        executable.read_weights(parameters, buffers)
        for name, value in {**parameters, **buffers}.items():
            self.values[name].copy_(value)

    def _split(self, executable: Executable) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        micro = executable.program.micro
        parts = []
        for kind in (InputKind.PARAMETER, InputKind.BUFFER):
            entries = micro.inputs_of(kind)
            parts.append({entry.name: self.values[entry.name].to(entry.dtype) for entry in entries})
        return parts[0], parts[1]

    def give(self, weights: PyWeightsIO) -> None:
        """Fill arrays of the user's."""
        everything = {**self.values, **self.state}
        for name in weights._names():
            if name not in everything:
                raise popart_exception(f"There is no weight {name!r}. Weights are {', '.join(everything)}.")
            target = weights._find(name)
            assert target is not None
            source = everything[name].numpy()
            if target.size != source.size:
                raise popart_exception(
                    f"The array for {name!r} has {target.size} elements, and the weight {source.size} "
                    f"(shape {list(source.shape)})."
                )
            target.reshape(-1)[...] = source.reshape(-1)

    def take(self, weights: PyWeightsIO) -> None:
        """Take values from arrays of the user's."""
        for name in weights._names():
            given = weights._find(name)
            held = self.values.get(name, self.state.get(name))
            if held is None or given is None:
                raise popart_exception(f"There is no weight {name!r}. Weights are {', '.join(self.values)}.")
            if given.size != held.numel():
                raise popart_exception(
                    f"The array for {name!r} has {given.size} elements, and the weight {held.numel()} "
                    f"(shape {list(held.shape)})."
                )
            value = torch.from_numpy(np.array(given, copy=True)).reshape(held.shape).to(held.dtype)
            (self.values if name in self.values else self.state)[name] = value

    def reset(self, source: bytes | str, ignore_unknown: bool, state: Mapping[str, torch.Tensor]) -> None:
        """Take values from a model with the same weights."""
        found = {entry.name: numpy_helper.to_array(entry) for entry in _read(source).graph.initializer}
        targets = {**self.values, **state}
        for name, value in found.items():
            held = targets.get(name)
            if held is None:
                if ignore_unknown:
                    continue
                raise popart_exception(f"resetWeights, no tensor '{name}' in tensors")
            if list(value.shape) != list(held.shape):
                raise popart_exception(
                    f"resetWeights, the tensor '{name}' has the shape {list(value.shape)}, and {list(held.shape)} is "
                    "wanted."
                )
            kept = torch.from_numpy(np.array(value, copy=True)).to(held.dtype)
            (self.values if name in self.values else self.state)[name] = kept

    def save(self, source: bytes | str, path: Path, extra: Mapping[str, torch.Tensor]) -> None:
        """Write the model with these values, and optimizer state as further initialisers.

        Weights that lie in a file beside the model are written there, with the state behind them.
        """
        model = _read_plain(source)
        inside = {name: find_location(entry) for name, entry in ((one.name, one) for one in model.graph.initializer)}
        locations = {name: self._moved.get(where, where) for name, where in inside.items() if where is not None}
        for where in locations.values():
            if not Path(where).is_file():
                raise popart_exception(
                    f"Unrecognised file name '{where}': weights of the model lie in it. Say where they are now with "
                    "updateExternallySavedTensorLocations."
                )
        known = {entry.name for entry in model.graph.initializer}
        contents: dict[str, bytearray] = {}
        behind = next(iter(locations.values()), None)
        for name in extra:
            if name not in known:
                model.graph.initializer.add(name=name)
        for entry in model.graph.initializer:
            value = extra.get(entry.name, self.values.get(entry.name))
            if value is None:
                continue
            write_values(entry, entry.name, BY_TORCH[value.dtype].onnx, value.contiguous().numpy())
            place = locations.get(entry.name, behind if entry.name in extra else None)
            if place is not None:
                _move_out(entry, value, place, contents.setdefault(place, bytearray()))
        for where, content in contents.items():
            save_bytes(Path(where), bytes(content))
            note_own(Path(where))
        save_bytes(path, model.SerializeToString())

    def move_file(self, source: bytes | str, old: str, new: str) -> None:
        """From now on, weights that lie in one file lie in another, which begins as its copy."""
        if not Path(old).is_file():
            raise popart_exception(f"Tensor data is to be moved to '{new}', but file '{old}' does not exist.")
        named = {find_location(entry) for entry in _read_plain(source).graph.initializer} - {None}
        now = {self._moved.get(str(where), str(where)): str(where) for where in named}
        if old not in now:
            raise popart_exception(f"No ONNX model initializers have external location set to '{old}'")
        shutil.copyfile(old, new)
        note_own(Path(new))
        self._moved[now[old]] = new


def _move_out(entry: onnx.TensorProto, value: torch.Tensor, where: str, content: bytearray) -> None:
    data = value.contiguous().numpy().tobytes()
    kind, dims, name = entry.data_type, list(entry.dims), entry.name
    entry.Clear()
    entry.name, entry.data_type = name, kind
    entry.dims.extend(dims)
    refer(entry, where, len(content), len(data))
    content += data


def _read_plain(source: bytes | str) -> onnx.ModelProto:
    """The model as it is, with references to files where it has some."""
    return onnx.load_from_string(source if isinstance(source, bytes) else Path(source).read_bytes())


def _read(source: bytes | str) -> onnx.ModelProto:
    folder = Path.cwd() if isinstance(source, bytes) else Path(source).parent
    try:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
        return onnx.load_from_string(take_in(content, folder))
    except OSError as error:
        raise popart_exception(f"The model {source!r} cannot be read: {error.strerror or error}") from error
    except popart_exception:
        raise
    except Exception as error:  # protobuf's own class differs from version to version
        raise popart_exception(f"This is not an ONNX model: {error}") from error
