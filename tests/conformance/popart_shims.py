"""What the public PopART suite needs of today's Python, NumPy, torch and pytest, as a pytest plugin.

In: the suite as it is. Out: names that its libraries have moved or removed since, and the device that each test was
registered for: the suite's build files say it, which Python cannot read, so the decorators of the tests do.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.version_converter
import pytest
import torch

import openipu

for _old, _new in (("bool", np.bool_), ("int", int), ("float", float), ("object", object)):
    if _old not in np.__dict__:
        setattr(np, _old, _new)
if "onnx.mapping" not in sys.modules:  # removed from ONNX since
    _mapping = types.ModuleType("onnx.mapping")
    _mapping.TENSOR_TYPE_TO_NP_TYPE = {  # type: ignore[attr-defined]
        kind: onnx.helper.tensor_dtype_to_np_dtype(kind) for kind in onnx.helper.get_all_tensor_dtypes()
    }
    onnx.mapping = sys.modules["onnx.mapping"] = _mapping
if not hasattr(np, "product"):
    np.product = np.prod  # type: ignore[attr-defined]


def _take_one_argument() -> None:
    """Functions of weights that are given to ONNX's reference of Resize have got a second argument, the scale."""
    from onnx.reference.ops import op_resize

    original = op_resize._interpolate_nd

    def _call(function: Any, ratio: float, scale: float = 1.0) -> Any:
        if function is op_resize._nearest_coeffs:
            return function(ratio)
        needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
        return function(ratio, scale) if len(needed) > 1 else function(ratio)

    def interpolate(data: Any, get_coeffs: Any, *args: Any, **kwargs: Any) -> Any:
        return original(data, lambda *given: _call(get_coeffs, *given), *args, **kwargs)

    op_resize._interpolate_nd = interpolate
    try:
        from onnx.backend.test.case.node import resize
    except ImportError:
        return
    for name in ("interpolate_nd", "_interpolate_nd"):
        setattr(resize, name, interpolate)


_take_one_argument()


def _scatter(
    src: torch.Tensor,
    index: torch.Tensor,
    dim: int = -1,
    out: torch.Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> torch.Tensor:
    """As of the package torch_scatter, of PyTorch's own op: an index is spread over the other dimensions."""
    places = index.expand_as(src).contiguous()
    if out is None:
        shape = list(src.shape)
        shape[dim] = dim_size if dim_size is not None else int(index.max()) + 1
        start = torch.full(shape, 1 if reduce == "mul" else 0, dtype=src.dtype)
    else:
        start = out
    word = {"mul": "prod", "max": "amax", "min": "amin"}.get(reduce, reduce)
    return start.scatter_reduce(dim, places, src, word, include_self=out is not None)


_linspace, _convert = np.linspace, onnx.version_converter.convert_version


def _space(start: Any, stop: Any, *args: Any, **kwargs: Any) -> Any:
    """As NumPy 1: bounds that are single numbers of 32 bits are not reckoned with in 32 bits, where they overflow."""
    ends = [float(end) if isinstance(end, np.floating) else end for end in (start, stop)]
    return _linspace(*ends, *args, **kwargs)


def _convert_version(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """ONNX has lost the way back of some ops whose meaning has not changed."""
    try:
        return _convert(model, version)
    except RuntimeError:
        found = onnx.ModelProto()
        found.CopyFrom(model)
        found.ir_version = min(model.ir_version, 4)
        for entry in found.opset_import:
            entry.version = version
        return found


np.linspace = _space
onnx.version_converter.convert_version = _convert_version
_scatter_reduce = torch.scatter_reduce


def _reduce(input: torch.Tensor, dim: int, index: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """PyTorch 2 adds up wrongly by indices that are spread over a result larger than the source."""
    return _scatter_reduce(input, dim, index.contiguous(), *args, **kwargs)


torch.scatter_reduce = _reduce
_export = torch.onnx.export


def _export_as_then(*args: Any, **kwargs: Any) -> Any:
    """The exporter that PyTorch had then: its models are of the operator set that is asked for."""
    return _export(*args, **{"dynamo": False, **kwargs})


torch.onnx.export = _export_as_then
if importlib.util.find_spec("torch_scatter") is None:
    _package = types.ModuleType("torch_scatter")
    _package.scatter = _scatter  # type: ignore[attr-defined]
    sys.modules["torch_scatter"] = _package


# A C++ op of the suite's own build, which copies its input: registered in Python, as its user would, in place of its
# library. Items that load one are counted apart.
openipu.register_custom_op("CustomopAttrPylist", "com.acme", 1, forward=lambda inputs, attributes: [inputs[0]])
_load_library = ctypes.cdll.LoadLibrary


def _load(name: str) -> Any:
    return None if "attr_pylist_float_customOp" in str(name) else _load_library(name)


ctypes.cdll.LoadLibrary = _load  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Tests import helpers that lie beside them, or one folder up, by their bare names."""
    for argument in config.args:
        folder = Path(argument.split("::")[0]).resolve().parent
        while folder.name and folder.name != "tests":
            sys.path.append(str(folder))
            folder = folder.parent


@pytest.fixture(autouse=True)
def choose_target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that asks for an IPU, or for a model of one, gets it; all others run on what their file is built for."""
    if "set_test_device" in request.fixturenames:
        request.getfixturevalue("set_test_device")
    code = getattr(getattr(request, "function", None), "__code__", None)
    asks = getattr(code, "co_qualname", "").startswith(("requires_ipu.", "requires_ipu_model."))
    if asks and os.environ.get("TEST_TARGET", "Cpu") == "Cpu":
        monkeypatch.delenv("TEST_TARGET", raising=False)
    elif "TEST_TARGET" not in os.environ:
        monkeypatch.setenv("TEST_TARGET", "Cpu")
