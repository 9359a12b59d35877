"""Variables of Paddle's scopes as torch tensors, and back.

In: a scope and names. Out: copies in torch's formats; values written to the scope in the format that it has there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from openipu.errors import InputError


def find_tensor(scope: Any, name: str) -> Any:
    """A variable's tensor, or None where it has no data yet."""
    variable = scope.find_var(name)
    if variable is None:
        return None
    tensor = variable.get_tensor()
    return tensor if tensor._is_initialized() else None


def read_variable(scope: Any, name: str) -> torch.Tensor:
    """A copy of a variable."""
    tensor = find_tensor(scope, name)
    if tensor is None:
        raise InputError(
            f"The variable {name!r} has no value in the scope. Run the start-up program before the compiled one, or "
            "load the weights, and do so in the same scope."
        )
    return to_torch(np.array(tensor), str(tensor._dtype()))


def to_torch(array: np.ndarray[Any, Any], dtype: str = "") -> torch.Tensor:
    """A copy of an array. Paddle hands out bfloat16 as whole numbers of 16 bits."""
    if array.dtype == np.uint16:
        return torch.from_numpy(array.astype(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array).copy()).reshape(array.shape)


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A copy as an array."""
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().astype(np.uint16)
    return np.array(tensor.detach().contiguous().numpy())


def write_variable(scope: Any, name: str, value: torch.Tensor) -> None:
    """Replace a variable's data; its number format stays."""
    import paddle

    array = to_numpy(value)
    tensor = scope.var(name).get_tensor()
    if tensor._is_initialized():
        held = np.array(tensor)
        array = array.astype(held.dtype).reshape(held.shape) if held.size == array.size else array
    tensor.set(array, paddle.CPUPlace())


def read_number(scope: Any, name: str) -> float:
    """A variable that holds one number, of which each step reads one."""
    tensor = find_tensor(scope, name)
    array = None if tensor is None else np.asarray(tensor)
    if array is None or array.dtype == np.uint16:
        return float(read_variable(scope, name).reshape(-1)[0])
    return float(array.flat[0])
