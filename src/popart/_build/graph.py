"""The ONNX graph that a builder writes: names, nodes, initialisers, shapes.

In: tensors and ops, one at a time. Out: an ONNX model. Names follow PopART's rules: an input is "input", an initialised
one "init_input", an output "<op>:<index>", all behind the open name scopes; a name that is taken here, in a graph
around this one or in one inside it gets "/1", "/2" and so on.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from openipu.errors import OpenIpuError
from openipu.translate.onnx import read_model
from popart._build.external import find_location
from popart._build.inference import infer_outputs, shrink
from popart._build.tensor_data import write_values
from popart._exceptions import popart_exception
from popart._formats import BY_ONNX, BY_TORCH, Format, find_format
from popart.tensorinfo import TensorInfo

OLDEST_OPSET, NEWEST_OPSET = 6, 11
DEBUG_ID = "__debug_info_id"
_MOST_BYTES = 1 << 31
_numbers = itertools.count()


class BuilderGraph:
    """One graph with its names. A graph inside another knows the one around it."""

    def __init__(self, parent: BuilderGraph | None = None) -> None:
        self.parent = parent
        self.children: list[BuilderGraph] = []
        self.model = onnx.ModelProto(ir_version=4)
        self.model.graph.name = f"BuilderGraph_{next(_numbers)}"
        self.names: set[str] = set()
        self.scopes: list[str] = []
        self.attributes: dict[str, Any] = {}  # of all nodes from here on
        self.opsets: dict[str, int] = {}
        self._known: dict[str, torch.Tensor] = {}
        self._nodes: dict[frozenset[str], onnx.NodeProto] = {}
        if parent is not None:
            parent.children.append(self)

    def load(self, source: str | bytes | os.PathLike[str]) -> None:
        """Begin with a model from bytes or a file."""
        content = source if isinstance(source, bytes) else _read_file(source)
        try:
            self.model.ParseFromString(content)
            onnx.checker.check_model(self.model)
        except Exception as error:
            if not _has_foreign_ops(self.model):
                raise popart_exception(
                    f"Failed to load a ModelProto from the string {content[:20]!r}…: {_first_line(error)}. Check that "
                    "it is either a valid path to an existing onnx model file, or is a valid onnx ModelProto string."
                ) from error
        for entry in self.model.opset_import:
            if entry.domain in ("", "ai.onnx") and not OLDEST_OPSET <= entry.version <= NEWEST_OPSET:
                raise popart_exception(
                    f"Encountered ONNX opset version {entry.version}, maximum supported opset is {NEWEST_OPSET}, "
                    f"minimum {OLDEST_OPSET}. Sessions and `openipu plan` take newer models as they are."
                )
            self.opsets["ai.onnx" if entry.domain == "" else entry.domain] = entry.version
        graph = self.model.graph
        for entry in graph.initializer:
            location = find_location(entry)
            if location is not None and not Path(location).exists():
                raise RuntimeError(f"Data of {entry.name!r} is in {location}, but it doesn't exist or is not accessible")
        self.names = {value.name for value in (*graph.input, *graph.initializer)}
        self.names |= {name for node in graph.node for name in node.output}
        self._nodes = {frozenset(node.output): node for node in graph.node}
        self._restore_known()

    def _restore_known(self) -> None:
        graph = self.model.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            found = BY_ONNX.get(kind.elem_type)
            sizes = [size.dim_value for size in kind.shape.dim]
            if found is not None and found.torch is not None and kind.HasField("shape"):
                self._known[value.name] = torch.empty(sizes, dtype=found.torch, device="meta")

    def next_id(self, name: str, index: int | None = None) -> str:
        """A name that is free, and is not any more."""
        base = self.scope_name(name) + ("" if index is None else f":{index}")
        found, number = base, 0
        while self._is_taken(found):
            number += 1
            found = f"{base}/{number}"
        self.names.add(found)
        return found

    def scope_name(self, name: str) -> str:
        """A name behind the open scopes."""
        return "".join(f"{scope}/" for scope in self.scopes) + name

    def _is_taken(self, name: str) -> bool:
        return self.is_above(name) or self._is_below(name)

    def is_above(self, name: str) -> bool:
        """Is it the name of a tensor here, or of a graph around?"""
        return name in self.names or (self.parent is not None and self.parent.is_above(name))

    def _is_below(self, name: str) -> bool:
        return any(name in child.names or child._is_below(name) for child in self.children)

    def add_input(self, info: TensorInfo | None, name: str) -> None:
        """An input of the graph; without a format and shape where these come from outside."""
        entry = self.model.graph.input.add(name=name)
        if info is not None:
            _write_type(entry, info._number_format, info.shape())
            self._known[name] = torch.empty(info.shape(), dtype=info._number_format.torch, device="meta")

    def add_initialiser(self, value: np.ndarray[Any, Any], name: str) -> None:
        """An input with a value."""
        kind = find_format(value.dtype)
        _write_type(self.model.graph.input.add(name=name), kind, value.shape)
        write_values(self.model.graph.initializer.add(), name, kind.onnx, value)
        self._known[name] = shrink(torch.from_numpy(np.array(value, copy=True)))

    def add_output(self, name: str) -> None:
        """Make a tensor an output of the graph."""
        if not self.is_above(name):
            raise popart_exception(f"There is no tensor {name!r} that could be an output.")
        found = self.find_value(name)
        if found is not None and name not in {entry.name for entry in self.model.graph.input}:
            self.model.graph.output.add().CopyFrom(found)
        else:
            entry = self.model.graph.output.add(name=name)
            if found is not None:
                entry.CopyFrom(found)

    def add_node(
        self,
        op: str,
        domain: str,
        opset: int,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any],
        name: str = "",
    ) -> list[str]:
        """A node, and the names of its outputs."""
        for given in inputs:
            if given and not self.is_above(given):
                raise popart_exception(
                    f"Unknown tensor '{given}' ({self._describe_names()}). Inputs are names that the builder returned."
                )
        known_domain = domain or "ai.onnx"
        used = self.opsets.setdefault(known_domain, opset)
        if used != opset:
            raise popart_exception(
                f"Invalid opset {opset} used to add an operation. Opset for domain {known_domain} already defined as "
                f"{used}"
            )
        if not any(entry.domain == domain for entry in self.model.opset_import):
            self.model.opset_import.add(domain=domain, version=opset)
            if not domain:
                self.model.ir_version = 3 if opset <= 8 else 4
        self._import(domain, opset)
        made = [self.next_id(op, index) for index in range(outputs)]
        node = self.model.graph.node.add(op_type=op, domain=domain, input=inputs, output=made)
        if name or self.scopes:
            node.name = self.scope_name(name or op)
        for key, value in {**attributes, DEBUG_ID: len(self.model.graph.node), **self.attributes}.items():
            write_attribute(node, key, value)
        self._nodes[frozenset(made)] = node
        self._infer(node)
        return made

    def _import(self, domain: str, opset: int) -> None:
        """The graphs around this one are the model: it must have the operator sets of the graphs inside."""
        around = self.parent
        while around is not None:
            around.opsets.setdefault(domain or "ai.onnx", opset)
            if not any(entry.domain == domain for entry in around.model.opset_import):
                around.model.opset_import.add(domain=domain, version=around.opsets[domain or "ai.onnx"])
            around = around.parent

    def _describe_names(self) -> str:
        names = sorted(self.names)
        return f"valid tensors are {', '.join(names)}" if names else "there are no valid tensors yet"

    def _infer(self, node: onnx.NodeProto) -> None:
        opsets = {("" if domain == "ai.onnx" else domain): version for domain, version in self.opsets.items()}
        known = self._known if self.parent is None else self._list_known()
        found = infer_outputs(node, known, opsets)
        for name, value in zip(node.output, found, strict=True):
            entry = self.model.graph.value_info.add(name=name)
            if value is None:
                entry.type.tensor_type.elem_type = 0
                continue
            self._known[name] = value
            kind = BY_TORCH.get(value.dtype)
            if kind is not None:
                _write_type(entry, kind, value.shape)

    def _list_known(self) -> dict[str, torch.Tensor]:
        above = self.parent._list_known() if self.parent is not None else {}
        return {**above, **self._known}

    def find_value(self, name: str) -> onnx.ValueInfoProto | None:
        """What is known of a tensor's format and shape."""
        graph = self.model.graph
        entries: Iterable[onnx.ValueInfoProto] = itertools.chain(graph.input, graph.output, graph.value_info)
        return next((entry for entry in entries if entry.name == name), None)

    def find_node(self, outputs: frozenset[str]) -> onnx.NodeProto:
        """The node that has exactly these outputs."""
        found = self._nodes.get(outputs)
        if found is None:
            raise popart_exception(
                f"Could not find a node with outputs {' ,'.join(sorted(outputs))}. Must specify all outputs of a node"
            )
        return found

    def knows(self, name: str) -> bool:
        """Is the shape of a tensor known?"""
        return name in self._known

    def describe(self, name: str) -> tuple[Format, list[int]]:
        """The format and the shape of a tensor."""
        entry = self.find_value(name)
        if entry is None:
            graph = self.model.graph
            raise popart_exception(
                f"{name} is not an known tensor. Must be one of (inputs:{_join(graph.input)}) "
                f"(outputs:{_join(graph.output)}) (values:{_join(graph.value_info)})."
            )
        kind = entry.type.tensor_type
        found = BY_ONNX.get(kind.elem_type)
        if found is None:
            raise popart_exception(f"The format and shape of {name} are not known: no rule infers them.")
        return found, [size.dim_value for size in kind.shape.dim]


def write_attribute(node: onnx.NodeProto, name: str, value: Any) -> None:
    """Add an attribute, which the node must not have yet."""
    if any(entry.name == name for entry in node.attribute):
        raise popart_exception(f"Node already has attribute {name}.")
    if isinstance(value, list) and not value:  # a list of nothing is one of whole numbers
        node.attribute.add(name=name, type=onnx.AttributeProto.INTS)
        return
    if isinstance(value, onnx.GraphProto | onnx.TensorProto | onnx.SparseTensorProto):
        node.attribute.append(onnx.helper.make_attribute(name, value))
        return
    if isinstance(value, bool | np.integer):
        value = int(value)
    elif isinstance(value, np.floating):
        value = float(value)
    elif isinstance(value, list | tuple):
        value = [entry.item() if isinstance(entry, np.generic) else entry for entry in value]
    node.attribute.append(onnx.helper.make_attribute(name, value))


def _write_type(entry: onnx.ValueInfoProto, kind: Format, shape: Sequence[int]) -> None:
    tensor = entry.type.tensor_type
    tensor.elem_type = kind.onnx
    tensor.shape.SetInParent()
    for size in shape:
        tensor.shape.dim.add(dim_value=int(size))


def _join(entries: Any) -> str:
    return " ".join(entry.name for entry in entries)


def _read_file(path: str | os.PathLike[str]) -> bytes:
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise popart_exception(f"{file} is larger than an ONNX model may be.")
        return file.read_bytes()
    except OSError as error:
        raise popart_exception(f"Failed to open file {str(path)[:200]}: {error.strerror or error}") from error


def _has_foreign_ops(model: onnx.ModelProto) -> bool:
    """Does the checker complain of ops that it cannot know?"""
    if not model.graph.node:
        return bool(model.graph.input)
    try:
        read_model(model.SerializeToString())
    except OpenIpuError:
        return False
    return True


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
