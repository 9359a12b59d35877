"""Convolutions of inference as oneDNN likes them: packed weights, channel beside channel, and what follows in one call.

In: a draft of an inference program, ready to be generated, and the device memory. Out: the same draft, in which
two-dimensional convolutions with weights that nothing writes are oneDNN's. A batch norm behind one is folded into its
weights, an addition and an activation are computed with it, and values between them stay channels last; whoever needs
rows of pixels gets a copy in that order. PyTorch's own call rearranges weights and data each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphInput, InputKind, OutputKind
from openipu.run.drafts.draft import Draft
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.passes.onednn_products import has_onednn
from openipu.run.passes.quick_kernels import pool_values

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
_NORMS = (aten._native_batch_norm_legit_no_training.default, aten.native_batch_norm.default)
_FEWEST_MULTIPLICATIONS = 1 << 18  # of a call: below, turning data costs more than it gains


@dataclass(frozen=True, eq=False)
class Norm:
    """A batch norm behind a convolution, by the names of what it reads."""

    scale: GraphInput | None
    shift: GraphInput | None
    mean: GraphInput
    variance: GraphInput
    epsilon: float

    @property
    def entries(self) -> tuple[GraphInput | None, ...]:
        return self.scale, self.shift, self.mean, self.variance


@dataclass(frozen=True, eq=False)
class Convolution:
    """One convolution and what is computed with it."""

    source: fx.Node
    weight: GraphInput
    bias: GraphInput | None
    strides: list[int]
    pads: list[int]
    dilations: list[int]
    groups: int
    last: fx.Node  # of the nodes that it stands for
    norm: Norm | None = None
    other: fx.Node | None = None  # is added to the result
    activation: str = "none"


class PackedConvolution:
    """The convolution with a packed copy of its weights, which follows newly loaded ones."""

    def __init__(self, memory: DeviceMemory, convolution: Convolution, shape: Sequence[int]) -> None:
        self._memory, self._plan, self._shape = memory, convolution, list(shape)
        operators = torch.ops.mkldnn._convolution_pointwise
        self._run, self._run_and_add = operators.default._op, operators.binary._op
        self._packed: tuple[torch.Tensor, torch.Tensor | None] | None = None  # until they are asked for
        memory.follow(self)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The result for these pixels, channels last."""
        if self._packed is None:
            self._packed = self._pack()
        plan, (weight, bias) = self._plan, self._packed
        window = (plan.pads, plan.strides, plan.dilations, plan.groups)
        source = x.contiguous(memory_format=_LAST)
        found: torch.Tensor
        if other is None:
            found = self._run(source, weight, bias, *window, plan.activation, [], "")
        else:
            added = other.contiguous(memory_format=_LAST)
            found = self._run_and_add(
                source, added, weight, bias, *window, "add", 1.0, _or_nothing(plan.activation), [], ""
            )
        return found

    def _pack(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        plan = self._plan
        weight, bias = self._read(plan.weight), self._read(plan.bias)
        assert weight is not None
        if plan.norm is not None:
            weight, bias = _fold(weight, bias, plan.norm.epsilon, [self._read(entry) for entry in plan.norm.entries])
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            weight.contiguous(), plan.pads, plan.strides, plan.dilations, plan.groups, self._shape
        )
        return packed, bias

    def _read(self, entry: GraphInput | None) -> torch.Tensor | None:
        if entry is None:
            return None
        held = self._memory.parameters if entry.kind is InputKind.PARAMETER else self._memory.buffers[0]
        return held[entry.name].float()  # a half weight is held as it is, and read wide


def _or_nothing(activation: str) -> str | None:
    return None if activation == "none" else activation


def _fold(
    weight: torch.Tensor, bias: torch.Tensor | None, epsilon: float, norm: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and bias with the norm inside, computed in double precision."""
    scale, shift, mean, variance = norm
    assert mean is not None
    assert variance is not None
    factor = torch.rsqrt(variance.double() + epsilon)
    factor = factor if scale is None else factor * scale.double()
    offset = -mean.double() if bias is None else bias.double() - mean.double()
    offset = offset * factor if shift is None else offset * factor + shift.double()
    return (weight.double() * factor.reshape(-1, 1, 1, 1)).to(weight.dtype), offset.to(weight.dtype)


def pack_convolutions(draft: Draft, memory: DeviceMemory) -> None:
    """Let oneDNN compute the convolutions whose weights nothing writes."""
    if not has_onednn() or len(memory.buffers) > 1:
        return
    held = _list_held(draft)
    turned: set[fx.Node] = set()  # values that lie channels last
    packed = False
    for node in list(draft.graph.nodes):
        if node._erased:
            continue
        found = _read_convolution(node, held)
        if found is not None:
            turned.add(_replace(draft, memory, _extend(found, held)))
            packed = True
    if packed:
        _keep_order(draft, turned)
        _remove_unread(draft)


def _list_held(draft: Draft) -> dict[str, GraphInput]:
    """Weights and buffers that a run only reads, by placeholder."""
    kinds = (InputKind.PARAMETER, InputKind.BUFFER)
    written = {entry.name for entry in draft.outputs if entry.kind in (OutputKind.PARAMETER, OutputKind.BUFFER)}
    return {
        entry.node: entry
        for entry in draft.inputs
        if entry.kind in kinds and entry.dtype is torch.float32 and entry.name not in written
    }


def _read_convolution(node: fx.Node, held: dict[str, GraphInput]) -> Convolution | None:
    if node.target is not aten.convolution.default or node.kwargs or len(node.args) != 9:
        return None
    source, weight, bias, strides, pads, dilations, transposed, _, groups = node.args
    value = node.meta.get("val")
    if transposed or not isinstance(source, fx.Node) or not isinstance(weight, fx.Node) or value is None:
        return None
    kernel, offset = held.get(weight.name), None
    if bias is not None:
        offset = held.get(bias.name) if isinstance(bias, fx.Node) else None
        if offset is None:
            return None
    if kernel is None or value.dim() != 4 or value.dtype is not torch.float32:
        return None
    if value.numel() * _count(kernel.shape[1:]) < _FEWEST_MULTIPLICATIONS:
        return None
    return Convolution(source, kernel, offset, _pair(strides), _pair(pads), _pair(dilations), groups, node)  # type: ignore[arg-type]


def _pair(sizes: Any) -> list[int]:
    """One number for each of the two dimensions."""
    return list(sizes) if len(sizes) == 2 else list(sizes) * 2


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _extend(found: Convolution, held: dict[str, GraphInput]) -> Convolution:
    """Take in what follows, as long as nobody else reads the value between."""
    found = _take_norm(found, held)
    user = _find_only_user(found.last)
    if user is not None and user.target is aten.add.Tensor and not user.kwargs and len(user.args) == 2:
        others = [value for value in user.args if value is not found.last]
        shape = found.last.meta["val"].shape
        if len(others) == 1 and isinstance(others[0], fx.Node) and others[0].meta["val"].shape == shape:
            found = replace(found, other=others[0], last=user)
            user = _find_only_user(user)
    if user is not None and user.target in _ACTIVATIONS and len(user.args) == 1:
        return replace(found, activation=_ACTIVATIONS[user.target], last=user)
    return replace(found, activation="relu") if user is not None and _pulls_relu(user) else found


def _pulls_relu(pool: fx.Node) -> bool:
    """A relu behind a pool of largest values gives the same in front of it, where it costs nothing: it falls away."""
    values = _find_only_user(pool)
    if pool.target is not aten.max_pool2d_with_indices.default or values is None or values.target is not getitem:
        return False
    relu = _find_only_user(values)
    if values.args[1] != 0 or relu is None or relu.target is not aten.relu.default:
        return False
    relu.replace_all_uses_with(values)
    pool.graph.erase_node(relu)
    return True


def _take_norm(found: Convolution, held: dict[str, GraphInput]) -> Convolution:
    user = _find_only_user(found.last)
    if user is None or user.target not in _NORMS or user.kwargs or user.args[0] is not found.last:
        return found
    taken = _find_only_user(user)
    if taken is None or taken.target is not getitem or taken.args[1] != 0:
        return found
    *arguments, epsilon = user.args[1:]
    if user.target is aten.native_batch_norm.default and arguments[4]:  # in training
        return found
    entries: list[GraphInput | None] = []
    for value in arguments[:4]:
        entry = held.get(value.name) if isinstance(value, fx.Node) else None
        if value is not None and entry is None:
            return found
        entries.append(entry)
    scale, shift, mean, variance = entries
    if mean is None or variance is None:
        return found
    return replace(found, norm=Norm(scale, shift, mean, variance, float(epsilon)), last=taken)  # type: ignore[arg-type]


def _find_only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _replace(draft: Draft, memory: DeviceMemory, plan: Convolution) -> fx.Node:
    """The packed call in the place of the last node that it stands for; the others fall away when nobody reads them."""
    kernel = PackedConvolution(memory, plan, plan.source.meta["val"].shape)
    inputs = (plan.source,) if plan.other is None else (plan.source, plan.other)
    with draft.graph.inserting_before(plan.last):
        result = draft.graph.create_node("call_function", kernel.apply, inputs, name="packed_convolution")
    result.meta = dict(plan.last.meta)
    plan.last.replace_all_uses_with(result)
    _erase_unread(draft, plan.last)
    return result


def _erase_unread(draft: Draft, node: fx.Node) -> None:
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if found.op == "call_function" and not found.users and not found._erased:
            sources = list(found.all_input_nodes)
            draft.graph.erase_node(found)
            waiting.extend(sources)


def _keep_order(draft: Draft, turned: set[fx.Node]) -> None:
    """Follow values that lie channels last through ops that keep it so; copy them in front of any other."""
    copies: dict[fx.Node, fx.Node] = {}
    for node in list(draft.graph.nodes):
        inputs = [source for source in node.all_input_nodes if source in turned]
        if not inputs or node in turned:
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


def _remove_unread(draft: Draft) -> None:
    """Take out placeholders of weights that are read in their packed form alone."""
    unread = {node.name: node for node in draft.graph.find_nodes(op="placeholder") if not node.users}
    kinds = (InputKind.PARAMETER, InputKind.BUFFER)
    dropped = {entry.node for entry in draft.inputs if entry.kind in kinds and entry.node in unread}
    draft.inputs = tuple(entry for entry in draft.inputs if entry.node not in dropped)
    for name in dropped:
        draft.graph.erase_node(unread[name])
