"""A slice of a Paddle program as a `ForeignGraph`.

In: a `PaddleProgram`, its forward ops, what is fed and fetched. Out: nodes with slots, and the names of the variables
that live on between runs. Bodies of control flow become graphs inside their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.paddle.calls import make_node
from openipu.translate.paddle.program import PaddleBlock, PaddleOp, PaddleProgram, PaddleVariable

_DEEPEST_BLOCK = 32
_BODIES = ("sub_block",)


@dataclass(frozen=True, eq=False)
class BuiltGraph:
    """A graph, and what it reads that is neither fed nor made: weights and statistics."""

    graph: ForeignGraph
    held: tuple[str, ...]


def build_graph(
    program: PaddleProgram,
    ops: Sequence[PaddleOp],
    feeds: Mapping[str, TensorType],
    fetches: Sequence[str],
    *,
    name: str = "program",
    gradients: bool = False,
) -> BuiltGraph:
    """The graph of some ops of a program. With `gradients`, results that are said to stop them do so."""
    block = program.main
    stopped = _list_stopped(block) if gradients else frozenset()
    nodes = [_build_node(program, op, stopped, 0) for op in ops]
    made: set[str] = set(feeds)
    held: dict[str, None] = {}
    for op, node in zip(ops, nodes, strict=True):
        for read in (*node.inputs, *_list_reads_inside(node)):
            if read not in made and read in block.variables and block.variables[read].persistable:
                held[read] = None
        made.update(op.list_outputs())
    held.update(dict.fromkeys(name for name in fetches if name not in made and _is_persistable(block, name)))
    missing = [name for name in fetches if name not in made and name not in held]
    if missing:
        raise TranslationError(
            f"{program.file or 'The program'} makes no {missing[0]!r}, which is to be fetched. Fetch results of its "
            "forward pass, or its variables."
        )
    return BuiltGraph(ForeignGraph(name, tuple(nodes), dict(feeds), tuple(fetches), {}, program.file), tuple(held))


def _is_persistable(block: PaddleBlock, name: str) -> bool:
    found = block.variables.get(name)
    return found is not None and found.persistable


def _list_stopped(block: PaddleBlock) -> frozenset[str]:
    return frozenset(entry.name for entry in block.variables.values() if entry.stop_gradient)


def _build_node(program: PaddleProgram, op: PaddleOp, stopped: frozenset[str], depth: int) -> ForeignNode:
    attributes = dict(op.attributes)
    for name in _BODIES:
        number = attributes.get(name)
        if isinstance(number, int):
            attributes[name] = _build_body(program, number, stopped, depth + 1)
    if attributes == op.attributes:
        return make_node(op, stopped)
    return make_node(replace(op, attributes=attributes), stopped)


def _build_body(program: PaddleProgram, number: int, stopped: frozenset[str], depth: int) -> ForeignGraph:
    if not 0 < number < len(program.blocks) or depth > _DEEPEST_BLOCK:
        raise TranslationError(f"{program.file or 'The program'} has no block {number}, or blocks too deep in another.")
    block = program.blocks[number]
    nodes = tuple(_build_node(program, op, stopped, depth) for op in block.ops)
    outputs = tuple(dict.fromkeys(name for op in block.ops for name in op.list_outputs()))
    return ForeignGraph(f"block {number}", nodes, {}, outputs, {}, program.file)


def _list_reads_inside(node: ForeignNode) -> list[str]:
    found = []
    for value in node.attributes.values():
        if isinstance(value, ForeignGraph):
            for inner in value.nodes:
                found += [*inner.inputs, *_list_reads_inside(inner)]
    return found


def find_type(variable: PaddleVariable) -> TensorType | None:
    """The declared type of a tensor; sizes of -1 are open."""
    if variable.dtype is None:
        return None
    return TensorType(variable.dtype, tuple(None if size < 0 else size for size in variable.shape))
