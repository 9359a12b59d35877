"""ONNX's own backend node cases, from the installed package, and how each of them is run here.

In: nothing. Out: cases with inputs and expected outputs as torch tensors, and two ways to run one: op by op, and
through the pipeline (capture, plan, `Executable`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from openipu.graph import EngineMode, RunOptions
from openipu.model_files import run_file
from openipu.translate.module import ForeignModule
from openipu.translate.onnx.formats import DTYPES
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

OTHER_TYPES = {
    "string": "strings",
    "sequence": "sequences",
    "optional": "optional values",
    "quantised": "quantised formats",
}
_QUANTISED_OPS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QLinear",
    "ConvInteger",
    "MatMulInteger",
)
_STRING_OPS = ("String", "LabelEncoder", "RegexFullMatch")
_ULPS_OF_BFLOAT16 = 2**-6  # ONNX's own runner allows two


@dataclass(frozen=True, eq=False)
class Case:
    """One case."""

    name: str
    model: Any
    inputs: Mapping[str, torch.Tensor]
    expected: Mapping[str, torch.Tensor]
    rtol: float
    atol: float
    other_type: str = ""  # one that needs a kind of value that no IPU tensor has: which

    @property
    def op(self) -> str:
        return self.model.graph.node[0].op_type if self.model.graph.node else ""


def list_cases() -> Iterator[Case]:
    """All node cases, with data made by the package itself."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for case in found:
        other = find_other_type(case.model)
        if other:
            yield Case(case.name, case.model, {}, {}, case.rtol, case.atol, other)
            continue
        inputs, outputs = case.data_sets[0]
        graph = case.model.graph
        yield Case(
            case.name,
            case.model,
            {entry.name: to_tensor(value) for entry, value in zip(graph.input, inputs, strict=False)},
            {entry.name: to_tensor(value) for entry, value in zip(graph.output, outputs, strict=True)},
            case.rtol,
            case.atol,
        )


def find_other_type(model: Any) -> str:
    """Which kind of value a case needs that is not a tensor of numbers."""
    entries = [*model.graph.input, *model.graph.output]
    kinds = {entry.type.WhichOneof("value") for entry in entries}
    numbers = {entry.type.tensor_type.elem_type for entry in entries if entry.type.HasField("tensor_type")}
    ops = [node.op_type for node in _list_nodes(model.graph)]
    if kinds & {"optional_type"} or any(op.startswith("Optional") for op in ops):
        return "optional"
    if kinds & {"sequence_type", "map_type"} or any("Sequence" in op and op != "ReverseSequence" for op in ops):
        return "sequence"
    if onnx.TensorProto.STRING in numbers or any(op.startswith(_STRING_OPS) for op in ops):
        return "string"
    if any(op.startswith(_QUANTISED_OPS) for op in ops) or numbers - DTYPES.keys() - {0}:
        return "quantised"  # formats of 2 and 4 bits and scales of 8 bits are those of quantised models
    return ""


def _list_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for entry in node.attribute:
            if entry.HasField("g"):
                yield from _list_nodes(entry.g)


def to_tensor(value: Any) -> torch.Tensor:
    """An array or a `TensorProto` of ONNX's as a tensor."""
    proto = value if isinstance(value, onnx.TensorProto) else None
    array = np.array(numpy_helper.to_array(proto) if proto is not None else value)
    number = proto.data_type if proto is not None else onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    dtype = DTYPES[number]
    if dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz):
        bits = array.view(np.int16 if dtype is torch.bfloat16 else np.uint8)
        return torch.from_numpy(bits.copy()).view(dtype)
    return torch.from_numpy(array.copy())


def run_plainly(case: Case) -> dict[str, torch.Tensor]:
    """Op by op on real tensors."""
    module = ForeignModule(read_model(case.model.SerializeToString()).graph, TABLE).eval()
    with torch.no_grad():
        return module(*(case.inputs[name] for name in module.input_names))


def run_pipeline(case: Case) -> dict[str, torch.Tensor]:
    """Captured, planned and executed."""
    options = RunOptions(engine=EngineMode.OPERATORS)
    return run_file(case.model.SerializeToString(), case.inputs, options)


def check(case: Case, found: Mapping[str, torch.Tensor]) -> None:
    """The shapes, formats and values that ONNX's runner would accept."""
    assert list(found) == list(case.expected), f"outputs {list(found)}"
    for name, wanted in case.expected.items():
        given = found[name].detach()
        assert given.shape == wanted.shape, f"{name} has shape {list(given.shape)}, not {list(wanted.shape)}"
        assert given.dtype is wanted.dtype, f"{name} is {given.dtype}, not {wanted.dtype}"
        small = wanted.dtype.is_floating_point and wanted.dtype.itemsize < 4
        rtol = max(case.rtol, _ULPS_OF_BFLOAT16) if wanted.dtype is torch.bfloat16 else case.rtol
        one, other = ((value.float() if small else value).numpy() for value in (given, wanted))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=case.atol)
