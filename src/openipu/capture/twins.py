"""Meta twins of a model's parameters and buffers, in their place while the model is captured.

In: a module. Out: the same module holding twins: no weight is read, moved or copied. Leaving the context puts the very
same dictionaries back, whatever happened inside, and remembers what forward did to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from openipu.capture.attributes import TENSOR_DICTIONARIES, ModuleAttributes
from openipu.capture.failures import locate
from openipu.capture.formats import find_device_dtype
from openipu.capture.lines import find_user_line
from openipu.errors import CaptureError
from openipu.graph import SourceLine


class _WatchedTensors(dict[str, Any]):
    """A module's parameters or buffers while capturing: remembers which line last changed an entry."""

    def __init__(self, entries: dict[str, Any], original: dict[str, Any]) -> None:
        super().__init__(entries)
        self.original = original  # the module's own, for other threads
        self.changed_at: dict[str, SourceLine | None] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        self.changed_at[name] = find_user_line()
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.changed_at[name] = find_user_line()
        super().__delitem__(name)


@dataclass(frozen=True, slots=True)
class _Swap:
    """One dictionary of one module."""

    module: nn.Module
    prefix: str  # of the module's name
    attribute: str
    original: dict[str, Any]
    watched: _WatchedTensors


class ModelTwins:
    """The twins of one model, by name, and by id of the tensor that they stand for."""

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self.parameters: dict[str, nn.Parameter] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.by_id: dict[int, torch.Tensor] = {}
        self._swaps: list[_Swap] = []
        self._attributes: list[ModuleAttributes] = []
        if model is None:
            return
        for name, parameter in model.named_parameters():  # each tensor once, so what is tied stays tied
            if nn.parameter.is_lazy(parameter):
                raise CaptureError(
                    f"Parameter {name} has no shape yet, because its module is lazy. "
                    "Call the model once on the CPU before it is compiled."
                )
            twin = nn.Parameter(make_twin(parameter), requires_grad=parameter.requires_grad)
            twin.__dict__.update(parameter.__dict__)
            self.parameters[name] = self.by_id[id(parameter)] = twin
        for name, buffer in model.named_buffers():
            self.buffers[name] = self.by_id[id(buffer)] = make_twin(buffer)

    def __enter__(self) -> ModelTwins:
        try:
            for name, module in [] if self._model is None else self._model.named_modules():
                self._attributes.append(ModuleAttributes(module))
                for attribute in TENSOR_DICTIONARIES:
                    original = module.__dict__.get(attribute)
                    if isinstance(original, dict):
                        self._swap(module, f"{name}." if name else "", attribute, original)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        for swap in self._swaps:
            swap.module.__dict__[swap.attribute] = swap.original
        for attributes in self._attributes:
            attributes.restore()

    @contextmanager
    def stand_aside(self) -> Iterator[None]:
        """The model's own tensors are back in their place for the while: host code inside forward reads values."""
        for swap in self._swaps:
            swap.module.__dict__[swap.attribute] = swap.original
        try:
            yield
        finally:
            for swap in self._swaps:
                swap.module.__dict__[swap.attribute] = swap.watched

    def _swap(self, module: nn.Module, prefix: str, attribute: str, original: dict[str, Any]) -> None:
        entries = {key: None if value is None else self.by_id[id(value)] for key, value in original.items()}
        swap = _Swap(module, prefix, attribute, original, _WatchedTensors(entries, original))
        self._swaps.append(swap)
        module.__dict__[attribute] = swap.watched

    def check_unchanged(self) -> None:
        """Forward may change a tensor in place; it may not put another in its place."""
        for swap in self._swaps:
            kind = "Buffer" if swap.attribute == "_buffers" else "Parameter"
            for key, original in swap.original.items():
                name = swap.prefix + key
                twin = None if original is None else self.by_id[id(original)]
                line = swap.watched.changed_at.get(key)
                if twin is None:
                    continue
                if key not in swap.watched:
                    raise CaptureError(
                        locate(
                            f"{kind} {name} is removed from the model when calling the forward method. "
                            "This is not supported. Keep it, and ignore it where it is not needed.",
                            line,
                        )
                    )
                if swap.watched[key] is not twin:
                    raise CaptureError(
                        locate(
                            f"{kind} {name} is reassigned within the model when calling the forward method. "
                            f"This is not supported. Consider using self.{key}.copy_(src) to copy data from a source "
                            "tensor, where src is the name of the source tensor.",
                            line,
                        )
                    )


def list_tensors(model: nn.Module, attribute: str) -> dict[str, torch.Tensor]:
    """A model's own "_parameters" or "_buffers" by name, each tensor once, even while another thread captures it."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        entries = getattr(module, attribute)
        own = entries.original if isinstance(entries, _WatchedTensors) else entries
        for key, tensor in own.items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{prefix}.{key}" if prefix else key] = tensor
    return found


def make_twin(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same shape and strides, in the format that the device holds it in."""
    dtype = find_device_dtype(tensor.dtype)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
