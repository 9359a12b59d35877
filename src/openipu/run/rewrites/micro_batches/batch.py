"""Several micro-batches in one execution.

In: a draft of one micro-batch, and how many to batch. Out: a draft that takes the inputs of F micro-batches as they lie
in a call, behind one another on dimension 0, and gives their outputs in the same way. Each gradient is the sum over the
micro-batches. Everything that belongs to one micro-batch stays so: losses, statistics, random numbers. Results differ
from those of a loop by the order of floating-point sums alone.
"""

from __future__ import annotations

import dataclasses
import operator
from dataclasses import dataclass

import torch
from torch import fx

from openipu.errors import InternalError
from openipu.graph import GraphInput, GraphOutput, InputKind, OutputKind
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.micro_batches.checks import NotBatchable, check_draft, refuse
from openipu.run.rewrites.micro_batches.demands import Demands, find_demands
from openipu.run.rewrites.micro_batches.rules.layers import find_partial
from openipu.run.rewrites.micro_batches.rules.sources import is_constant, write_constant
from openipu.run.rewrites.micro_batches.rules.table import find_rule
from openipu.run.rewrites.micro_batches.rules.unrolling import unroll
from openipu.run.rewrites.micro_batches.writer import BatchWriter, read_shape
from openipu.run.rewrites.simplify import remove_dead_code, share_views

aten = torch.ops.aten

# Operators without a batched form, written F times. With more of them a loop is as quick, and much smaller.
_MOST_UNROLLED = 8


@dataclass(frozen=True, eq=False)
class Batched:
    """A draft that runs `factor` micro-batches."""

    draft: Draft
    factor: int


def batch_draft(draft: Draft, factor: int) -> Batched | NotBatchable:
    """Batch micro-batches, or say why that is not the same maths. The draft itself stays as it is."""
    if factor < 1:
        raise InternalError(f"A draft cannot be batched {factor} times. Please report it.")
    refused = check_draft(draft)
    if refused is not None:
        return refused
    demands = find_demands(draft)
    writer = BatchWriter(factor, demands.batched)
    inputs = _write_placeholders(writer, draft)
    unrolled: list[fx.Node] = []
    for node in draft.graph.nodes:
        if node.op != "call_function":
            continue
        writer.begin(node)
        try:
            _write_node(writer, node, demands, unrolled)
        except (RuntimeError, NotImplementedError, IndexError) as error:
            return refuse(node, f"cannot be batched: {(str(error).splitlines() or [''])[0]}")
        if len(unrolled) > _MOST_UNROLLED:
            return refuse(node, f"and {_MOST_UNROLLED} more operators have no form for several micro-batches")
    results, outputs = _write_results(writer, draft)
    writer.graph.output(tuple(results))
    batched = Draft(writer.graph, inputs, outputs, dict(draft.bound))
    share_views(batched)
    remove_dead_code(batched)
    return Batched(batched, factor)


def _write_placeholders(writer: BatchWriter, draft: Draft) -> tuple[GraphInput, ...]:
    entries = {entry.node: entry for entry in draft.inputs}
    changed: dict[str, GraphInput] = {}
    placed: list[tuple[fx.Node, fx.Node]] = []
    for node in draft.graph.find_nodes(op="placeholder"):
        value = _read_value(node, entries.get(node.name), draft)
        if writer.is_batched(node):
            value = _stretch(value, writer.factor)
            changed[node.name] = dataclasses.replace(entries[node.name], shape=tuple(value.shape))
        new = writer.place(node, value)
        placed.append((node, new))
    for node, new in placed:
        writer.begin(node)
        writer.set_full(node, new)
        if writer.is_batched(node) and entries[node.name].kind is InputKind.INPUT:
            if not new.meta["val"].is_contiguous() and not _has_batch_outside(new.meta["val"]):
                # How the batches of a call lie in memory is not known here: do not rely on it.
                new = writer.call(aten.clone.default, new, memory_format=torch.contiguous_format)
            writer.set_full(node, writer.split(new))
    return tuple(changed.get(entry.node, entry) for entry in draft.inputs)


def _read_value(node: fx.Node, entry: GraphInput | None, draft: Draft) -> torch.Tensor:
    value = node.meta.get("val", draft.bound.get(node.name))
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if entry is None:
        raise InternalError(f"Nothing is known of placeholder {node.name}. Please report it.")
    return torch.empty(entry.shape, dtype=entry.dtype, device="meta")


def _stretch(value: torch.Tensor, factor: int) -> torch.Tensor:
    """F micro-batches behind one another: [b, ...] becomes [F * b, ...], a seed becomes a vector."""
    shape = (factor,) if value.dim() == 0 else (factor * value.shape[0], *value.shape[1:])
    if value.is_contiguous():
        return torch.empty(shape, dtype=value.dtype, device="meta")
    stride = (max(value.stride(0), *(s * n for s, n in zip(value.stride()[1:], value.shape[1:], strict=True))),)
    if value.shape[0] > 1:
        stride = (value.stride(0),)
    return torch.empty_strided(shape, (*stride, *value.stride()[1:]), dtype=value.dtype, device="meta")


def _has_batch_outside(value: torch.Tensor) -> bool:
    return value.stride(0) >= max(value.stride())


def _write_node(writer: BatchWriter, node: fx.Node, demands: Demands, unrolled: list[fx.Node]) -> None:
    if node in demands.partial or node in demands.values:
        if node not in demands.batched:
            if is_constant(node):
                writer.set_full(node, write_constant(writer, node))
            else:
                writer.copy(node)
        elif node.target is operator.getitem:
            _write_item(writer, node)
        else:
            _write_batched(writer, node, demands, unrolled)
    if node in demands.totals:
        rule = demands.totals[node]
        if rule is not None:
            writer.set_total(node, rule.write(writer, node))
        else:
            writer.read_total(node)


def _write_item(writer: BatchWriter, node: fx.Node) -> None:
    source, index = node.args
    assert isinstance(source, fx.Node)
    assert isinstance(index, int)
    items = writer.read_items(source)
    assert isinstance(items, tuple)
    item = items[index]
    if item is None:
        raise NotImplementedError(f"result {index} is not there")
    writer.set_full(node, item)


def _write_batched(writer: BatchWriter, node: fx.Node, demands: Demands, unrolled: list[fx.Node]) -> None:
    partial = find_partial(node, demands.is_batched)
    needed = demands.items.get(node, set())
    if partial is not None:
        items = partial.write(writer, node)
        for user in node.users:
            index = user.args[1]
            assert isinstance(index, int)
            total = items[index]
            if index >= partial.each and user not in demands.totals and total is not None:
                writer.set_total(user, total)
        if all(index < partial.each for index in needed):
            writer.set_full(node, items)
            return
    rule = find_rule(node)
    value = rule(writer, node) if rule is not None else None
    if value is None:
        unrolled.append(node)
        value = unroll(writer, node)
    writer.set_full(node, value)


def _write_results(writer: BatchWriter, draft: Draft) -> tuple[list[fx.Node], tuple[GraphOutput, ...]]:
    results: list[fx.Node] = []
    outputs: list[GraphOutput] = []
    for node, entry in zip(draft.results, draft.outputs, strict=True):
        writer.begin(node)
        if entry.kind is OutputKind.GRADIENT:
            results.append(writer.read_total(node))
            outputs.append(entry)
            continue
        value = writer.lift(node)
        if not writer.is_batched(node):
            value = writer.call(aten.clone.default, value, memory_format=torch.contiguous_format)
        if len(read_shape(value)) > 1:
            value = writer.merge(value)
        results.append(value)
        outputs.append(dataclasses.replace(entry, shape=read_shape(value)))
    return results, tuple(outputs)
