"""Attributes that hold for all nodes of a `with` block, and attributes of single nodes.

In: values, and either a block or the outputs of a node. Out: attributes of nodes in the ONNX graph, under the names
that PopART gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import onnx

from popart._build.graph import BuilderGraph, write_attribute
from popart._exceptions import popart_exception
from popart._enumerations.sessions import RecomputeType

IPU = "__ipu_number"
STAGE = "__pipeline_stage"
PHASE = "__execution_phase"
RECOMPUTE = "__recompute_output_in_backward_pass"
LOCATION = "__output_tensor_location"
PARTIALS = "__partials_type"
MEMORY = "__available_memory"
DITHERING = "__enable_conv_dithering"
PRIORITY = "__schedule_priority"
OUTLINE = "__outline"
EXCLUDED = "__exclude_patterns"
COMM_GROUP = "__collectiveCommGroup"
SERIALISE_MODE = "__serialize_matmul_mode"
SERIALISE_FACTOR = "__serialize_matmul_factor"
SERIALISE_PRECISION = "__serialize_matmul_precision"
INPLACE_NAMES = "__inplace_op_names"
INPLACE_PRIORITIES = "__inplace_op_priorities"
_WORDS = {IPU: "Virtual graph", STAGE: "Pipeline stage", PHASE: "Execution phase"}
_SERIAL_MODES = ("none", "input_channels", "reducing_dim", "output_channels")


class AttributeContext:
    """Sets attributes of all nodes that are added inside; restores what was there before."""

    def __init__(self, graph: BuilderGraph, values: Mapping[str, Any]) -> None:
        self._graph, self._values = graph, dict(values)
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append(dict(self._graph.attributes))
        self._graph.attributes.update(self._values)

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._graph.attributes.clear()
        self._graph.attributes.update(self._before.pop())


class NameContext:
    """Names inside begin with a scope."""

    def __init__(self, graph: BuilderGraph, name: str) -> None:
        self._graph, self._name = graph, name

    def __enter__(self) -> None:
        self._graph.scopes.append(self._name)

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._graph.scopes.pop()


def name_outputs(outputs: Any) -> frozenset[str]:
    """The outputs of a node, given as one name or several."""
    return frozenset({outputs} if isinstance(outputs, str) else outputs)


class NodeAttributes:
    """What a builder can say of nodes. The part of `Builder` that writes and reads their attributes."""

    _graph: BuilderGraph

    def addNodeAttribute(self, attributeName: str, attributeValue: Any, nodeOutputNames: Iterable[str] | str) -> None:
        """Add an attribute to the node with these outputs."""
        write_attribute(self._graph.find_node(name_outputs(nodeOutputNames)), attributeName, attributeValue)

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> bool:
        """Has the node this attribute?"""
        node = self._graph.find_node(name_outputs(nodeOutputNames))
        return any(entry.name == attributeName for entry in node.attribute)

    def _find(self, name: str, outputs: Iterable[str] | str, kind: int, what: str) -> onnx.AttributeProto:
        entries: Iterable[onnx.AttributeProto] = self._graph.find_node(name_outputs(outputs)).attribute
        for entry in entries:
            if entry.name == name:
                if entry.type != kind:
                    raise popart_exception(f"Attribute {name} is not {what}.")
                return entry
        raise popart_exception(f"Node does not have an attribute {name}.")

    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> int:
        """A whole number."""
        return int(self._find(attributeName, nodeOutputNames, onnx.AttributeProto.INT, "an integer").i)

    def getInt64VectorNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> list[int]:
        """A list of whole numbers."""
        return list(self._find(attributeName, nodeOutputNames, onnx.AttributeProto.INTS, "an integer vector").ints)

    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> float:
        """A number."""
        return float(self._find(attributeName, nodeOutputNames, onnx.AttributeProto.FLOAT, "a float").f)

    def getFloatVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> list[float]:
        """A list of numbers."""
        return list(self._find(attributeName, nodeOutputNames, onnx.AttributeProto.FLOATS, "a float vector").floats)

    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> str:
        """A text."""
        return self._find(attributeName, nodeOutputNames, onnx.AttributeProto.STRING, "a string").s.decode()

    def getStringVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> list[str]:
        """A list of texts."""
        found = self._find(attributeName, nodeOutputNames, onnx.AttributeProto.STRINGS, "a string vector")
        return [text.decode() for text in found.strings]

    def getBoolNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> bool:
        """A truth value."""
        return bool(self._find(attributeName, nodeOutputNames, onnx.AttributeProto.INT, "a int").i)

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str] | str) -> None:
        """Take an attribute from a node."""
        node = self._graph.find_node(name_outputs(nodeOutputNames))
        for index, entry in enumerate(node.attribute):
            if entry.name == attributeName:
                del node.attribute[index]
                return
        raise popart_exception(f"Cannot remove attribute {attributeName} as it does not exist.")

    def getAllNodeAttributeNames(self, nodeOutputNames: Iterable[str] | str) -> list[str]:
        """The names of a node's attributes."""
        return [entry.name for entry in self._graph.find_node(name_outputs(nodeOutputNames)).attribute]

    def _set(self, outputs: Any, name: str, value: Any) -> AttributeContext | None:
        """On a node that is given by its outputs, or for a `with` block where `outputs` is the value itself."""
        if isinstance(outputs, str | set | frozenset | list | tuple):
            write_attribute(self._graph.find_node(name_outputs(outputs)), name, value)
            return None
        return AttributeContext(self._graph, {name: outputs})

    def _set_number(self, outputs: Any, value: Any, name: str) -> AttributeContext | None:
        if outputs is None:
            outputs = int(value)
        return self._set(outputs if isinstance(outputs, str | set | list | tuple) else int(outputs), name, int(value))

    def virtualGraph(self, nodeOutputNames: Any = None, value: int = 0) -> AttributeContext | None:
        """Run nodes on an IPU: `virtualGraph(outputs, ipu)`, or `with virtualGraph(ipu):`."""
        return self._set_number(nodeOutputNames, value, IPU)

    def pipelineStage(self, nodeOutputNames: Any = None, value: int = 0) -> AttributeContext | None:
        """Put nodes into a stage of the pipeline: `pipelineStage(outputs, stage)`, or `with pipelineStage(stage):`."""
        return self._set_number(nodeOutputNames, value, STAGE)

    def executionPhase(self, nodeOutputNames: Any = None, value: int = 0) -> AttributeContext | None:
        """Put nodes into a phase: `executionPhase(outputs, phase)`, or `with executionPhase(phase):`."""
        return self._set_number(nodeOutputNames, value, PHASE)

    def recomputeOutput(
        self, nodeOutputNames: Any = None, value: RecomputeType = RecomputeType.Undefined
    ) -> AttributeContext | None:
        """Whether outputs are computed again in the backward pass."""
        return self._set_number(nodeOutputNames, int(value), RECOMPUTE)

    def recomputeOutputInBackwardPass(
        self, nodeOutputName: Any = None, value: RecomputeType = RecomputeType.Recompute, **others: Any
    ) -> None:
        """Compute outputs of a node again in the backward pass."""
        outputs = others.get("nodeOutputNames", nodeOutputName)
        write_attribute(self._graph.find_node(name_outputs(outputs)), RECOMPUTE, int(value))

    def getRecomputeOutputInBackwardPass(self, nodeOutputName: Any) -> bool:
        """Are outputs of a node computed again?"""
        return self.getBoolNodeAttribute(RECOMPUTE, nodeOutputName)

    def outputTensorLocation(self, nodeOutputNames: Any = None, value: Any = None) -> AttributeContext | None:
        """Where outputs are kept."""
        if not isinstance(nodeOutputNames, str):
            given = nodeOutputNames if nodeOutputNames is not None else value
            return AttributeContext(self._graph, {LOCATION: given._serialise()})
        return self._set(nodeOutputNames, LOCATION, value._serialise())

    def schedulePriority(self, value: float) -> AttributeContext:
        """Nodes inside are scheduled earlier the larger the number is."""
        return AttributeContext(self._graph, {PRIORITY: float(value)})

    def commGroup(self, type: int = 0, groupSize: int = 0) -> AttributeContext:
        """Replicas that collectives inside are over."""
        return AttributeContext(self._graph, {COMM_GROUP: [int(type), int(groupSize)]})

    def outlineAttributes(self, attributes: Mapping[str, Any]) -> AttributeContext:
        """Nodes with different attributes are never outlined as one."""
        flat = [str(part) for pair in sorted(attributes.items()) for part in pair]
        return AttributeContext(self._graph, {OUTLINE: flat})

    def nameScope(self, name: str) -> NameContext:
        """Names inside begin with the scope."""
        return NameContext(self._graph, name)

    def getNameScope(self, name: str = "") -> str:
        """A name behind the open scopes."""
        return self._graph.scope_name(name)

    def excludePatterns(self, nodeOutputName: str, patternNames: list[str]) -> None:
        """Patterns that leave a node alone."""
        self._set(nodeOutputName, EXCLUDED, list(patternNames))

    def setPartialsType(self, nodeOutputName: Any, partialsType: str) -> None:
        """The number format in which a product is summed: "FLOAT" or "HALF"."""
        self._set(nodeOutputName, PARTIALS, partialsType)

    def getPartialsType(self, nodeOutputName: str) -> str:
        """The number format in which a product is summed."""
        found = self.nodeHasAttribute(PARTIALS, nodeOutputName)
        return self.getStringNodeAttribute(PARTIALS, nodeOutputName) if found else "FLOAT"

    def setAvailableMemoryProportion(self, nodeOutputName: Any, availableMemoryProportion: float) -> None:
        """The share of a tile's memory that a product may use while it runs."""
        if not 0 < availableMemoryProportion <= 1:
            raise popart_exception(
                "availableMemoryProportion must be in (0,1], but was set to " f"{availableMemoryProportion}"
            )
        self._set(nodeOutputName, MEMORY, float(availableMemoryProportion))

    def setEnableConvDithering(self, nodeOutputName: str, enableConvDithering: int) -> None:
        """Whether a convolution begins on another tile than the one before."""
        op = self._graph.find_node(name_outputs(nodeOutputName)).op_type
        if op not in ("Conv", "MultiConv", "ConvTranspose"):
            raise popart_exception(
                f"Builder::setEnableConvDithering should only be called on convolutions but was given: {op}"
            )
        if int(enableConvDithering) not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        self._set(nodeOutputName, DITHERING, int(enableConvDithering))

    def setSerializeMatMul(
        self, nodeOutputName: Any, mode: str, factor: int = 0, keep_precision: bool = False
    ) -> None:
        """Run a product in several parts, along one of its dimensions."""
        if mode not in _SERIAL_MODES:
            raise popart_exception(
                f"Unsupported mat mul serialization mode '{mode}'. Supported modes are 'input_channels', "
                "'reducing_dim', 'output_channels' or 'none'"
            )
        if mode == "none":
            return
        for key, value in ((SERIALISE_MODE, mode), (SERIALISE_FACTOR, factor), (SERIALISE_PRECISION, keep_precision)):
            self._set(nodeOutputName, key, int(value) if not isinstance(value, str) else value)

    def setInplacePreferences(self, nodeOutputName: str, prefs: Mapping[str, float]) -> None:
        """Which in-place forms of an op are preferred."""
        self._set(nodeOutputName, INPLACE_NAMES, [str(name) for name in prefs])
        self._set(nodeOutputName, INPLACE_PRIORITIES, [float(number) for number in prefs.values()])

    def _context_number(self, name: str, outputs: Any) -> int:
        if outputs is not None:
            return self.getInt64NodeAttribute(name, outputs)
        if name not in self._graph.attributes:
            raise popart_exception(f"{_WORDS[name]} not set in current scope: open a block with it, or name a node.")
        return int(self._graph.attributes[name])

    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        """The IPU of a node, or of the block that is open."""
        return self._context_number(IPU, nodeOutputNames)

    def hasVirtualGraph(self) -> bool:
        """Is a block with an IPU open?"""
        return IPU in self._graph.attributes

    def getPipelineStage(self) -> int:
        """The stage of the block that is open."""
        return self._context_number(STAGE, None)

    def hasPipelineStage(self) -> bool:
        """Is a block with a stage open?"""
        return STAGE in self._graph.attributes

    def getExecutionPhase(self) -> int:
        """The phase of the block that is open."""
        return self._context_number(PHASE, None)

    def hasExecutionPhase(self) -> bool:
        """Is a block with a phase open?"""
        return PHASE in self._graph.attributes
