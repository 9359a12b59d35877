"""Where indices come from that a kernel follows without looking.

In: the nodes of one graph, in order. Out: a refusal where a kernel of backward would follow indices that forward has
not made or checked. Autograd hands backward the very tensors that forward took and returned, so a captured graph always
passes: the indices of a max-pool's gradient are that pool's second result, and the rows that an embedding's gradient
is added to were looked up in the same graph, by a kernel that checks them.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.admission.refusal import refuse
from openipu.graph import RECURRENT_OPS

aten = torch.ops.aten

_POOLS: Mapping[Any, Any] = {  # gradient -> the pool; behind (gradient, input) come forward's arguments, then indices
    aten.max_pool2d_with_indices_backward.default: aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices_backward.default: aten.max_pool3d_with_indices.default,
    aten.adaptive_max_pool2d_backward.default: aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d_backward.default: aten.adaptive_max_pool3d.default,
}
_LOSSES: Mapping[Any, Any] = {
    aten.nll_loss_backward.default: aten.nll_loss_forward.default,
    aten.nll_loss2d_backward.default: aten.nll_loss2d_forward.default,
}
_LAYERS: Mapping[Any, tuple[Any, Mapping[str, int]]] = {  # gradient -> the layer, and which of its results it reads
    RECURRENT_OPS["lstm_layer_backward"]: (RECURRENT_OPS["lstm_layer"], {"output": 0, "gates": 3, "cells": 4}),
    RECURRENT_OPS["gru_layer_backward"]: (RECURRENT_OPS["gru_layer"], {"output": 0, "gates": 2}),
    RECURRENT_OPS["rnn_layer_backward"]: (RECURRENT_OPS["rnn_layer"], {"output": 0}),
}
_EMBEDDING_BACKWARD = aten.embedding_dense_backward.default
_BAG_BACKWARD = aten._embedding_bag_backward.default


def check_provenance(nodes: Sequence[fx.Node]) -> None:
    """Refuse a graph in which indices of a trusting kernel are not forward's own."""
    rows = _LookedUp(nodes)
    checks: Mapping[Any, Callable[[fx.Node], None]] = {
        **dict.fromkeys(_POOLS, _check_pool),
        **dict.fromkeys(_LOSSES, _check_loss),
        **dict.fromkeys(_LAYERS, _check_layer),
        _EMBEDDING_BACKWARD: rows.check_embedding,
        _BAG_BACKWARD: _check_bag,
    }
    for node in nodes:
        check = checks.get(node.target) if node.op == "call_function" else None
        if check is not None:
            check(node)


def read_arguments(node: fx.Node) -> dict[str, Any]:
    """Arguments by name, defaults included. They have been checked against the schema."""
    target: Any = node.target
    given, named = list(node.args), node.kwargs
    return {
        argument.name: given[index]
        if index < len(given)
        else named.get(argument.name, argument.default_value if argument.has_default_value() else None)
        for index, argument in enumerate(target._schema.arguments)
    }


def _find_maker(value: Any, target: Any, index: int) -> fx.Node | None:
    """The call of `target` whose result number `index` this is."""
    if not isinstance(value, fx.Node) or value.target is not operator.getitem or value.args[1] != index:
        return None
    maker = value.args[0]
    return maker if isinstance(maker, fx.Node) and maker.target is target else None


def _check_pool(node: fx.Node) -> None:
    found = read_arguments(node)
    maker = _find_maker(found.pop("indices"), _POOLS[node.target], 1)
    if maker is None:
        refuse(node, "they are not what the same pool returned in forward", "indices")
    _compare(node, found, read_arguments(maker))
    if _shape(found["grad_output"]) != _shape(_find_result(maker)):
        refuse(node, "it has another shape than forward's result", "grad_output")


def _check_loss(node: fx.Node) -> None:
    found = read_arguments(node)
    maker = _find_maker(found["total_weight"], _LOSSES[node.target], 1)
    if maker is None:
        refuse(node, "it is not what the same loss returned in forward", "total_weight")
    forward = read_arguments(maker)
    _compare(node, {name: found[name] for name in ("target", "ignore_index")}, forward)
    if _shape(found["self"]) != _shape(forward["self"]):
        refuse(node, "it has another number of classes than in forward", "self")


def _check_layer(node: fx.Node) -> None:
    found = read_arguments(node)
    layer, saved = _LAYERS[node.target]
    for name, index in saved.items():
        maker = _find_maker(found[name], layer, index)
        if maker is None:
            refuse(node, "it is not what the same layer returned in forward", name)
        _compare(node, found, read_arguments(maker))


def _check_bag(node: fx.Node) -> None:
    found = read_arguments(node)
    for index, name in enumerate(("offset2bag", "bag_size", "maximum_indices"), 1):
        maker = _find_maker(found[name], aten._embedding_bag.default, index)
        if maker is None:
            refuse(node, "it is not what the same lookup returned in forward", name)
        forward = read_arguments(maker)
        same = ("indices", "offsets", "mode", "sparse", "per_sample_weights", "padding_idx")
        _compare(node, {item: found[item] for item in same}, forward)
        if found["num_weights"] != _shape(forward["weight"])[0]:
            refuse(node, f"is {found['num_weights']}, and forward looked up other rows", "num_weights")
        if _shape(found["grad"]) != _shape(_find_result(maker)):
            refuse(node, "it has another shape than forward's result", "grad")


def _compare(node: fx.Node, found: Mapping[str, Any], forward: Mapping[str, Any]) -> None:
    for name, value in forward.items():
        if name in found and not _is_same(found[name], value):
            refuse(node, "it is not what forward was called with", name)


def _is_same(value: Any, other: Any) -> bool:
    if isinstance(value, fx.Node) or isinstance(other, fx.Node):
        return value is other
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return list(value) == list(other)
    return bool(value == other)


def _find_result(maker: fx.Node) -> Any:
    return maker.meta["val"][0]


def _shape(value: Any) -> tuple[int, ...]:
    held = value.meta["val"] if isinstance(value, fx.Node) else value
    return tuple(held.shape)


class _LookedUp:
    """Which indices were looked up in how many rows, by calls that are not left out as useless."""

    def __init__(self, nodes: Sequence[fx.Node]) -> None:
        self._rows: dict[Any, set[int]] = defaultdict(set)
        needed = set[fx.Node]()
        for node in reversed(nodes):
            if node.op == "output" or node in needed:
                needed.update(node.all_input_nodes)
        for node in nodes:
            if node.target is aten.embedding.default and node in needed:
                found = read_arguments(node)
                self._rows[found["indices"]].add(_shape(found["weight"])[0])

    def check_embedding(self, node: fx.Node) -> None:
        found = read_arguments(node)
        if found["num_weights"] not in self._rows[found["indices"]]:
            refuse(node, f"forward does not look them up in {found['num_weights']} rows", "indices")
