"""Convolutions, normalisations, embeddings and attention, whose weights the micro-batches share.

In: an old node. Out: the operator on all micro-batches. The backward operators that also give gradients of weights give
those of all micro-batches together: `PARTIAL` says which results are sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.arguments import find_tensors, read_arguments
from openipu.run.rewrites.micro_batches.rules.merging import split_items
from openipu.run.rewrites.micro_batches.rules.recurrent import RECURRENT_BACKWARD, write_layer_backward
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

Items = tuple[fx.Node | None, ...]


@dataclass(frozen=True)
class Partial:
    """A backward operator of a layer: its first results for each micro-batch, the others summed over all of them."""

    write: Callable[[BatchWriter, fx.Node], Items]
    shared: tuple[str, ...]  # arguments that must be the same for all micro-batches
    each: int = 1  # so many results for each micro-batch


def is_shared(node: fx.Node, names: tuple[str, ...], is_batched: Callable[[Any], bool]) -> bool:
    """Whether these arguments are the same for all micro-batches."""
    arguments = read_arguments(node)
    return not any(is_batched(arguments[name]) for name in names)


def _batch_convolution(writer: BatchWriter, node: fx.Node) -> Value | None:
    if not is_shared(node, ("weight", "bias"), writer.is_batched):
        return None
    return writer.split(writer.repeat(node, {"input": _lift_and_merge(writer, node, "input")}))


def _write_convolution_backward(writer: BatchWriter, node: fx.Node) -> Items:
    changes = {name: _lift_and_merge(writer, node, name) for name in ("grad_output", "input")}
    return _split_first(writer, writer.repeat(node, changes))


def _batch_layer_norm(writer: BatchWriter, node: fx.Node) -> Value | None:
    if not is_shared(node, ("weight", "bias"), writer.is_batched):
        return None
    return writer.take_items(writer.repeat(node))


def _write_layer_norm_backward(writer: BatchWriter, node: fx.Node) -> Items:
    arguments = read_arguments(node)
    changes = {name: writer.lift(arguments[name]) for name in ("grad_out", "input", "mean", "rstd")}
    items = writer.take_items(writer.repeat(node, changes))
    assert isinstance(items, tuple)
    return items


def _batch_group_norm(writer: BatchWriter, node: fx.Node) -> Value | None:
    if not is_shared(node, ("weight", "bias"), writer.is_batched):
        return None
    changes: dict[str, Any] = {"input": _lift_and_merge(writer, node, "input")}
    changes["N"] = read_arguments(node)["N"] * writer.factor
    return split_items(writer, writer.repeat(node, changes))


def _write_group_norm_backward(writer: BatchWriter, node: fx.Node) -> Items:
    names = ("grad_out", "input", "mean", "rstd")
    changes: dict[str, Any] = {name: _lift_and_merge(writer, node, name) for name in names}
    changes["N"] = read_arguments(node)["N"] * writer.factor
    return _split_first(writer, writer.repeat(node, changes))


def _batch_batch_norm(writer: BatchWriter, node: fx.Node) -> Value | None:
    """With given statistics; with those of the micro-batch itself there is no common form."""
    others = tuple(name for name in find_tensors(node) if name != "input")
    if read_arguments(node).get("training", False) or not is_shared(node, others, writer.is_batched):
        return None
    result = writer.repeat(node, {"input": _lift_and_merge(writer, node, "input")})
    items = writer.take_items(result)
    assert isinstance(items, tuple)
    # Nobody reads the micro-batch's own statistics where others are given.
    unread = [
        None if item is None else writer.fill([writer.factor, *read_shape(item)], 0.0, item.meta["val"].dtype)
        for item in items[1:]
    ]
    assert items[0] is not None
    return (writer.split(items[0]), *unread)


def _write_batch_norm_backward(writer: BatchWriter, node: fx.Node) -> Items:
    arguments = read_arguments(node)
    changes = {name: _lift_and_merge(writer, node, name) for name in ("grad_out", "input")}
    for name in ("save_mean", "save_invstd"):  # not read where statistics are given
        if writer.is_batched(arguments[name]):
            changes[name] = writer.call(aten.select.int, writer.read_full(arguments[name]), 0, 0)
    return _split_first(writer, writer.repeat(node, changes))


def _batch_embedding(writer: BatchWriter, node: fx.Node) -> Value | None:
    return writer.repeat(node) if is_shared(node, ("weight",), writer.is_batched) else None


def _batch_attention(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    if arguments["dropout_p"]:
        return None
    names = [name for name in find_tensors(node) if name != "attn_mask"]
    changes = {name: _lift_and_merge(writer, node, name) for name in names}
    mask = arguments["attn_mask"]
    if writer.is_batched(mask):
        aligned = writer.align(mask, 4)
        batch = read_shape(arguments["query"])[0]
        shape = [writer.factor, batch, *read_shape(aligned)[2:]]
        changes["attn_mask"] = writer.merge(writer.call(aten.expand.default, aligned, shape))
    elif mask is not None and len(read_shape(mask)) == 4 and read_shape(mask)[0] > 1:
        changes["attn_mask"] = writer.merge(writer.lift(mask))
    return split_items(writer, writer.repeat(node, changes))


def _lift_and_merge(writer: BatchWriter, node: fx.Node, name: str) -> fx.Node:
    return writer.merge(writer.lift(read_arguments(node)[name]))


def _split_first(writer: BatchWriter, result: fx.Node) -> Items:
    items = writer.take_items(result)
    assert isinstance(items, tuple)
    first = items[0]
    return (None if first is None else writer.split(first), *items[1:])


LAYERS: dict[Any, Any] = {
    aten.convolution.default: _batch_convolution,
    aten.native_layer_norm.default: _batch_layer_norm,
    aten.native_group_norm.default: _batch_group_norm,
    aten.native_batch_norm.default: _batch_batch_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_batch_norm,
    aten.embedding.default: _batch_embedding,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _batch_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _batch_attention,
}

PARTIAL: dict[Any, Partial] = {
    aten.convolution_backward.default: Partial(_write_convolution_backward, ("weight",)),
    aten.native_layer_norm_backward.default: Partial(_write_layer_norm_backward, ("weight", "bias")),
    aten.native_group_norm_backward.default: Partial(_write_group_norm_backward, ("weight",)),
    aten.native_batch_norm_backward.default: Partial(
        _write_batch_norm_backward, ("weight", "running_mean", "running_var")
    ),
}


PARTIAL |= {
    target: Partial(write_layer_backward, ("weight_input", "weight_hidden"), 3 if "lstm" in str(target) else 2)
    for target in RECURRENT_BACKWARD
}


def find_partial(node: fx.Node, is_batched: Callable[[Any], bool]) -> Partial | None:
    """How to write a backward operator of a layer once for all micro-batches, if that can be done here."""
    rule = PARTIAL.get(node.target)
    if rule is None or not is_shared(node, rule.shared, is_batched):
        return None
    trains = node.target is aten.native_batch_norm_backward.default and read_arguments(node)["train"]
    return None if trains else rule
