"""Convolutions of inference as oneDNN likes them: packed weights, channel beside channel, and what follows in one call.

In: a draft of an inference program, ready to be generated, and the device memory. Out: the same draft, in which
two-dimensional convolutions with weights that nothing writes are oneDNN's. A batch norm behind one is folded into its
weights, an addition and an activation are computed with it, and values between them stay channels last; whoever needs
rows of pixels gets a copy in that order. PyTorch's own call rearranges weights and data each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import getitem
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphInput
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.operators import pool_values
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, find_only_user, matched
from openipu.run.kernels.library import LoadedKernel
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.images.convolution_patterns import (
    Convolution,
    list_held,
    read_convolution,
    read_weights,
    take_norm,
)
from openipu.run.rewrites.images.winograd import WinogradConvolution
from openipu.run.rewrites.products.onednn_products import has_onednn

aten = torch.ops.aten

_LAST = torch.channels_last
_ACTIVATIONS = {
    aten.relu.default: "relu",
    aten.sigmoid.default: "sigmoid",
    aten.silu.default: "swish",
    aten.hardswish.default: "hardswish",
}
# Results keep the order of memory of their one tensor.
_KEEPS_ORDER = frozenset(
    {
        *_ACTIVATIONS,
        *(aten.hardtanh.default, aten.clamp.default, aten.leaky_relu.default, aten.elu.default, aten.tanh.default),
        *(aten.max_pool2d_with_indices.default, aten.avg_pool2d.default, aten.neg.default, aten.abs.default),
        *(aten.hardsigmoid.default, aten.gelu.default, aten.exp.default),
    }
)
_PAIRS = frozenset({aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor, aten.maximum.default, aten.minimum.default})
_PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default})


class PackedConvolution:
    """The convolution with a packed copy of its weights, which follows newly loaded ones."""

    def __init__(self, memory: DeviceMemory, convolution: Convolution, shape: Sequence[int]) -> None:
        self._memory, self._plan, self._shape = memory, convolution, list(shape)
        operators = torch.ops.mkldnn._convolution_pointwise
        self._run, self._run_and_add = operators.default._op, operators.binary._op
        self._add_in_place = torch.ops.mkldnn._convolution_pointwise_.binary._op
        self.overwrites = False  # what is added is read by nobody afterwards: the result takes its memory
        self._packed: tuple[torch.Tensor, torch.Tensor | None] | None = None  # until they are asked for
        memory.follow(self, convolution.names)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The result for these pixels, channels last."""
        if self._packed is None:
            self._packed = self._pack()
        plan, (weight, bias) = self._plan, self._packed
        window = (plan.pads, plan.strides, plan.dilations, plan.groups)
        rectifies = plan.activation == "relu"  # by PyTorch's operator: oneDNN's makes zeros of what is not a number
        source = x.contiguous(memory_format=_LAST)
        found: torch.Tensor
        if other is None:
            activation = "none" if rectifies else plan.activation
            found = self._run(source, weight, bias, *window, activation, [], "")
        else:
            added = other.contiguous(memory_format=_LAST)
            behind: tuple[Any, ...] = ("add", 1.0, None, [], "")
            if self.overwrites:
                found = self._add_in_place(added, source, weight, bias, *window, *behind)
            else:
                found = self._run_and_add(source, added, weight, bias, *window, *behind)
        return torch.relu_(found) if rectifies else found

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        plan = self._plan
        weight, bias = read_weights(self._memory, plan)
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            weight.contiguous(), plan.pads, plan.strides, plan.dilations, plan.groups, self._shape
        )
        return packed, bias


def pack_convolutions(draft: Draft, memory: DeviceMemory, winograd: LoadedKernel | None = None) -> None:
    """Let oneDNN compute the convolutions whose weights nothing writes, or a kernel those that it takes."""
    if has_onednn() and len(memory.buffers) <= 1 and apply_rules(draft.graph, make_rules(draft, memory, winograd)):
        _keep_order(draft)
        _add_in_place(draft)


def make_rules(draft: Draft, memory: DeviceMemory, winograd: LoadedKernel | None) -> tuple[Rule, ...]:
    """Packed convolutions, with what follows. Their results lie channels last, for whoever reads them."""
    held = list_held(draft)

    def find(node: fx.Node) -> Match | None:
        found = read_convolution(node, held)
        if found is None or found.multiplications < thresholds.PACKED_CONVOLUTION_WORK:
            return None
        plan = _extend(found, held)
        return matched(plan.last, *plan.nodes[:-1], plan=plan)

    def pack(match: Match, writer: Writer) -> fx.Node:
        plan: Convolution = match["plan"]
        kernel: PackedConvolution | WinogradConvolution
        if winograd is not None and WinogradConvolution.accepts(plan):
            kernel = WinogradConvolution(memory, plan, winograd)
        else:
            kernel = PackedConvolution(memory, plan, plan.source.meta["val"].shape)
        return writer.call(kernel.apply, plan.source, *(() if plan.other is None else (plan.other,)))

    return (Rule("packed convolution", Search((aten.convolution.default,), find), pack),)


def _extend(found: Convolution, held: Mapping[str, GraphInput]) -> Convolution:
    """Take in what follows, as long as nobody else reads the value between."""
    found = take_norm(found, held)
    user = find_only_user(found.last)
    if user is not None and user.target is aten.add.Tensor and not user.kwargs and len(user.args) == 2:
        others = [value for value in user.args if value is not found.last]
        if len(others) == 1 and isinstance(others[0], fx.Node) and _is_alike(others[0], found.last):
            found = replace(found, other=others[0], nodes=(*found.nodes, user))
            user = find_only_user(user)
    # Behind an addition oneDNN has no other one.
    known = _ACTIVATIONS if found.other is None else {aten.relu.default: "relu"}
    if user is not None and user.target in known and len(user.args) == 1:
        return replace(found, activation=_ACTIVATIONS[user.target], nodes=(*found.nodes, user))
    return found


def _is_alike(node: fx.Node, other: fx.Node) -> bool:
    value, expected = node.meta["val"], other.meta["val"]
    return bool(value.shape == expected.shape and value.dtype is expected.dtype)


def _keep_order(draft: Draft) -> None:
    """Follow values that lie channels last through ops that keep it so; copy them in front of any other."""
    turned = {node for node in draft.graph.nodes if _find_kernel(node) is not None}
    copies: dict[fx.Node, fx.Node] = {}
    for node in list(draft.graph.nodes):
        inputs = [source for source in node.all_input_nodes if source in turned]
        if not inputs or node in turned or node.target is _turn_back:
            continue
        if _stays_turned(node, turned):
            turned.add(node)
            if node.target is aten.max_pool2d_with_indices.default and _reads_values_alone(node):
                node.target = pool_values
            continue
        for source in inputs:
            if source not in copies:
                with draft.graph.inserting_after(source):
                    copies[source] = draft.graph.call_function(_turn_back, (source,))
                copies[source].meta = dict(source.meta)
            node.replace_input_with(source, copies[source])


def _add_in_place(draft: Draft) -> None:
    """Let a result take the memory of what is added to it, where that was made by one of these convolutions and is read
    by them alone, here for the last time: it is in the cache, and nothing new has to be brought there."""
    places = {node: place for place, node in enumerate(draft.graph.nodes)}
    returned = set(draft.results)
    for node, place in places.items():
        kernel = _find_kernel(node)
        if kernel is None or len(node.args) < 2:
            continue
        source, other = node.args
        if not isinstance(other, fx.Node) or other is source or other in returned or _find_kernel(other) is None:
            continue
        kernel.overwrites = all(_find_kernel(user) is not None and places[user] <= place for user in other.users)


def _find_kernel(node: fx.Node) -> PackedConvolution | WinogradConvolution | None:
    """The convolution that a node of this pass runs."""
    kernel = getattr(node.target, "__self__", None)
    return kernel if isinstance(kernel, PackedConvolution | WinogradConvolution) else None


def _stays_turned(node: fx.Node, turned: set[fx.Node]) -> bool:
    if node.target is aten.max_pool2d_with_indices.default and not _reads_values_alone(node):
        return False  # whoever reads places counts them in rows of pixels
    if node.target in _KEEPS_ORDER:
        return node.args[0] in turned and not node.kwargs
    if node.target is getitem:
        return node.args[0] in turned
    if node.target in _PAIRS:
        operands = [value for value in node.args if isinstance(value, fx.Node)]
        shapes = {tuple(value.meta["val"].shape) for value in operands}
        return len(operands) == 2 and len(shapes) == 1 and turned.issuperset(operands)
    return False


def _reads_values_alone(pool: fx.Node) -> bool:
    return all(user.target is getitem and user.args[1] == 0 for user in pool.users)


def _turn_back(x: torch.Tensor) -> torch.Tensor:
    """The value as rows of pixels, in memory of its own."""
    return x.contiguous()


def is_worth_winograd(draft: Draft) -> bool:
    """Whether the kernel for 3 x 3 filters is worth being compiled: for an eighth of all multiplications at least."""
    if not has_onednn():
        return False
    held = list_held(draft)
    work = taken = 0
    for node in draft.graph.nodes:
        plan = read_convolution(node, held)
        work += _count_product(node) if plan is None else plan.multiplications
        taken += plan.multiplications if plan is not None and WinogradConvolution.accepts(plan) else 0
    return taken >= max(thresholds.WINOGRAD_COMPILATION_WORK, work / 8)


def _count_product(node: fx.Node) -> int:
    """Multiplications of a product of matrices."""
    if node.target not in _PRODUCTS:
        return 0
    left: Any = node.args[-2]
    return int(node.meta["val"].numel() * left.meta["val"].shape[-1])
