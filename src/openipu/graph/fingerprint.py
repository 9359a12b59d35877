"""Fingerprints: the same text for the same program.

In: a `Program`, whatever its weights. Out: hexadecimal digits that do not depend on names of nodes or on the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import torch
from torch import fx

from openipu.graph.calls import GraphCall
from openipu.graph.program import Graph, GraphInput, GraphOutput, Note, Program, note_of


def fingerprint_program(program: Program) -> str:
    """What is computed: operators, arguments, shapes, types, the signature, and constants with their values."""
    digest = hashlib.sha256()
    for graph in filter(None, (program.micro, program.update)):
        for line in _describe_graph(graph):
            digest.update(line.encode())
    for name, tensor in sorted(program.constants.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type == "cpu":
            dense = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
            digest.update(dense.view(torch.uint8).numpy().tobytes() if dense.numel() else b"")
    return digest.hexdigest()


def fingerprint_placement(program: Program) -> str:
    """Where it is computed: the IPU and the stage of each node, and what markers said of it."""
    return _digest_notes(
        program, lambda note: f"{note.phase} {note.ipu} {note.stage} {sorted(note.attributes.items())}"
    )


def fingerprint_origin(program: Program) -> str:
    """Where it is from: names, modules and lines, as reports show them."""
    return _digest_notes(program, lambda note: f"{note.module} {note.block} {note.line}", with_names=True)


def _digest_notes(program: Program, describe: Callable[[Note], str], with_names: bool = False) -> str:
    digest = hashlib.sha256()
    known: dict[int, str] = {}  # most nodes share their note
    for graph in filter(None, (program.micro, program.update)):
        for node in _list_nodes(graph):
            note = note_of(node)
            text = known.get(id(note))
            if text is None:
                text = known[id(note)] = describe(note)
            digest.update(f"{node.name if with_names else ''} {text}\n".encode())
    if with_names:
        digest.update(program.name.encode())
    return digest.hexdigest()


def _list_nodes(graph: Graph) -> Iterator[fx.Node]:
    for node in graph.module.graph.nodes:
        yield node
        if isinstance(node.target, GraphCall):
            for body in node.target.bodies:
                yield from _list_nodes(body)


def _describe_graph(graph: Graph) -> Iterator[str]:
    numbers: dict[fx.Node, str] = {}
    for index, node in enumerate(graph.module.graph.nodes):
        numbers[node] = f"%{index}"
        # Node names may depend on what else the process captured; their order does not.
        arguments = fx.map_arg((node.args, node.kwargs), lambda source: numbers[source])
        value = node.meta.get("val")
        kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        target = ""  # of a placeholder: its name
        if not isinstance(node.target, str):
            target = str(node.target).split(" at 0x")[0]
        yield f"{index} {node.op} {target} {arguments} {kind}\n"
        if isinstance(node.target, GraphCall):
            yield f"{node.target.details}\n"
            for body in node.target.bodies:
                yield from _describe_graph(body)
    signature: tuple[GraphInput | GraphOutput, ...] = (*graph.inputs, *graph.outputs)
    for entry in signature:
        yield f"{entry.kind} {entry.name} {entry.shape} {entry.dtype} {entry.index}\n"
