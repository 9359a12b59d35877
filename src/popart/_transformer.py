"""`popart.GraphTransformer`: changes of an ONNX model before it is built into a session.

In: a model. Out: the same with other number formats, with constants in place of weights, without unused inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from popart._build.external import save_externally, take_in
from popart._build.tensor_data import write_values
from popart._exceptions import popart_exception

_T = onnx.TensorProto
_FIXED_POINT = (_T.INT8, _T.UINT8, _T.INT16, _T.UINT16, _T.INT32, _T.UINT32, _T.INT64, _T.UINT64, _T.BOOL)
_NUMPY: dict[int, Any] = {_T.FLOAT: np.float32, _T.FLOAT16: np.float16, _T.INT32: np.int32}
_TRAINED = {"BatchNormalization": 5}  # ops with more outputs when they are trained


class GraphTransformer:
    """Changes one model."""

    def __init__(self, modelProtoOrFilename: bytes | str) -> None:
        given = modelProtoOrFilename
        folder = Path.cwd() if isinstance(given, bytes) else Path(given).parent
        try:
            content = given if isinstance(given, bytes) else Path(given).read_bytes()
            self._model = onnx.load_from_string(take_in(content, folder))
        except popart_exception:
            raise
        except Exception as error:  # a missing file, or protobuf's own class
            raise popart_exception(f"This is not an ONNX model: {error}") from error

    def getModelProto(self) -> bytes:
        """The model, as the bytes of an ONNX file."""
        return bytes(self._model.SerializeToString())

    def removeUnusedInputs(self) -> None:
        """Without inputs that no node reads."""
        graph = self._model.graph
        used = {name for node in graph.node for name in node.input} | {entry.name for entry in graph.output}
        for entries in (graph.input, graph.initializer):
            kept = [entry for entry in entries if entry.name in used]
            del entries[:]
            entries.extend(kept)

    def prepareNodesForTraining(self) -> None:
        """Nodes with all outputs that training needs."""
        for node in self._model.graph.node:
            wanted = _TRAINED.get(node.op_type, 0)
            if node.op_type == "BatchNormalization" and len(node.output) < wanted:
                names = ("mean", "var", "savedMean", "savedVar")
                while len(node.output) < wanted:
                    node.output.append(f"{node.output[0]}__{names[len(node.output) - 1]}")
            if node.op_type == "Dropout" and len(node.output) < 2:
                node.output.append(f"{node.output[0]}__mask")

    def convertFloatsToHalfs(self) -> None:
        """float32 to float16."""
        self._convert(_T.FLOAT, _T.FLOAT16)

    def convertUINT8ToINT32(self) -> None:
        """uint8 to int32."""
        self._convert(_T.UINT8, _T.INT32)

    def convertUINT16ToINT32(self) -> None:
        """uint16 to int32."""
        self._convert(_T.UINT16, _T.INT32)

    def convertINT8ToINT32(self) -> None:
        """int8 to int32."""
        self._convert(_T.INT8, _T.INT32)

    def convertINT16ToINT32(self) -> None:
        """int16 to int32."""
        self._convert(_T.INT16, _T.INT32)

    def convertINT64ToINT32(self, clip: bool = False) -> None:
        """int64 to int32; numbers that do not fit are limited, or refused."""
        self._convert(_T.INT64, _T.INT32, clip=clip)

    def convertDoublesToFloats(self) -> None:
        """float64 to float32."""
        self._convert(_T.DOUBLE, _T.FLOAT)

    def convertDoublesToHalfs(self) -> None:
        """float64 to float16."""
        self._convert(_T.DOUBLE, _T.FLOAT16)

    def convertBFloats16ToFloat32(self) -> None:
        """bfloat16 to float32."""
        self._convert(_T.BFLOAT16, _T.FLOAT)

    def _convert(self, old: int, new: int, *, clip: bool = False) -> None:
        def change(tensor: onnx.TensorProto) -> None:
            if tensor.data_type == old:
                _convert_tensor(tensor, new, clip)

        def change_type(entry: onnx.ValueInfoProto) -> None:
            if entry.type.tensor_type.elem_type == old:
                entry.type.tensor_type.elem_type = new

        _walk(self._model.graph, change, change_type, old, new)

    def convertInitializersToConstants(self, ids: Sequence[str]) -> None:
        """Weights become constants, which are not trained."""
        graph = self._model.graph
        by_name = {entry.name: entry for entry in graph.initializer}
        for name in ids:
            if name not in by_name:
                raise popart_exception(f"TensorId {name} not in the model initalizers")
        nodes = []
        for name in ids:
            value = onnx.TensorProto()
            value.CopyFrom(by_name[name])
            nodes.append(onnx.helper.make_node("Constant", [], [name], value=value))
        kept = [entry for entry in graph.initializer if entry.name not in ids]
        inputs = [entry for entry in graph.input if entry.name not in ids]
        others = list(graph.node)
        for entries, new in ((graph.initializer, kept), (graph.input, inputs), (graph.node, [*nodes, *others])):
            del entries[:]
            entries.extend(new)

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Weights of whole numbers become constants."""
        self.convertInitializersToConstants(
            [entry.name for entry in self._model.graph.initializer if entry.data_type in _FIXED_POINT]
        )

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """Write weights to a file of their own."""
        save_externally(self._model, list(ids), Path(filename))


def _walk(
    graph: onnx.GraphProto,
    change: Callable[[onnx.TensorProto], None],
    change_type: Callable[[onnx.ValueInfoProto], None],
    old: int,
    new: int,
) -> None:
    for tensor in graph.initializer:
        change(tensor)
    for entry in (*graph.input, *graph.output, *graph.value_info):
        change_type(entry)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                change(attribute.t)
            if attribute.HasField("g"):
                _walk(attribute.g, change, change_type, old, new)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == old:
                attribute.i = new


def _convert_tensor(tensor: onnx.TensorProto, new: int, clip: bool) -> None:
    value = numpy_helper.to_array(tensor)
    target = _NUMPY[new]
    if np.issubdtype(target, np.integer) and value.size:
        limits = np.iinfo(target)
        if clip:
            value = np.clip(value, limits.min, limits.max)
        elif value.min() < limits.min or value.max() > limits.max:
            raise popart_exception(
                f"The values of {tensor.name!r} do not fit int32: they reach from {value.min()} to {value.max()}. Use "
                "clip=True to limit them."
            )
    found = np.asarray(value.astype(target))
    if new == onnx.TensorProto.FLOAT16:
        tensor.CopyFrom(numpy_helper.from_array(found, tensor.name))  # half numbers lie as bytes
    else:
        write_values(tensor, tensor.name, new, found)
