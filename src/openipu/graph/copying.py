"""Copies of programs, so that a pass can write other notes: a program that somebody holds never changes.

In: a program. Out: one with graphs and notes of its own; signatures, constants and bodies of loops are shared.
"""

from __future__ import annotations

from dataclasses import replace

from torch import fx

from openipu.graph.program import Graph, Program


def copy_program(program: Program) -> Program:
    """A program whose nodes are its own."""
    update = None if program.update is None else _copy_graph(program.update)
    return replace(program, micro=_copy_graph(program.micro), update=update)


def _copy_graph(graph: Graph) -> Graph:
    copied: dict[fx.Node, fx.Node] = {}
    new = fx.Graph()
    new.output(new.graph_copy(graph.module.graph, copied))
    assert all(node.name == copied[node].name for node in copied), "names belong to the signature"
    for node, twin in copied.items():
        twin.meta = dict(node.meta)
    return replace(graph, module=fx.GraphModule(graph.module, new))
