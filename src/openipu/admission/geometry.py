"""Shapes of results, inferred from shapes of arguments: by PyTorch's own meta kernels, once for each distinct call.

In: an operator and arguments in which a `Geometry` stands for each tensor. Out: the geometry of each result, and which
argument's memory it lies in. Layers of a model repeat, and so do their calls: most are answered from what was inferred
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.capture.pointwise import make_pointwise_result

META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where a tensor lies in its memory. `share` makes equal ones the same object, which `freeze` relies on."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # elements
    memory: int  # bytes that it shares with its views

    @classmethod
    def read(cls, tensor: torch.Tensor) -> Geometry:
        return cls(
            tensor.dtype,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            int(tensor.storage_offset()),
            tensor.untyped_storage().nbytes(),
        )

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def spread(self) -> int:
        """Elements, with a size of 0 counted as 1."""
        count = 1
        for size in self.shape:
            count *= max(size, 1)
        return count

    @property
    def extent(self) -> int:
        """Bytes from the beginning of its memory to its last element."""
        if not self.elements:
            return 0
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return (self.offset + last + 1) * self.dtype.itemsize

    def lies_like(self, other: Geometry) -> bool:
        """Whether the strides are the same wherever they matter."""
        if self.stride == other.stride or not self.elements:
            return True
        return all(
            size < 2 or step == twin for size, step, twin in zip(self.shape, self.stride, other.stride, strict=True)
        )

    def make(self) -> torch.Tensor:
        """A meta tensor in memory of its own that lies like this one."""
        held = -(-self.memory // self.dtype.itemsize)
        base = torch.empty(held, dtype=self.dtype, device=META)
        return base.as_strided(self.shape, self.stride, self.offset)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a call returns."""

    results: tuple[Geometry | None, ...]  # None: a gradient that was not asked for
    owners: tuple[int | None, ...]  # which tensor among the arguments each result lies in; None: memory of its own
    listed: bool  # several results in a list or tuple, or one tensor


def infer_results(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inferred:
    """Ask the meta kernel. Whatever it raises says that the arguments do not fit each other."""
    tensors: list[torch.Tensor] = []
    sources: list[Geometry] = []

    def make(value: Any) -> Any:
        if isinstance(value, Geometry):
            sources.append(value)
            tensors.append(value.make())
            return tensors[-1]
        if isinstance(value, list | tuple):
            return [make(item) for item in value]
        return META if isinstance(value, torch.device) else value

    given, named = [make(value) for value in args], {key: make(value) for key, value in kwargs.items()}
    if not tensors and any(argument.name == "device" for argument in operator._schema.arguments):
        named["device"] = META
    returned: Any = make_pointwise_result(
        operator, tuple(given), named
    )  # the simplest and most frequent, as in capture
    if returned is None:
        with torch.no_grad():
            returned = operator(*given, **named)
    listed = not isinstance(returned, torch.Tensor)
    results = list(returned) if listed else [returned]
    places = {tensor.untyped_storage()._cdata: index for index, tensor in reversed(list(enumerate(tensors)))}
    owners = tuple(None if result is None else places.get(result.untyped_storage()._cdata) for result in results)
    found = tuple(None if result is None else Geometry.read(result) for result in results)
    for geometry, owner in zip(found, owners, strict=True):  # meta kernels do not look: their memory is not there
        if geometry is not None and owner is not None and geometry.extent > sources[owner].memory:
            raise ValueError(
                f"a view over {geometry.extent:,} bytes leaves the {sources[owner].memory:,} of its tensor"
            )
    return Inferred(found, owners, listed)


def freeze(value: Any) -> Any:
    """A key for arguments whose geometries are shared: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    if isinstance(value, list | tuple):
        return tuple([freeze(item) for item in value])
    if isinstance(value, Mapping):
        return tuple([(key, freeze(item)) for key, item in value.items()])
    if type(value) is Geometry:
        return id(value)
    return (type(value), repr(value))
