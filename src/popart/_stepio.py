"""How data comes and goes: `PyStepIO`, `PyStepIOCallback`, `PyWeightsIO`.

In: arrays by name, or functions that hand them over. Out: what a session takes for one step, as one array for each
input with all its micro-batches in order; and where results go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from popart._exceptions import popart_exception
from popart._formats import find_format

Array = np.ndarray[Any, Any]


class IStepIO:
    """What a session asks for data."""

    def enableRuntimeAsserts(self, enable: bool) -> None:
        """Whether sizes are checked."""

    def _check(self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Sequence[str]) -> None:
        """Check numbers of elements before a step."""

    def _take(self, name: str, shape: Sequence[int], count: int, dtype: np.dtype[Any]) -> Array:
        """`count` micro-batches of an input, one behind the other."""
        raise NotImplementedError

    def _put(self, name: str, value: Array) -> None:
        """A result: [micro-batches, …]."""
        raise NotImplementedError

    def _wants(self, name: str) -> bool:
        """Is there a place for a result?"""
        return True


class PyStepIO(IStepIO):
    """Data of whole steps as arrays. Inputs are read on from run to run, and begin again at their end."""

    def __init__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        for kind, arrays in (("input", inputs), ("output", outputs)):
            for name, array in arrays.items():
                _check_layout(kind, name, array)
        self._inputs, self._outputs = dict(inputs), dict(outputs)
        self._read: dict[str, int] = {}
        self._asserts = True

    def enableRuntimeAsserts(self, enable: bool) -> None:
        """Whether numbers of elements are checked before each run."""
        self._asserts = enable

    def _check(self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Sequence[str]) -> None:
        if not self._asserts:
            return
        for name, array in self._inputs.items():
            if name not in inputs:
                if name in known:
                    continue
                raise popart_exception(
                    f"The tensor '{name}' has been provided as one of the inputs to the stepIO, but it is not "
                    "registered as one of the inputs to the model. Please check your model."
                )
            if array.size != inputs[name]:
                raise popart_exception(
                    f"Unexpected number of input elements for Tensor {name}. Expected {inputs[name]}, but received "
                    f"{array.size} (shape {list(array.shape)}): micro-batch, batchesPerStep, accumulationFactor and "
                    "replicas multiply."
                )
        for name, array in self._outputs.items():
            if name in outputs and array.size != outputs[name]:
                raise popart_exception(
                    f"Unexpected number of output elements for Tensor {name}. Expected {outputs[name]}, but received "
                    f"{array.size} (shape {list(array.shape)}): use what initAnchorArrays() returns."
                )

    def _take(self, name: str, shape: Sequence[int], count: int, dtype: np.dtype[Any]) -> Array:
        if name not in self._inputs:
            raise popart_exception(
                f"No input named '{name}' provided. The input data has to be provided for all the model's inputs, and "
                f"these are there: {', '.join(map(repr, self._inputs)) or 'none'}."
            )
        array = self._inputs[name].reshape(-1)
        wanted = count * int(np.prod(shape, dtype=np.int64))
        if array.size == 0 or wanted == 0:
            return array
        start = self._read.get(name, 0) % array.size
        self._read[name] = (start + wanted) % array.size
        if start + wanted <= array.size:
            return array[start : start + wanted]
        return np.take(array, np.arange(start, start + wanted) % array.size)

    def _wants(self, name: str) -> bool:
        return name in self._outputs

    def _put(self, name: str, value: Array) -> None:
        target = self._outputs[name]
        found = value.reshape(-1)
        if target.dtype != found.dtype and not _may_hold(target.dtype, found.dtype):
            raise popart_exception(
                f"The output array of {name!r} holds {target.dtype}, and the tensor is {found.dtype}: use what "
                "initAnchorArrays() returns."
            )
        flat = target.reshape(-1)
        flat[: min(flat.size, found.size)] = found[: flat.size]


def _check_layout(kind: str, name: str, array: Array) -> None:
    if not array.flags["C_CONTIGUOUS"]:
        raise popart_exception(
            f"The {kind} array {name!r} is not contiguous (it is not c-contiguous): its numbers do not lie behind one "
            "another. Pass np.ascontiguousarray(array)."
        )


def _may_hold(target: np.dtype[Any], found: np.dtype[Any]) -> bool:
    """An IPU has no 64-bit numbers: those of its results fit a wider array."""
    return target.kind == found.kind and target.itemsize >= found.itemsize


class PyStepIOCallback(IStepIO):
    """Data by functions: one micro-batch of one replica for each call."""

    def __init__(
        self,
        input_callback: Callable[[str, bool], Array | None],
        input_complete_callback: Callable[[str], None],
        output_callback: Callable[[str], Array],
        output_complete_callback: Callable[[str], None],
    ) -> None:
        self._ask, self._asked = input_callback, input_complete_callback
        self._give, self._given = output_callback, output_complete_callback

    def _take(self, name: str, shape: Sequence[int], count: int, dtype: np.dtype[Any]) -> Array:
        parts = []
        for _ in range(count):
            array = self._ask(name, False)
            if array is None:
                raise popart_exception(f"The input callback has no data for {name!r}.")
            _check_layout("input", name, np.asarray(array))
            wanted = int(np.prod(shape, dtype=np.int64))
            if np.asarray(array).size != wanted:
                raise popart_exception(
                    f"The input callback gave {np.asarray(array).size} elements for {name!r}; a micro-batch "
                    f"has {wanted}."
                )
            parts.append(np.array(array, copy=True).reshape(-1))
            self._asked(name)
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    def _put(self, name: str, value: Array) -> None:
        for part in value:
            target = self._give(name)
            _check_layout("output", name, target)
            np.copyto(target.reshape(-1), part.reshape(-1), casting="same_kind")
            self._given(name)


class PyWeightsIO:
    """Weights as arrays by name."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = dict(weights)
        for name, array in self._weights.items():
            find_format(array.dtype)
            _check_layout("weight", name, array)

    def _find(self, name: str) -> Array | None:
        return self._weights.get(name)

    def _names(self) -> list[str]:
        return list(self._weights)
