"""FX nodes as the op table sees them: operands in place of tensors, results, arguments in order."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from openipu.errors import PlanError
from openipu.graph import Graph
from openipu.ops import Trait, has_trait
from openipu.ops.cost import Operand

_INDICES = (torch.int64, torch.int32)


def list_output_nodes(graph: Graph) -> tuple[Any, ...]:
    output = next(node for node in graph.module.graph.nodes if node.op == "output")
    returned = output.args[0]
    return tuple(returned) if isinstance(returned, list | tuple) else (returned,)


def find_last_reader(node: fx.Node, position: dict[fx.Node, int]) -> int:
    """The last node that reads this one, also through views."""
    last = -1
    for user in node.users:
        if user.op == "call_function":
            viewed = has_trait(str(user.target), Trait.VIEW) or user.target is operator.getitem
            last = max(last, position[user], find_last_reader(user, position) if viewed else -1)
    return last


def list_readers(node: fx.Node) -> list[fx.Node]:
    """Nodes that read a result, also as an item of a tuple or through a view."""
    readers: list[fx.Node] = []
    for user in node.users:
        readers.append(user)
        if user.op == "call_function" and (user.target is operator.getitem or has_trait(str(user.target), Trait.VIEW)):
            readers.extend(list_readers(user))
    return readers


def describe_argument(argument: Any) -> Any:
    """An FX argument with operands in place of nodes."""
    if isinstance(argument, fx.Node):
        return read_operand(argument.meta.get("val"), argument)
    if isinstance(argument, list):
        return [describe_argument(item) for item in argument]
    if isinstance(argument, tuple):
        return tuple(describe_argument(item) for item in argument)
    return argument


def read_operand(value: Any, node: fx.Node) -> Operand:
    if not isinstance(value, torch.Tensor):
        raise PlanError(f"The node {node.name} carries no shape; capture must record one.")
    return Operand(tuple(int(size) for size in value.shape), value.dtype, _find_repeated(value))


def _find_repeated(value: torch.Tensor) -> tuple[int, ...]:
    """Of an index, the dimensions that `expand` has added."""
    if value.dtype not in _INDICES or value.layout is not torch.strided:
        return ()
    return tuple(
        dim for dim, (size, step) in enumerate(zip(value.shape, value.stride(), strict=True)) if size > 1 and not step
    )


def list_results(node: fx.Node) -> Iterable[tuple[int, Operand]]:
    """The tensors a node returns: those of a tuple that somebody takes."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        yield 0, read_operand(value, node)
        return
    if isinstance(value, list | tuple):
        for item, part in enumerate(value):
            if isinstance(part, torch.Tensor):
                yield item, read_operand(part, node)
        return
    taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    for item in sorted(key for key in taken if isinstance(key, int)):
        yield item, read_operand(taken[item].meta.get("val"), taken[item])


def list_tensor_arguments(node: fx.Node) -> Iterable[fx.Node]:
    """Tensor arguments in order, with repeats: one an operand of the site."""
    for argument in (*node.args, *node.kwargs.values()):
        if isinstance(argument, fx.Node):
            yield argument
        elif isinstance(argument, list | tuple):
            for item in argument:
                if isinstance(item, fx.Node):
                    yield item
