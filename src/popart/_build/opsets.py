"""`builder.aiOnnx…` and `builder.aiGraphcore`: classes with one method for each op.

In: the tables of methods. Out: classes whose methods have the signatures and documentation of PopART's, and write
nodes. What an op takes in a form of its own (constants, sub-builders, lists of lists) is converted here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx

from popart._build.checks import check_parts, check_windows
from popart._build.graphcore import COUNTED_BY_INPUTS, FIRST_ONLY, METHODS
from popart._build.signatures import OPSETS, OpMethod, list_methods
from popart._build.tensor_data import write_values
from popart._debug import note
from popart._enumerations.base import Enumeration
from popart._exceptions import popart_exception
from popart._formats import find_format

if TYPE_CHECKING:
    from popart.builder import Builder

_DEBUG_NAMES = ("debugContext", "debug_context", "debugPrefix")
_OWN_NAMES = {  # parameters that are other attributes in the file
    "lambda_": "lambda",
    "collectiveOperator": "__collectiveOperator",
    "commGroup": "__collectiveCommGroup",
    "availableMemoryProportions": "__available_memory",
    "partialsTypes": "__partials_type",
    "enableConvDithering": "__enable_conv_dithering",
}
_NESTED = frozenset({"dilations", "inDilations", "pads", "outPads", "strides"})


class Opset:
    """The methods of one version of one domain."""

    methods: ClassVar[Mapping[str, OpMethod]] = {}
    domain: ClassVar[str] = ""

    def __init__(self, builder: Builder, version: int) -> None:
        self._builder = builder
        self.version = version

    def __str__(self) -> str:
        return f"AiOnnx{self.version}" if not self.domain else type(self).__name__

    def _add(self, method: OpMethod, bound: inspect.BoundArguments) -> Any:
        given = dict(bound.arguments)
        context = next((given.pop(key) for key in _DEBUG_NAMES if key in given), "")
        name = str(context)
        args = given.pop("args", [])
        count = given.pop("num_outputs", method.outputs)
        inputs = _list_inputs(method, args)
        if method.name in COUNTED_BY_INPUTS:
            count = len(args)
            check_parts(args, given, self._builder._graph)
        if method.name == "call":
            _check_callee(name, given["callee"], len(inputs), int(count))
        attributes = _convert_attributes(method, given, count)
        if method.op == "MultiConv":
            attributes["numConvs"] = len(args)
        _check_inputs(method, inputs)
        if method.most_outputs is not None and int(count) > method.most_outputs:
            raise popart_exception(
                f"{method.op} has an invalid number of outputs {count}. It has at most {method.most_outputs}."
            )
        check_windows(method.op, inputs, attributes, self._builder._graph)
        outputs = self._builder._graph.add_node(
            method.op, method.domain, int(self.version), inputs, int(count), attributes, name
        )
        note(context, outputs[0] if outputs else method.op)
        if method.outputs == 0:
            return None
        return outputs if method.several else outputs[0]


def _list_inputs(method: OpMethod, args: Any) -> list[str]:
    if method.op == "MultiConv":  # each convolution has data, weights, and a bias or none
        return [name for one in args for name in [*one, ""][:3]]
    if isinstance(args, str):
        raise TypeError(f"{method.name}(args): a list of tensor names is wanted, not the one name {args!r}.")
    return [str(name) for name in args]


def _check_inputs(method: OpMethod, inputs: Sequence[str]) -> None:
    most = method.most_inputs
    if len(inputs) < method.least_inputs or (most is not None and len(inputs) > most):
        limit = "inf" if most is None else most
        raise popart_exception(
            f"{method.op} has invalid number of inputs {len(inputs)}. Must be between {method.least_inputs}..{limit}"
        )


def _check_callee(name: str, callee: Any, inputs: int, outputs: int) -> None:
    graph = _take_graph(callee)
    for given, own, word in ((inputs, len(graph.input), "inputs"), (outputs, len(graph.output), "outputs")):
        if given != own:
            raise popart_exception(
                f"For CallOp '{name}', number of {word} ({given}) does not match that of the callee subgraph ({own})"
            )


def _convert_attributes(method: OpMethod, given: Mapping[str, Any], count: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        kind = method.attributes.get(name)
        if kind is None and name != "is_value_sparse":
            continue
        converted = _convert(method, name, kind or "", value)
        if converted is not None and not _is_usual(method, name, value):
            found[_OWN_NAMES.get(name, name)] = converted
    if method.op == "Constant" and given.get("is_value_sparse"):
        value = found.pop("value")
        found["sparse_value"] = value
    if method.name == "call":
        found["num_outputs"] = int(count or 0)
    if method.name == "batchnormalization" and method.domain:
        found["unbiased_variance"] = 0
    if method.name == "init":
        found["tensor_type"] = 0
    if method.name == "scatterreduce":
        found["group_size"] = 1
    return found


def _convert(method: OpMethod, name: str, kind: str, value: Any) -> Any:  # noqa: PLR0911 (one case for each kind)
    if value is None:
        return None
    if name in _NESTED and method.op == "MultiConv":
        return [int(number) for one in value for number in one] or None
    if name == "commGroup":
        return [int(getattr(value, "type", 0)), int(getattr(value, "replicaGroupSize", 0))]
    if name == "outDataType":
        return find_format(value).onnx if value != "UNDEFINED" else 0
    if method.op == "Cast" and name == "to":
        return find_format(value).onnx if isinstance(value, str) else int(value)
    match kind:
        case "TENSOR" | "SPARSE_TENSOR":
            return _make_tensor(value)
        case "GRAPH":
            return _take_graph(value)
        case "INT" | "OTHER":
            return int(value)
        case "FLOAT":
            return float(value)
        case "CHARACTER":
            return ord(value) if isinstance(value, str) else int(value)
        case "REDUCTION":
            if not isinstance(value, Enumeration):
                raise TypeError(f"{method.name}(): {name} is one of PopART's reductions, not {value!r}.")
            return "None" if value.name in ("NoReduction", "NoneReduction") else value.name
        case "INTS":
            whole = [int(number) for number in value]
            return whole if whole or (name == "axes" and method.op.startswith("Reduce")) else None
        case "FLOATS":
            return [float(number) for number in value] or None
        case "STRINGS":
            return [str(text) for text in value] or None
        case "STRING":
            return str(value) if value or not _is_optional(method, name) else None
    return value


def _is_usual(method: OpMethod, name: str, value: Any) -> bool:
    """PopART does not write what an op of ONNX does by default."""
    usual = method.signature.parameters[name].default if name in method.signature.parameters else None
    return method.domain == "" and isinstance(usual, int | float | str) and type(value) is type(usual) and value == usual


def _is_optional(method: OpMethod, name: str) -> bool:
    return method.domain == "" and method.signature.parameters[name].default == ""


def _make_tensor(value: Any) -> onnx.TensorProto:
    array = np.asarray(value)
    tensor = onnx.TensorProto()
    write_values(tensor, "", find_format(array.dtype).onnx, array)
    return tensor


def _take_graph(builder: Any) -> onnx.GraphProto:
    graph = getattr(builder, "_graph", None)
    if graph is None:
        raise popart_exception(f"A builder of a subgraph is wanted (createSubgraphBuilder), not {builder!r}.")
    copy = onnx.GraphProto()
    copy.CopyFrom(graph.model.graph)
    return copy


def _convert_overload(method: OpMethod, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two methods of PopART have a second form."""
    if method.name == "init" and len(args) == 4 and isinstance(args[3], str):  # without a batch axis
        return (*args[:3], -1, args[3])
    if method.name == "reshape" and method.domain and args and isinstance(args[0], str):  # one name
        return ([args[0]], *args[1:])
    return args


def _check_types(bound: inspect.BoundArguments) -> None:
    """Refuse arguments of another kind than the signature says, as PopART's typed methods do."""
    for name, parameter in bound.signature.parameters.items():
        value, kind = bound.arguments[name], parameter.annotation
        if value is None or value is parameter.default or kind is inspect.Parameter.empty:
            continue
        if kind is list:
            fits = isinstance(value, Sequence | np.ndarray | set) and not isinstance(value, str)
        elif kind is int:
            fits = hasattr(value, "__index__") or isinstance(value, bool)
        elif kind is float:
            fits = isinstance(value, int | float | np.number) or (isinstance(value, np.ndarray) and value.ndim == 0)
        else:
            fits = isinstance(value, kind) or (kind is bool and isinstance(value, int))
        if not fits and not (name == "to" and isinstance(value, int | str)):
            raise TypeError(f"{name} is {value!r}, not a {kind.__name__}")


def _make_method(method: OpMethod) -> Callable[..., Any]:
    def add(self: Opset, *args: Any, **kwargs: Any) -> Any:
        args = _convert_overload(method, args)
        if "lambda" in kwargs:
            kwargs["lambda_"] = kwargs.pop("lambda")
        if "name" in kwargs and "name" not in method.signature.parameters:
            kwargs["debugContext"] = kwargs.pop("name")
        try:
            bound = method.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            _check_types(bound)
        except TypeError as error:
            raise TypeError(
                f"{method.name}(): incompatible function arguments. The following argument types are supported: "
                f"{method.name}{method.signature}. Here: {error}."
            ) from None
        return self._add(method, bound)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    functools.update_wrapper(add, add, assigned=())
    add.__name__ = add.__qualname__ = method.name
    add.__doc__ = method.doc
    add.__signature__ = method.signature.replace(parameters=[own, *method.signature.parameters.values()])  # type: ignore[attr-defined]
    return add


def _make_opset(name: str, methods: Mapping[str, OpMethod], domain: str, doc: str) -> type[Opset]:
    members: dict[str, Any] = {key: _make_method(method) for key, method in methods.items()}
    return type(name, (Opset,), {**members, "methods": methods, "domain": domain, "__doc__": doc, "__module__": "popart"})


AI_ONNX: Mapping[int, type[Opset]] = {
    version: _make_opset(f"AiOnnxOpset{version}", list_methods(version), "", f"The ops of ai.onnx, version {version}.")
    for version in OPSETS
}
AiGraphcoreOpset1 = _make_opset("AiGraphcoreOpset1", METHODS, "ai.graphcore", "The ops of ai.graphcore, version 1.")
SINGLE_RESULTS = FIRST_ONLY
