"""`popart.TensorInfo`: the number format and the shape of a tensor.

In: a format and a shape, or an array. Out: both, under the names that callers ask for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from popart._enumerations.tensors import DataType
from popart._formats import Format, find_format


class TensorInfo:
    """`TensorInfo("FLOAT", [2, 3])`, `TensorInfo(np.float32, [2, 3])` or `TensorInfo(array)`."""

    def __init__(self, *args: Any) -> None:
        self._format: Format
        self._shape: tuple[int, ...]
        if len(args) == 1 and isinstance(args[0], TensorInfo):
            self._format, self._shape = args[0]._format, args[0]._shape
        elif len(args) == 1 and hasattr(args[0], "dtype"):
            array = np.asarray(args[0])
            self._format, self._shape = find_format(array.dtype), tuple(array.shape)
        elif len(args) == 2:
            self._format = find_format(args[0])
            self._shape = tuple(int(size) for size in args[1])
        else:
            raise TypeError("TensorInfo takes a number format and a shape, or an array.")

    @property
    def _number_format(self) -> Format:
        return self._format

    def shape(self) -> list[int]:
        """The sizes of its dimensions."""
        return list(self._shape)

    def dataType(self) -> DataType:
        """The format as an enumeration."""
        return self._format.number

    def data_type(self) -> str:
        """The format as in "FLOAT16"."""
        return self._format.name

    def data_type_lcase(self) -> str:
        """The format as NumPy names it, such as "float16"."""
        return self._format.small

    def rank(self) -> int:
        """How many dimensions it has."""
        return len(self._shape)

    def nelms(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self._shape, dtype=np.int64))

    def nbytes(self) -> int:
        """How many bytes these are."""
        return self.nelms() * self._format.numpy.itemsize

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorInfo) and (self._format, self._shape) == (other._format, other._shape)

    def __hash__(self) -> int:
        return hash((self._format, self._shape))

    def __repr__(self) -> str:
        return f"({self._format.name} [{' '.join(map(str, self._shape))}])"
