"""An ONNX model as a `ForeignModel`.

In: a path, or bytes. Out: its graph with operator sets, attributes and weights in plain form. Weights are read when
somebody asks for them. Nothing of the file is trusted: what is wrong is an error that names the node or the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from openipu.errors import TranslationError
from openipu.translate.foreign import Dimension, ForeignGraph, ForeignNode, Place, TensorType, Weight
from openipu.translate.mapped_files import map_file
from openipu.translate.onnx.external import open_external
from openipu.translate.onnx.formats import DTYPES, find_dtype
from openipu.translate.onnx.order import sort_nodes
from openipu.translate.onnx.wire import Extent, strip_weights

NEWEST_OPSET = 28
DEEPEST_GRAPH = 24
MOST_NODES = 2_000_000
LARGEST_TENSOR = 1 << 40  # elements
_STANDARD = ("", "ai.onnx")
_MARKS = {1: "checkpoint", 2: "recomputed"}  # numbers of PopART's RecomputeType -> keys of Note.attributes

ReadNode = Callable[[ForeignNode], ForeignNode]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model file, read."""

    graph: ForeignGraph
    opsets: Mapping[str, int]
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_model(source: Path | str | bytes) -> OnnxModel:
    """Read a model from a path or from its bytes."""
    onnx = import_onnx()
    if isinstance(source, bytes):
        view, folder, file = memoryview(source), None, ""
    else:
        path = Path(source)
        view, folder, file = map_file(path, "The ONNX model"), path.parent, str(path)
    what = file or "The ONNX model"
    try:
        stripped = strip_weights(view)
    except TranslationError as error:
        raise TranslationError(f"{file}: {error}" if file else str(error)) from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(stripped.content)
    except Exception as error:  # protobuf's own class differs from version to version
        raise TranslationError(f"{what} is not an ONNX model, or is damaged: {error}.") from error
    if not model.HasField("graph"):
        raise TranslationError(f"{what} is not an ONNX model: it has no graph.")
    if model.functions:
        model = _inline_functions(model, what)
    opsets = _read_opsets(model, what)
    reader = _Reader(file, folder, opsets, view, stripped.extents)
    graph = reader.read_graph(model.graph, 0, frozenset())
    return OnnxModel(graph, opsets, {_text(entry.key): _text(entry.value) for entry in model.metadata_props})


def import_onnx() -> Any:
    """The package that knows the file format."""
    try:
        import onnx
    except ImportError as error:
        raise TranslationError("Reading ONNX files needs the package onnx: pip install '.[onnx]'.") from error
    return onnx


def _inline_functions(model: Any, what: str) -> Any:
    """Functions that the model defines itself, written out where they are called."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as error:
        raise TranslationError(f"{what}: the functions that it defines cannot be written out: {error}.") from error


def _read_opsets(model: Any, what: str) -> dict[str, int]:
    domains = [_text(entry.domain) for entry in model.opset_import]
    versions = [int(entry.version) for entry in model.opset_import]
    found = {
        ("" if domain in _STANDARD else domain): version for domain, version in zip(domains, versions, strict=True)
    }
    version = found.setdefault("", 1)
    if not 1 <= version <= NEWEST_OPSET:
        raise TranslationError(
            f"{what} uses operator set {version}, and 1 to {NEWEST_OPSET} are known. Convert it with "
            "onnx.version_converter, or export it for an older operator set."
        )
    return found


@dataclass(frozen=True, eq=False)
class _Reader:
    file: str
    folder: Path | None
    opsets: Mapping[str, int]
    view: memoryview
    extents: Mapping[int, Extent]

    def read_graph(self, proto: Any, depth: int, around: frozenset[str]) -> ForeignGraph:
        """A graph, or one inside a node; `around` are the names that it may use from outside."""
        what = self.file or "The ONNX model"
        if depth > DEEPEST_GRAPH:
            raise TranslationError(f"{what}: graph {proto.name!r} lies more than {DEEPEST_GRAPH} graphs deep.")
        if len(proto.node) > MOST_NODES:
            raise TranslationError(f"{what}: {len(proto.node)} nodes are more than {MOST_NODES}.")
        weights = dict(self._read_weights(proto, depth))
        inputs = {
            _text(entry.name): self._read_type(entry)
            for entry in proto.input
            if _text(entry.name) not in weights or depth > 0
        }
        outputs = tuple(_text(entry.name) for entry in proto.output)
        names = around | inputs.keys() | weights.keys()
        nodes = [self._read_node(node, number) for number, node in enumerate(proto.node)]
        ordered = sort_nodes(nodes, [_list_reads(node) for node in proto.node], names, what)
        inside = names | {name for node in ordered for name in node.outputs if name}
        finished = tuple(self._read_bodies(node, proto.node[node.number], depth, inside) for node in ordered)
        types = {_text(entry.name): self._read_type(entry) for entry in proto.output if _says_type(entry)}
        return ForeignGraph(_text(proto.name) or "graph", finished, inputs, outputs, weights, self.file, types)

    def _read_node(self, proto: Any, number: int) -> ForeignNode:
        domain, op = _text(proto.domain), _text(proto.op_type)
        domain = "" if domain in _STANDARD else domain
        inputs, outputs = tuple(map(_text, proto.input)), tuple(map(_text, proto.output))
        name = _text(proto.name) or next((output for output in outputs if output), "") or f"{op}_{number}"
        scope = name.strip("/").replace("/", ".")
        attributes = {_text(entry.name): self._read_attribute(entry, name) for entry in proto.attribute}
        version = self.opsets.get(domain, 1)
        return ForeignNode(
            *(op, inputs, outputs, attributes, domain, version, name, number, scope),
            *(read_place(attributes), read_marks(attributes)),
        )

    def _read_bodies(self, node: ForeignNode, proto: Any, depth: int, names: frozenset[str]) -> ForeignNode:
        graphs = {_text(entry.name): entry.g for entry in proto.attribute if entry.HasField("g")}
        if not graphs:
            return node
        bodies = {name: self.read_graph(graph, depth + 1, names) for name, graph in graphs.items()}
        attributes = {**node.attributes, **bodies}
        return ForeignNode(
            *(node.op, node.inputs, node.outputs, attributes, node.domain, node.version),
            *(node.name, node.number, node.scope, node.place, node.notes),
        )

    def _read_attribute(self, proto: Any, node: str) -> Any:
        kind = proto.type
        if kind == 1:
            return float(proto.f)
        if kind == 2:
            return int(proto.i)
        if kind == 3:
            return _decode(proto.s)
        if kind == 4:
            return self._read_tensor(proto.t, f"attribute {proto.name!r} of node {node!r}").read()
        if kind == 5:
            return None  # a graph: read when the names around it are known
        if kind == 6:
            return [float(item) for item in proto.floats]
        if kind == 7:
            return [int(item) for item in proto.ints]
        if kind == 8:
            return [_decode(item) for item in proto.strings]
        if kind == 9:
            return [
                self._read_tensor(item, f"attribute {proto.name!r} of node {node!r}").read() for item in proto.tensors
            ]
        if kind in (11, 12):
            return self._read_sparse(proto.sparse_tensor, node) if kind == 11 else None
        if kind in (13, 14):
            return None  # a type
        raise TranslationError(
            f"{self.file or 'The ONNX model'}: attribute {proto.name!r} of node {node!r} has the unknown kind {kind}."
        )

    def _read_sparse(self, proto: Any, node: str) -> torch.Tensor:
        values = self._read_tensor(proto.values, f"sparse values of node {node!r}").read()
        indices = self._read_tensor(proto.indices, f"sparse indices of node {node!r}").read()
        shape = tuple(int(size) for size in proto.dims)
        if math.prod(shape) > 1 << 28 or any(size < 0 for size in shape):
            raise TranslationError(f"The sparse tensor of node {node!r} is too large: {shape}.")
        dense = torch.zeros(shape, dtype=values.dtype)
        places = indices.long() if indices.dim() == 1 else _flatten_indices(indices.long(), shape)
        if places.numel() != values.numel() or (
            places.numel() and not 0 <= int(places.min()) <= int(places.max()) < dense.numel()
        ):
            raise TranslationError(f"The sparse tensor of node {node!r} has indices outside its shape {shape}.")
        dense.view(-1)[places] = values.flatten()
        return dense

    def _read_weights(self, proto: Any, depth: int) -> Iterable[tuple[str, Weight]]:
        for number, entry in enumerate(proto.initializer):
            extent = self.extents.get(number) if depth == 0 else None
            yield _text(entry.name), self._read_tensor(entry, f"initializer {entry.name!r}", extent)
        for entry in proto.sparse_initializer:
            dense = self._read_sparse(entry, entry.values.name)
            yield _text(entry.values.name), Weight(dense.dtype, tuple(dense.shape), lambda dense=dense: dense)  # type: ignore[misc]

    def _read_tensor(self, proto: Any, what: str, extent: Extent | None = None) -> Weight:
        dtype = find_dtype(proto.data_type, what)
        shape = tuple(int(size) for size in proto.dims)
        if any(size < 0 for size in shape) or math.prod(shape) > LARGEST_TENSOR:
            raise TranslationError(f"{what} has the shape {shape}, which no tensor can have.")
        needed = math.prod(shape) * dtype.itemsize
        if extent is not None:
            data = self.view[extent.start : extent.start + extent.length]
            return Weight(dtype, shape, lambda: _view_bytes(data, dtype, shape, what))
        if proto.data_location == 1:
            entries = {_text(entry.key): _text(entry.value) for entry in proto.external_data}
            folder = self.folder
            return Weight(
                dtype, shape, lambda: _view_bytes(open_external(folder, entries, needed, what), dtype, shape, what)
            )
        if proto.HasField("raw_data"):
            return Weight(dtype, shape, lambda: _view_bytes(memoryview(proto.raw_data), dtype, shape, what))
        return Weight(dtype, shape, lambda: _read_fields(proto, dtype, shape, what))

    def _read_type(self, proto: Any) -> TensorType:
        kind = proto.type.WhichOneof("value")
        if kind not in ("tensor_type", None):
            raise TranslationError(
                f"{self.file or 'The ONNX model'}: {proto.name!r} is a {str(kind).removesuffix('_type')}, and an IPU "
                "has tensors only."
            )
        if kind is None:
            return TensorType(torch.float32, None)
        tensor = proto.type.tensor_type
        dtype = find_dtype(tensor.elem_type, f"input {proto.name!r}")
        shape: tuple[Dimension, ...] | None = None
        if tensor.HasField("shape"):
            shape = tuple(_read_size(size) for size in tensor.shape.dim)
            known = [size for size in shape if isinstance(size, int)]
            if any(size < 0 for size in known) or math.prod(known) > LARGEST_TENSOR:
                raise TranslationError(
                    f"{self.file or 'The ONNX model'}: {_text(proto.name)!r} has the shape {list(shape)}, which no "
                    "tensor can have."
                )
        return TensorType(dtype, shape)


def _read_size(proto: Any) -> Dimension:
    """A size; -1 is what some exporters write for one that is not known."""
    if proto.HasField("dim_value"):
        return None if proto.dim_value == -1 else int(proto.dim_value)
    return _text(proto.dim_param) or None


def read_place(attributes: Mapping[str, Any]) -> Place:
    """Where PopART's builder says that a node is to run."""
    found = [attributes.get(name) for name in ("__ipu_number", "__pipeline_stage", "__execution_phase")]
    return Place(*(number if isinstance(number, int) and number >= 0 else None for number in found))


def read_marks(attributes: Mapping[str, Any]) -> dict[str, bool]:
    """Whether PopART's builder says that a node's results are kept for backward, or made again."""
    value = attributes.get("__recompute_output_in_backward_pass")
    return {_MARKS[value]: True} if isinstance(value, int) and value in _MARKS else {}


def _says_type(proto: Any) -> bool:
    return proto.type.WhichOneof("value") == "tensor_type" and proto.type.tensor_type.elem_type in DTYPES


def _list_reads(proto: Any) -> list[str]:
    """What a node reads, and what the graphs inside it take from outside."""
    reads = [_text(name) for name in proto.input if name]
    waiting = [entry.g for entry in proto.attribute if entry.HasField("g")]
    made: set[str] = set()
    inner: list[str] = []
    while waiting:
        graph = waiting.pop()
        made.update(_text(entry.name) for entry in (*graph.input, *graph.initializer))
        for node in graph.node:
            made.update(map(_text, node.output))
            inner.extend(map(_text, node.input))
            waiting.extend(entry.g for entry in node.attribute if entry.HasField("g"))
        inner.extend(_text(entry.name) for entry in graph.output)
    return [*reads, *(name for name in inner if name and name not in made)]


def _view_bytes(data: memoryview, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> torch.Tensor:
    needed = math.prod(shape) * dtype.itemsize
    if len(data) != needed:
        raise TranslationError(f"{what} of shape {shape} needs {needed} bytes and has {len(data)}.")
    if needed == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)  # a copy: the map is read only


def _read_fields(proto: Any, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> torch.Tensor:
    """Values that a tensor holds in typed fields."""
    from onnx import numpy_helper

    count = math.prod(shape)
    held = max(len(proto.float_data), len(proto.int32_data), len(proto.int64_data), len(proto.double_data),
               len(proto.uint64_data))  # fmt: skip
    if dtype is torch.float16 and count > 1 and held == len(proto.int32_data) == (count + 1) // 2:
        packed = torch.tensor(list(proto.int32_data), dtype=torch.int32)  # as PopART wrote them: two in one number
        return packed.view(torch.float16)[:count].reshape(shape).clone()
    if held != count * (2 if dtype.is_complex else 1):
        raise TranslationError(f"{what} of shape {shape} needs {count} values and has {held}.")
    if dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz):
        whole = torch.tensor(list(proto.int32_data), dtype=torch.int32)
        bits = whole.to(torch.int16) if dtype is torch.bfloat16 else whole.to(torch.uint8)
        return bits.view(dtype).reshape(shape)
    return torch.from_numpy(numpy_helper.to_array(proto).copy()).reshape(shape)


def _flatten_indices(indices: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    flat = torch.zeros(indices.shape[0], dtype=torch.int64)
    for dim, size in enumerate(shape):
        flat = flat * size + indices[:, dim]
    return flat


def _decode(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def _text(value: str | bytes) -> str:
    """A name. What is no UTF-8, which ONNX asks for, comes as bytes."""
    return _decode(value) if isinstance(value, bytes) else value
