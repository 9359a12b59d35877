"""All in-place ops of ATen, as their schemas list them, each with arguments for a 4 x 4 x 4 cube."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten

RANDOM = frozenset(
    {
        "alpha_dropout_",
        "bernoulli_",
        "cauchy_",
        "dropout_",
        "exponential_",
        "feature_alpha_dropout_",
        "feature_dropout_",
        "geometric_",
        "log_normal_",
        "normal_",
        "random_",
        "rrelu_",
        "rrelu_with_noise_",
        "uniform_",
    }
)
# Without a meaning here, and why.
LEFT_OUT = {
    "copy_sparse_to_sparse_": "sparse tensors",
    "resize_as_sparse_": "sparse tensors",
    "sparse_resize_": "sparse tensors",
    "sparse_resize_and_clear_": "sparse tensors",
    "float_power_": "writes float64, which the device does not hold",
    "requires_grad_": "changes no value",
    "set_": "refused: memory without a name",
    "embedding_renorm_": "takes a matrix; tested by itself",
}
_INTEGER = frozenset({"gcd_", "lcm_"})  # and all that work on bits
# Of which part of the cube an op takes its target, where it is not the whole.
_PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "addbmm_": lambda y: y[1],
    "addmm_": lambda y: y[1],
    "addr_": lambda y: y[1],
    "t_": lambda y: y[1],
    "addmv_": lambda y: y[1, 2],
}
_SCRIPT_ONLY = ("t", "int", "float", "bool", "str", "hacked_twin")  # overloads of TorchScript's lists and numbers


@dataclass(frozen=True)
class InPlaceOp:
    """One overload."""

    name: str
    overload: str

    def __str__(self) -> str:
        return f"{self.name}.{self.overload}"

    @property
    def random(self) -> bool:
        return self.name in RANDOM

    @property
    def integer(self) -> bool:
        return self.name in _INTEGER or self.name.startswith("bitwise_")

    def write(self, y: torch.Tensor, x: torch.Tensor) -> None:
        """Apply it to `y`, or to a part of it; arguments that are tensors are made of `x`."""
        target = _PARTS.get(self.name, lambda whole: whole)(y)
        operation = getattr(getattr(aten, self.name), self.overload)
        arguments = operation._schema.arguments[1:]
        values = {}
        for argument in arguments:
            value = _make_argument(self, argument, x)
            if value is not None:
                values[argument.name] = value
        args = [
            values.pop(argument.name) for argument in arguments if not argument.kwarg_only and argument.name in values
        ]
        operation(target, *args, **values)


def list_in_place_ops() -> list[InPlaceOp]:
    """Those with a tensor as their first argument, which they write."""
    names = sorted({schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()})
    found = []
    for name in names:
        packet = getattr(aten, name, None) if name.endswith("_") and not name.startswith("_") else None
        for overload in packet.overloads() if packet is not None and name not in LEFT_OUT else ():
            first = getattr(packet, overload)._schema.arguments[0]
            written = first.alias_info is not None and first.alias_info.is_write and str(first.type) == "Tensor"
            if written and overload not in _SCRIPT_ONLY and not (name == "copy_" and overload == "Tensor"):
                found.append(InPlaceOp(name, overload))
    return found


def _make_argument(op: InPlaceOp, argument: Any, x: torch.Tensor) -> Any:
    fixed: dict[tuple[str, str], Callable[[], Any]] = {
        ("addbmm_", "batch1"): lambda: x,
        ("addmm_", "mat1"): lambda: x[0],
        ("addmm_", "mat2"): lambda: x[1],
        ("addmv_", "mat"): lambda: x[0],
        ("as_strided_", "size"): lambda: [4, 4, 4],
        ("as_strided_", "stride"): lambda: [1, 16, 4],
        ("squeeze_", "dim"): lambda: [0, 1] if op.overload == "dims" else 1,
        ("resize_", "size"): lambda: [4, 4, 4],
        ("resize_as_", "the_template"): lambda: x,
        ("put_", "index"): lambda: torch.tensor([0, 5, 17], device=x.device),
        ("put_", "source"): lambda: x.flatten()[:3],
        ("index_put_", "indices"): lambda: [torch.tensor([0, 2], device=x.device)],
        ("index_put_", "values"): lambda: x[:2],
        ("mvlgamma_", "p"): lambda: 1,
        ("polygamma_", "n"): lambda: 1,
        ("random_", "to"): lambda: 9,
        ("round_", "decimals"): lambda: 1,
        ("fill_diagonal_", "fill_value"): lambda: 0.25,
        ("pow_", "exponent"): lambda: 2 if op.overload == "Scalar" else x,
    }
    if (op.name, argument.name) in fixed:
        return fixed[op.name, argument.name]()
    if argument.name in ("generator", "non_blocking", "accumulate", "dtype", "storage_offset", "memory_format"):
        return None
    if argument.name in ("vec", "vec1", "vec2"):
        return x[0, 1]
    if argument.name == "index":
        rows = torch.tensor([0, 2], device=x.device)
        return rows if op.name.startswith("index_") else rows[:, None, None].expand(2, 4, 4)
    if argument.name in ("source", "src") and (op.name.startswith("index_") or op.name.startswith("scatter")):
        return x[:2] * 2
    if argument.name == "mask":
        return x > 0
    if argument.name in ("dim", "dim0", "axis0", "dim1", "axis1"):
        return {"dim": 0, "dim0": 0, "axis0": 0, "dim1": 1, "axis1": 1}[argument.name]
    if argument.name == "reduce":
        return {"scatter_": "add", "index_reduce_": "amax"}.get(op.name, "amax")
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
    if kind == "Tensor":
        scalar = op.name in ("fill_", "masked_fill_", "index_fill_") and argument.name == "value"
        return x[0, 0, 0] if scalar else x.flip(0) * 3 if op.integer else x.flip(0) * 0.5 + 0.1
    if argument.has_default_value() and argument.name not in ("min", "max"):
        return None
    return {"number": 2 if op.integer else 0.5, "float": 0.5, "int": 1, "str": "floor", "bool": True}[kind]
