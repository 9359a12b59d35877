"""`popart.Builder`: builds an ONNX graph, op by op.

In: inputs, initialised tensors, ops by method (`builder.aiOnnx.matmul([a, b])`). Out: names of tensors, and the model
as bytes, which sessions and every reader of ONNX take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from openipu.files.saving import save_bytes
from popart._build.contexts import EXCLUDED, RECOMPUTE, NodeAttributes
from popart._build.external import save_externally
from popart._build.graph import BuilderGraph
from popart._build.opsets import AI_ONNX, AiGraphcoreOpset1, Opset
from popart._build.settings import InputSettings, VariableSettings
from popart._build.signatures import DEFAULT_OPSET
from popart._debug import note
from popart._enumerations.sessions import RecomputeType
from popart._exceptions import popart_exception
from popart.tensorinfo import TensorInfo

__all__ = ["AiGraphcoreOpset1", "Builder", "Opset"]

REPLICATION = "__replicationFactor"


class Builder(NodeAttributes):
    """Builds one graph. Which version of ai.onnx it is of is settled by the first opset that is used."""

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: Mapping[str, int] | None = None,
        builderCore: BuilderGraph | None = None,
    ) -> None:
        self._graph = builderCore if builderCore is not None else BuilderGraph()
        if modelProtoOrFilename is not None:
            self._graph.load(modelProtoOrFilename)
        self._chosen: int | None = None
        if opsets is not None:
            self._chosen = int(opsets["ai.onnx"])
            if self._chosen not in AI_ONNX:
                raise ValueError(f"Unsupported or unrecognized ai.Onnx version: {self._chosen}")
        self._opsets: dict[int, Opset] = {}
        self._graphcore = AiGraphcoreOpset1(self, int((opsets or {}).get("ai.graphcore", 1)))

    def __getattr__(self, name: str) -> Any:
        if name == "aiOnnx":
            return self._choose(name, self._chosen or DEFAULT_OPSET)
        number = name.removeprefix("aiOnnxOpset")
        if number != name and number.isdigit() and int(number) in AI_ONNX:
            return self._choose(name, int(number))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), "aiOnnx", *(f"aiOnnxOpset{version}" for version in AI_ONNX)})

    def _choose(self, name: str, version: int) -> Opset:
        if self._chosen is None:
            self._chosen = version
        if self._chosen != version:
            raise RuntimeError(
                f"Invalid opset '{name}' selected. Opset for domain ai.onnx already defined as {self._chosen}"
            )
        return self._opsets.setdefault(version, AI_ONNX[version](self, version))

    def aiOnnxOpsetVersion(self, version: int) -> None:
        """Say that `aiOnnx` is of this version."""
        if version not in AI_ONNX:
            raise ValueError(f"Unsupported or unrecognized ai.Onnx version: {version}")

    @property
    def aiGraphcore(self) -> Opset:
        """Graphcore's own operators."""
        return self._graphcore

    @property
    def aiGraphcoreOpset1(self) -> Opset:
        """Graphcore's own operators, version 1."""
        return self._graphcore

    def setGraphName(self, name: str) -> None:
        """Name the graph."""
        self._graph.model.graph.name = name or self._graph.model.graph.name

    def addInputTensor(self, *args: Any, **kwargs: Any) -> str:
        """An input: `addInputTensor(TensorInfo, name)`, or `addInputTensor("FLOAT", [2, 3], name)`.

        `InputSettings` may stand before the name.
        """
        info, settings, name = _read_input(list(args), dict(kwargs))
        found = self._graph.next_id(name or "input")
        self._graph.add_input(info, found)
        note(name, found)
        self._describe(found, settings.describe())
        return found

    def addUntypedInputTensor(self, debugContext: str = "") -> str:
        """An input of a subgraph, whose format and shape come from where it is called."""
        if self._graph.parent is None:
            raise popart_exception(
                "Can not add untyped tensors to the top-level graph. Use addInputTensor(TensorInfo, name) instead."
            )
        found = self._graph.next_id(debugContext or "input")
        self._graph.add_input(None, found)
        return found

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Use a tensor of a graph around this one as an input."""
        parent = self._graph.parent
        if parent is None or not parent.is_above(tensorId):
            raise popart_exception(
                f"Failed to add unrecognised Tensor {tensorId} from higher scope, Currently, a Tensor must already "
                "exist in a higher (parent) scope to add it as an input in a lower scope."
            )
        self._graph.names.add(tensorId)
        self._graph.add_input(None, tensorId)

    def addInitializedInputTensor(self, initVal: Any, variableSettings: Any = None, debugContext: str = "") -> str:
        """A weight with its first value."""
        if isinstance(variableSettings, str):
            variableSettings, debugContext = None, variableSettings
        value = np.asarray(initVal)
        found = self._graph.next_id(str(debugContext) or "init_input")
        self._graph.add_initialiser(value, found)
        note(debugContext, found)
        if isinstance(variableSettings, VariableSettings):
            self._describe(found, variableSettings.describe())
        return found

    def _describe(self, name: str, settings: Mapping[str, Any]) -> None:
        for key, value in settings.items():
            self._graph.model.metadata_props.add(key=f"{key}/{name}", value=str(int(value)))

    def addOutputTensor(self, outputName: str) -> None:
        """Make a tensor an output of the model."""
        self._graph.add_output(outputName)

    def createSubgraphBuilder(self) -> Builder:
        """A builder of a graph that a node of this one runs."""
        return Builder(builderCore=BuilderGraph(self._graph))

    def reshape_const(self, aiOnnx: Opset, args: Sequence[str], shape: Iterable[int], debugContext: str = "") -> str:
        """Reshape to a shape that is known."""
        wanted = aiOnnx.constant(np.array(list(shape)).astype(np.int64), debugContext + "_const")  # type: ignore[attr-defined]
        return str(aiOnnx.reshape([args[0], wanted], debugContext))  # type: ignore[attr-defined]

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        """An op that was registered with `openipu.register_custom_op`."""
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}
        return self._graph.add_node(opName, domain, opVersion, list(inputs), numOutputs, given, name)

    def checkpointOutput(self, nodeOutputNames: Sequence[str]) -> list[str]:
        """Copies of tensors that are kept for the backward pass."""
        version = self._graph.opsets.get("ai.onnx", DEFAULT_OPSET)
        attributes = {RECOMPUTE: int(RecomputeType.Checkpoint), EXCLUDED: ["PreUniRepl", "PostNRepl"]}
        names = [nodeOutputNames] if isinstance(nodeOutputNames, str) else nodeOutputNames
        return [self._graph.add_node("Identity", "", version, [name], 1, attributes, "Checkpoint")[0] for name in names]

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Say how many replicas the model is for."""
        self._graph.model.metadata_props.add(key=REPLICATION, value=str(int(replicationFactor)))

    def getModelProto(self) -> bytes:
        """The model, as the bytes of an ONNX file."""
        return bytes(self._graph.model.SerializeToString())

    def saveModelProto(self, filename: str) -> None:
        """Write the model to a file."""
        save_bytes(Path(filename), self.getModelProto())

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """Write weights to a file of their own, beside the model."""
        save_externally(self._graph.model, list(ids), Path(filename))

    def getInputTensorIds(self) -> list[str]:
        """Names of inputs, with those that have values."""
        return [entry.name for entry in self._graph.model.graph.input]

    def getOutputTensorIds(self) -> list[str]:
        """Names of outputs."""
        return [entry.name for entry in self._graph.model.graph.output]

    def getValueTensorIds(self) -> list[str]:
        """Names of what nodes make."""
        return [entry.name for entry in self._graph.model.graph.value_info]

    def getTrainableTensorIds(self) -> list[str]:
        """Names of weights."""
        return [entry.name for entry in self._graph.model.graph.initializer]

    def getTensorShape(self, id: str) -> list[int]:
        """The shape of a tensor."""
        return self._graph.describe(id)[1]

    def getTensorDtypeString(self, id: str) -> str:
        """The number format of a tensor, such as "float32"."""
        return self._graph.describe(id)[0].small

    def hasValueInfo(self, id: str) -> bool:
        """Is anything known of the tensor?"""
        return self._graph.find_value(id) is not None

    def isInitializer(self, id: str) -> bool:
        """Is it a weight?"""
        return any(entry.name == id for entry in self._graph.model.graph.initializer)

    @property
    def _proto(self) -> onnx.ModelProto:
        return self._graph.model


def _read_input(args: list[Any], kwargs: dict[str, Any]) -> tuple[TensorInfo, InputSettings, str]:
    if args and isinstance(args[0], TensorInfo):
        info = args.pop(0)
    elif "tensorInfo" in kwargs:
        info = kwargs.pop("tensorInfo")
    else:
        kind = args.pop(0) if args else kwargs.pop("dataType")
        shape = args.pop(0) if args else kwargs.pop("shape")
        info = TensorInfo(kind, shape)
    settings = kwargs.pop("settings", None)
    if args and isinstance(args[0], InputSettings):
        settings = args.pop(0)
    name = str(args.pop(0)) if args else str(kwargs.pop("debugContext", kwargs.pop("debugPrefix", "")))
    if args or kwargs:
        raise TypeError(f"addInputTensor does not take {[*args, *kwargs]}.")
    return info, settings or InputSettings(), name
