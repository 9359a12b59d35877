"""Collects one ONNX graph: nodes, constants, and names that are used once.

In: ops with the names that they read. Out: an `onnx.GraphProto`. Equal small constants are written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from openipu.errors import ExportError

if TYPE_CHECKING:
    import onnx

OPSET = 18
IR_VERSION = 8  # what goes with the opset


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph: its name in ONNX, its shape and number format."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


class GraphWriter:
    """One graph. `inner` makes the writer of a loop's or a branch's body, whose names differ from all others."""

    def __init__(self, outer: GraphWriter | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, torch.Tensor] = {}
        self.documentation = ""  # of the nodes that are added next
        self._taken: set[str] = set() if outer is None else outer._taken
        self._constants: dict[tuple[Any, ...], Value] = {}

    def inner(self) -> GraphWriter:
        writer = GraphWriter(self)
        writer.documentation = self.documentation
        return writer

    def claim(self, wished: str) -> str:
        """A name like the wished one that nobody has."""
        name, number = wished, 1
        while name in self._taken:
            number += 1
            name = f"{wished}_{number}"
        self._taken.add(name)
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[Value | None],
        results: Sequence[tuple[Sequence[int], torch.dtype]],
        name: str = "",
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """A node with several results."""
        from onnx import helper

        outputs = [Value(self.claim(name or op.lower()), tuple(shape), dtype) for shape, dtype in results]
        words = ["" if value is None else value.name for value in inputs]
        while words and not words[-1]:
            words.pop()
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op, words, [value.name for value in outputs], name=self.claim(f"node_{op}"), **given)
        if self.documentation:
            node.doc_string = self.documentation
        self.nodes.append(node)
        return tuple(outputs)

    def one(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: torch.dtype,
        name: str = "",
        **attributes: Any,
    ) -> Value:
        """A node with one result."""
        return self.add(op, inputs, [(shape, dtype)], name, **attributes)[0]

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> Value:
        """A constant of the graph: a tensor, a number, or a list of whole numbers."""
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype or torch.int64)
        tensor = tensor.detach().to(dtype or tensor.dtype)
        key = (tuple(tensor.shape), tensor.dtype, tuple(map(repr, tensor.flatten().tolist())))
        if tensor.numel() <= 64 and key in self._constants:
            return self._constants[key]
        name = self.claim("constant")
        self.initializers[name] = tensor
        found = Value(name, tuple(tensor.shape), tensor.dtype)
        if tensor.numel() <= 64:
            self._constants[key] = found
        return found

    def build(
        self,
        name: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        values: Mapping[str, torch.Tensor] | None = None,
    ) -> onnx.GraphProto:
        """The graph. `values`: of inputs that have some already, as further initialisers."""
        from onnx import helper

        tensors = {**(values or {}), **self.initializers}
        return helper.make_graph(
            self.nodes,
            name,
            [describe(value) for value in inputs],
            [describe(value) for value in outputs],
            [write_tensor(key, tensor) for key, tensor in tensors.items()],
        )


def describe(value: Value) -> onnx.ValueInfoProto:
    """A tensor's name, format and shape as ONNX has them."""
    from onnx import helper

    return helper.make_tensor_value_info(value.name, code_of(value.dtype), value.shape)


def code_of(dtype: torch.dtype) -> int:
    """ONNX's number for a format."""
    from onnx import TensorProto

    name = _FORMATS.get(dtype)
    if name is None:
        raise ExportError(
            f"ONNX (opset {OPSET}) has no number format for {dtype}. Convert the model to float32 or float16."
        )
    return int(getattr(TensorProto, name))


def write_tensor(name: str, tensor: torch.Tensor) -> onnx.TensorProto:
    """A tensor with its data."""
    from onnx import TensorProto

    proto = TensorProto(name=name, data_type=code_of(tensor.dtype), dims=list(tensor.shape))
    flat = tensor.detach().contiguous().flatten()
    proto.raw_data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return proto


_FORMATS: dict[torch.dtype, str] = {
    torch.float32: "FLOAT",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.float64: "DOUBLE",
    torch.int64: "INT64",
    torch.int32: "INT32",
    torch.int16: "INT16",
    torch.int8: "INT8",
    torch.uint8: "UINT8",
    torch.bool: "BOOL",
}
