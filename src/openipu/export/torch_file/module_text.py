"""The text of the exported module.

In: a `Snapshot`. Out: Python: a class `Model` with `forward`, and for training `train_step`, which computes what one
weight update of the program computes. Tensors are named as the program names them, so `state_dict()` fits the model
that was captured.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from torch.utils import _pytree as pytree

from openipu import __version__
from openipu.errors import ExportError
from openipu.export.snapshot import Snapshot
from openipu.export.torch_file.expressions import write_value
from openipu.export.torch_file.functions import write_graph
from openipu.export.torch_file.kernels import write_kernels
from openipu.export.torch_file.naming import Identifiers, choose_paths
from openipu.export.trees import find_keys
from openipu.graph import WRITES_PARAMETER, Graph, GraphInput, InputKind, OutputKind, OutputTree

_HEAD = '''\
"""{title}, as openipu {version} captured it. This file needs torch alone.

{usage}

The weights are those of {weights}, which lies beside this file.
"""

from pathlib import Path

import torch

aten = torch.ops.aten
prims = torch.ops.prims

WEIGHTS = Path(__file__).with_name({file!r})
'''
_CLASS = '''\
class Model(torch.nn.Module):
    """{title}."""

    def __init__(self):
        super().__init__()
        content = torch.load(WEIGHTS, weights_only=True)
        for name, tensor in content["parameters"].items():
            wanted = tensor.is_floating_point()
            self._place(name).register_parameter(name.rpartition(".")[2], torch.nn.Parameter(tensor, wanted))
        for name, tensor in content["buffers"].items():
            self._place(name).register_buffer(name.rpartition(".")[2], tensor)
        self.constants = content["constants"]
{optimizer}
    def _place(self, name):
        """The module that holds a tensor of this name; those on the way are made."""
        module = self
        for part in name.split(".")[:-1]:
            if part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        return module

    @property
    def held(self):
        """All parameters and buffers by name."""
        return {{**dict(self.named_parameters()), **dict(self.named_buffers())}}
'''
_OPTIMIZER = """\
        self.optimizer_state = content["optimizer_state"]
        self.hyper = {name: torch.tensor(value) for name, value in content["hyper"].items()}
"""
_TRAIN_STEP = '''\
    @torch.no_grad()
    def train_step(self, {names}):
        """One weight update on one batch. Returns what forward returns."""
        outputs, gradients = self.differentiate({names})
        self.update(gradients)
        return outputs
'''
_ACCUMULATING_STEP = '''\
    @torch.no_grad()
    def train_step(self, {names}):
        """One weight update on {count} micro-batches, one after the other in each input. Returns results of each."""
{split}
        totals, results = {{}}, []
        for micro_batch in range({count}):
            outputs, gradients = self.differentiate({chosen})
            results.append(outputs)
            for name, value in gradients.items():
                totals[name] = totals[name] + value if name in totals else value
        self.update({total})
        return results
'''


def write_module(snapshot: Snapshot, weights_name: str) -> str:
    """The whole file."""
    program = snapshot.program
    title = _quote(program.name)
    writer = _ModuleWriter(snapshot)
    methods = [writer.write_forward()]
    if program.update is not None:
        methods += [writer.write_differentiate(), writer.write_update(program.update), writer.write_train_step()]
    kernels = write_kernels(writer.own_ops)
    usage = f"    outputs = Model()({writer.names})"
    if program.training:
        usage = f"    model = Model()\n    outputs = model.train_step({writer.names})"
    parts = [
        _HEAD.format(title=title, version=__version__, usage=usage, weights=_quote(weights_name), file=weights_name),
        *([kernels] if kernels else []),
        "\n".join([_CLASS.format(title=title, optimizer=_OPTIMIZER if program.training else ""), *methods]),
    ]
    return "\n\n".join(part.rstrip() + "\n" for part in parts)


def _quote(text: str) -> str:
    """A name as part of a docstring, which it must not end."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


class _ModuleWriter:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._program = snapshot.program
        self.own_ops: set[str] = set()
        self.paths = list_paths(snapshot)
        identifiers = Identifiers({"totals", "results", "outputs", "gradients", "micro_batch", "batch"})
        entries = sorted(self._program.micro.inputs_of(InputKind.INPUT), key=lambda entry: entry.index)
        self._arguments = {entry.node: identifiers.claim(entry.name) for entry in entries}

    @property
    def names(self) -> str:
        return ", ".join(self._arguments.values())

    def write_forward(self) -> str:
        """What the program returns; backward is left out."""
        kinds = (*_WRITTEN, OutputKind.OUTPUT)
        return self._write_method("forward", f"self, {self.names}".rstrip(", "), self._program.micro, kinds)

    def write_differentiate(self) -> str:
        """The same with gradients of all trained parameters."""
        kinds = (*_WRITTEN, OutputKind.OUTPUT, OutputKind.GRADIENT)
        header = f"self, {self.names}".rstrip(", ")
        return self._write_method("differentiate", header, self._program.micro, kinds, gradients=True)

    def write_update(self, update: Graph) -> str:
        """The optimizer: new weights and state from gradients."""
        kinds = (OutputKind.PARAMETER, OutputKind.STATE)
        return self._write_method("update", "self, gradients", update, kinds)

    def write_train_step(self) -> str:
        """Micro-batches, their gradients, and the update."""
        count, names = self._snapshot.micro_batches, list(self._arguments.values())
        if count == 1:
            return _TRAIN_STEP.format(names=self.names)
        carried = self._program.micro.outputs_of(OutputKind.CARRIED)
        if carried:
            raise ExportError(
                f"Forward moves {carried[0].name} once an update, which a file that accumulates {count} micro-batches "
                "cannot. Export it without gradient accumulation."
            )
        batched = [
            self._arguments[entry.node] for entry in self._program.micro.inputs_of(InputKind.INPUT) if entry.shape
        ]
        share = self._snapshot.share
        return _ACCUMULATING_STEP.format(
            names=self.names,
            count=count,
            split="\n".join(f"        {name} = {name}.chunk({count})" for name in batched),
            chosen=", ".join(f"{name}[micro_batch]" if name in batched else name for name in names),
            total=f"{{name: value / {share} for name, value in totals.items()}}" if share > 1 else "totals",
        )

    def _write_method(
        self, name: str, header: str, graph: Graph, kinds: Sequence[OutputKind], *, gradients: bool = False
    ) -> str:
        positions = [index for index, entry in enumerate(graph.outputs) if entry.kind in kinds]
        identifiers = Identifiers({*self._arguments.values(), "gradients", "held"})
        expressions = {entry.node: self._write_input(entry) for entry in graph.inputs}
        text = write_graph(graph, expressions, identifiers, positions)
        self.own_ops |= text.own_ops
        results = dict(zip(positions, text.results, strict=True))
        lines = [*text.lines, *self._write_back(graph, results)]
        if name != "update":
            outputs = {
                entry.index: results[index]
                for index, entry in enumerate(graph.outputs)
                if entry.kind is OutputKind.OUTPUT
            }
            returned = write_tree(self._program.output_tree, outputs)
            if gradients:
                returned = f"{returned}, {{{self._list_gradients(graph, results)}}}"
            lines.append(f"return {returned}")
        held = ["held = self.held"] if any("held[" in line for line in lines) else []
        body = textwrap.indent("\n".join([*held, *lines]), " " * 8)
        guard = "" if name == "forward" else "    @torch.no_grad()\n"
        return f"{guard}    def {name}({header}):\n{body}\n"

    def _write_input(self, entry: GraphInput) -> str:
        if entry.kind is InputKind.INPUT:
            return self._arguments[entry.node]
        if entry.kind is InputKind.CONSTANT:
            return f"self.constants[{entry.name!r}]"
        if entry.kind is InputKind.HYPER:
            return f"self.hyper[{entry.name!r}]"
        if entry.kind is InputKind.STATE:
            return f"self.optimizer_state[{entry.name!r}]"
        if entry.kind is InputKind.GRADIENT:
            return f"gradients[{entry.name!r}]"
        return f"held[{self.paths[entry.name]!r}]"

    def _write_back(self, graph: Graph, results: dict[int, str]) -> list[str]:
        """Store what the graph computed for tensors that outlive it. All of it is computed before any is stored."""
        lines = []
        inputs = {entry.name: self._arguments[entry.node] for entry in graph.inputs_of(InputKind.INPUT)}
        for index, value in results.items():
            entry = graph.outputs[index]
            if entry.kind in {OutputKind.BUFFER, *WRITES_PARAMETER}:
                lines.append(f"held[{self.paths[entry.name]!r}].copy_({value})")
            elif entry.kind is OutputKind.STATE:
                lines.append(f"self.optimizer_state[{entry.name!r}] = {value}")
            elif entry.kind is OutputKind.INPUT:
                lines.append(f"{inputs[entry.name]}.copy_({value})")
        stored = [line for line in lines if ".copy_(" in line]
        if not stored or graph is self._program.update:
            return lines
        return ["with torch.no_grad():", *(f"    {line}" for line in lines)]

    def _list_gradients(self, graph: Graph, results: dict[int, str]) -> str:
        return ", ".join(
            f"{entry.name!r}: {results[index]}"
            for index, entry in enumerate(graph.outputs)
            if entry.kind is OutputKind.GRADIENT
        )


_WRITTEN = (OutputKind.BUFFER, OutputKind.INPUT, OutputKind.PARAMETER, OutputKind.CARRIED)


def list_paths(snapshot: Snapshot) -> dict[str, str]:
    """Where each parameter and buffer stands in the exported module."""
    return choose_paths([*snapshot.parameters, *snapshot.buffers])


def write_tree(tree: OutputTree, outputs: dict[int, str]) -> str:
    """What forward returned, with the results in their places. Containers of others become dicts or tuples."""
    leaves = iter(
        [
            outputs[index] if index in outputs else _write_host_leaf(tree.host_leaves.get(index))
            for index in range(tree.leaves)
        ]
    )
    return _write_spec(tree.spec, leaves)


def _write_spec(spec: pytree.TreeSpec, leaves: Any) -> str:
    if spec.is_leaf():
        return str(next(leaves))
    parts = [_write_spec(child, leaves) for child in spec.children()]
    kind, keys = spec.type, find_keys(spec)
    if keys is not None:
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(keys, parts, strict=True)) + "}"
    inner = ", ".join(parts)
    if kind is list:
        return f"[{inner}]"
    return f"({inner},)" if len(parts) == 1 else f"({inner})"


def _write_host_leaf(value: Any) -> str:
    try:
        return write_value(value, {})
    except ExportError:
        return "None"
