"""`popart.NumericsReport`: how far two trainings of one model have gone apart.

In: four ONNX files, two models before and after training. Out: for each floating-point weight |a-b|² / (|a||b| + 1e-8)
of its two changes a and b, as numbers and in words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from popart._build.external import take_in
from popart._exceptions import popart_exception

_LEAST = 1e-8


class NumericsReport:
    """Compares the changes of the weights of A with those of B."""

    def __init__(self, A0: str, A1: str, B0: str, B1: str) -> None:
        files = [A0, A1, B0, B1]
        weights = [_read(file) for file in files]
        for file, found in zip(files, weights, strict=True):
            if [(name, value.shape, value.dtype) for name, value in found.items()] != [
                (name, value.shape, value.dtype) for name, value in weights[0].items()
            ]:
                raise popart_exception(
                    f"The models {A0} and {file} do not have the same initializers: names, shapes and formats must "
                    "correspond."
                )
        self._changes = {
            name: _compare(*(found[name].astype(np.float64) for found in weights))
            for name, value in weights[0].items()
            if value.dtype.kind == "f"
        }

    def getRelativeErrors(self) -> dict[str, float]:
        """The difference of the two changes of each weight, relative to their sizes."""
        return {name: error for name, (error, _, _) in self._changes.items()}

    def report(self, id: str) -> str:
        """One weight in words."""
        if id not in self._changes:
            raise popart_exception(f"No report available for {id}: weights are {', '.join(self._changes)}.")
        error, first, second = self._changes[id]
        return (
            f"|dA - dB|^2 / (|dA||dB| + {_LEAST:g}) = {error:.9g}, |dA||dB| = {first * second:.9g}, "
            f"|dA| = {first:.9g}, |dB| = {second:.9g}"
        )

    def fullReport(self) -> str:
        """All weights in words."""
        return "".join(f"\n{name}:\n{self.report(name)}" for name in sorted(self._changes))


def _read(file: str) -> dict[str, np.ndarray[Any, Any]]:
    path = Path(file)
    if not path.is_file():
        raise popart_exception(f"{file} is not a regular file, cannot read a model from it.")
    try:
        model = onnx.load_from_string(take_in(path.read_bytes(), path.parent))
        return {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    except popart_exception:
        raise
    except Exception as error:  # protobuf's own class differs from version to version
        raise popart_exception(f"{file} is not an ONNX model: {error}") from error


def _compare(a0: Any, a1: Any, b0: Any, b1: Any) -> tuple[float, float, float]:
    first, second = a1 - a0, b1 - b0
    sizes = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return float(np.sum((first - second) ** 2)) / (sizes[0] * sizes[1] + _LEAST), *sizes
