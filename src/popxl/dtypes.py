"""Number formats by popxl's names.

In: names, numpy's, torch's and Python's types. Out: a `dtype`, which also says as what a program holds it: an IPU has
no 64-bit numbers, and PyTorch computes with no unsigned ones but bytes.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import torch

np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])

_by_name: dict[str, dtype] = {}
_by_numpy: dict[np.dtype[Any], dtype] = {}
_by_torch: dict[torch.dtype, dtype] = {}
_by_python: dict[Any, dtype] = {}
_by_popart: dict[str, dtype] = {}


class dtype:  # noqa: N801 (popxl's own name)
    """One number format. There is one object for each."""

    _name: str
    _np_type: np.dtype[Any]
    _pt_type: torch.dtype | None
    _held: torch.dtype
    _kind: str
    _popart: str

    def __init__(self) -> None:
        raise TypeError("Cannot create a number format: popxl has them all, such as `popxl.float32`.")

    @property
    def name(self) -> str:
        """Its name: float32."""
        return self._name

    @property
    def is_complex(self) -> builtins.bool:
        """Has it an imaginary part?"""
        return self._kind == "c"

    @property
    def is_int(self) -> builtins.bool:
        """Does it hold whole numbers?"""
        return self._kind in "iu"

    @property
    def is_floating_point(self) -> builtins.bool:
        """Does it hold real numbers?"""
        return self._kind == "f"

    @property
    def is_signed(self) -> builtins.bool:
        """Has it negative numbers?"""
        return self._kind in "ifc"

    @classmethod
    def from_name(cls, name: str) -> dtype:
        """The format of a name."""
        if isinstance(name, str) and name in _by_name:
            return _by_name[name]
        raise ValueError(f"popxl knows no dtype that has a name like {name!r}.")

    @classmethod
    def as_dtype(cls, type_value: Any) -> dtype:
        """The format that a name, a type of Python, numpy or torch, or an array has."""
        if isinstance(type_value, dtype):
            return type_value
        for table in (_by_name, _by_python, _by_numpy, _by_torch):
            try:
                if type_value in table:
                    return table[type_value]
            except TypeError:
                continue
        popart = getattr(type_value, "name", None)
        if isinstance(popart, str) and popart in _by_popart:
            return _by_popart[popart]
        held = getattr(type_value, "dtype", None)
        if isinstance(held, torch.dtype) and held in _by_torch:
            return _by_torch[held]
        found = _find_numpy(type_value) or _find_numpy(held)
        if found is None:
            raise ValueError(f"No dtype of popxl is compatible with value {type_value!r} of {type(type_value)}.")
        return found

    def as_numpy(self) -> np.dtype[Any]:
        """numpy's type."""
        return self._np_type

    def as_torch(self) -> torch.dtype:
        """torch's type."""
        if self._pt_type is None:
            raise TypeError(f"popxl.{self._name} has no corresponding PyTorch format.")
        return self._pt_type

    def __repr__(self) -> str:
        return f"popxl.{self._name}"

    def __reduce__(self) -> Any:
        return (dtype.from_name, (self._name,))


def _find_numpy(value: Any) -> dtype | None:
    try:
        return None if value is None else _by_numpy.get(np.dtype(value))
    except TypeError:
        return None


def _make(
    name: str, kind: str, np_type: Any, pt_type: torch.dtype | None, held: torch.dtype, popart: str, python: Any = None
) -> dtype:
    made = object.__new__(dtype)
    made._name, made._kind, made._np_type = name, kind, np.dtype(np_type)
    made._pt_type, made._held, made._popart = pt_type, held, popart
    _by_name[name] = made
    _by_numpy[made._np_type] = made
    _by_popart[popart] = made
    if pt_type is not None:
        _by_torch[pt_type] = made
    if python is not None:
        _by_python[python] = made
    return made


_bool = builtins.bool
bool = _make("bool", "b", np.bool_, torch.bool, torch.bool, "BOOL", builtins.bool)
int8 = _make("int8", "i", np.int8, torch.int8, torch.int8, "INT8")
int16 = _make("int16", "i", np.int16, torch.int16, torch.int16, "INT16")
int32 = _make("int32", "i", np.int32, torch.int32, torch.int32, "INT32")
int64 = _make("int64", "i", np.int64, torch.int64, torch.int64, "INT64")
uint8 = _make("uint8", "u", np.uint8, torch.uint8, torch.uint8, "UINT8")
uint16 = _make("uint16", "u", np.uint16, None, torch.int32, "UINT16")
uint32 = _make("uint32", "u", np.uint32, None, torch.int32, "UINT32")
uint64 = _make("uint64", "u", np.uint64, None, torch.int64, "UINT64")
float8_143 = _make("float8_143", "f", np_dtype_float8_143, None, torch.uint8, "FLOAT8_143")
float8_152 = _make("float8_152", "f", np_dtype_float8_152, None, torch.uint8, "FLOAT8_152")
float16 = _make("float16", "f", np.float16, torch.float16, torch.float16, "FLOAT16")
float32 = _make("float32", "f", np.float32, torch.float32, torch.float32, "FLOAT", builtins.float)
float64 = _make("float64", "f", np.float64, torch.float64, torch.float32, "DOUBLE")
complex64 = _make("complex64", "c", np.complex64, torch.complex64, torch.complex64, "COMPLEX64")
complex128 = _make("complex128", "c", np.complex128, torch.complex128, torch.complex64, "COMPLEX128")

half = float16
float = float32
double = float64

_by_held = {made._held: made for made in (bool, int8, int16, int32, int64, uint8, float16, float32, complex64)}


def find_dtype(held: torch.dtype, like: tuple[dtype, ...] = ()) -> dtype:
    """The format of a result that a program holds as `held`: that of an operand which is held alike, if one is."""
    return next((entry for entry in like if entry._held is held), _by_held[held])


def to_held(array: np.ndarray[Any, Any], kind: dtype) -> torch.Tensor:
    """An array of the host as the tensor that a program holds."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    if kind in (float8_143, float8_152):
        return torch.from_numpy(array.view(np.uint8).copy())
    if kind is uint32:
        return torch.from_numpy(array.view(np.int32).copy())
    if kind in (uint16, uint64, float64, complex128):
        narrow = {uint16: np.int32, uint64: np.int64, float64: np.float32, complex128: np.complex64}[kind]
        return torch.from_numpy(array.astype(narrow))
    return torch.from_numpy(array.copy())


def from_held(tensor: torch.Tensor, kind: dtype) -> np.ndarray[Any, Any]:
    """What a program holds, as an array of the host."""
    array = tensor.detach().numpy()
    if kind in (float8_143, float8_152):
        return np.ascontiguousarray(array).view(kind.as_numpy()).reshape(array.shape)
    if kind is uint32:
        return np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    return array.astype(kind.as_numpy(), copy=True)
