"""Weights of inference in the order in which oneDNN reads them.

In: a draft of an inference program, ready to be generated, and the device memory. Out: the same draft, in which
products with large weights are oneDNN's, each with a copy of its weight that is packed once, and with the bias and the
activation that follow. PyTorch's own product rearranges its operands in every call: a tenth to a third of the time of
some hundred rows, and more of that of a few.
"""

from __future__ import annotations

import os

import torch
from torch import fx

from openipu.graph import WRITES_PARAMETER, GraphInput, InputKind
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products.onednn_products import has_onednn, is_transposed, read_product

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default)
_NO_ACTIVATION = ("none", "")


class PackedProduct:
    """`rows @ weight.T + bias` with a packed copy of a weight, which follows newly loaded weights."""

    def __init__(self, memory: DeviceMemory, name: str, transposed: bool, rows: int) -> None:
        self._memory, self._name, self._transposed, self._rows = memory, name, transposed, rows
        self._multiply = torch.ops.mkldnn._linear_pointwise.default._op
        self._packed: torch.Tensor | None = None  # until it is asked for
        memory.follow(self, [name])

    def refresh(self) -> None:
        """Forget the old weight."""
        self._packed = None

    def apply(self, rows: torch.Tensor, bias: torch.Tensor | None, activation: str, kind: str) -> torch.Tensor:
        """The product of these rows, with an activation of some kind."""
        if self._packed is None:
            self._packed = self._pack()
        found: torch.Tensor = self._multiply(rows, self._packed, bias, activation, [], kind)
        return found

    def _pack(self) -> torch.Tensor:
        weight = self._memory.parameters[self._name].float()
        plain = (weight.t() if self._transposed else weight).contiguous()
        if self._rows == 1:  # is multiplied by each row of the weight, which is quickest as it lies
            return plain
        packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(plain, self._rows)
        return packed


def pack_weights(draft: Draft, memory: DeviceMemory) -> None:
    """Let oneDNN compute the products with large weights that nothing writes."""
    if not has_onednn():
        return
    weights = list_held_weights(draft)
    left_bytes = count_host_share()
    packed: dict[tuple[str, bool, int], PackedProduct] = {}
    for node in list(draft.graph.nodes):
        product = read_product(node)
        entry = None if product is None else weights.get(product.weight.name)
        if product is None or entry is None:
            continue
        key = (entry.name, product.transposed, product.rows.meta["val"].shape[0])
        if key not in packed:
            left_bytes -= entry.shape_bytes
            if left_bytes < 0:
                break
            packed[key] = PackedProduct(memory, *key)
        bias = take_bias(draft, node) if product.bias is None else product.bias
        with draft.graph.inserting_before(node):
            arguments = (product.rows, bias, *_take_activation(draft, node))
            result = draft.graph.create_node("call_function", packed[key].apply, arguments, name="packed_product")
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        draft.graph.erase_node(node)
    if packed:
        remove_unread_weights(draft)


def list_held_weights(draft: Draft) -> dict[str, GraphInput]:
    """Parameters that a run reads in float32 and nothing writes, by placeholder."""
    written = {entry.name for entry in draft.outputs if entry.kind in WRITES_PARAMETER}
    return {
        entry.node: entry
        for entry in draft.inputs
        if entry.kind is InputKind.PARAMETER and entry.dtype is torch.float32 and entry.name not in written
    }


def count_host_share() -> float:
    """Bytes that copies of weights may take."""
    return thresholds.PACKED_SHARE_OF_HOST * _read_host_bytes()


def take_bias(draft: Draft, node: fx.Node) -> fx.Node | None:
    """A row that is added to the product, and to nothing between: oneDNN adds it on the way. The addition goes."""
    shaped, added = _find_next(node)
    if added is None or added.target is not aten.add.Tensor or added.kwargs or len(added.args) != 2:
        return None
    (row,) = [value for value in added.args if value is not shaped] or [None]
    width = node.meta["val"].shape[-1]
    if not isinstance(row, fx.Node) or row.op != "placeholder" or shaped.meta["val"].shape[-1] != width:
        return None
    value = row.meta["val"]
    if tuple(value.shape) != (width,) or value.dtype is not torch.float32:
        return None
    added.replace_all_uses_with(shaped)
    draft.graph.erase_node(added)
    return row


def _take_activation(draft: Draft, node: fx.Node) -> tuple[str, str]:
    """What is applied to the product and to nothing between, as oneDNN calls it: the same numbers, without a further
    way through memory. The operator goes."""
    shaped, applied = _find_next(node)
    if applied is None or len(applied.args) != 1:
        return _NO_ACTIVATION
    if applied.target is aten.relu.default:
        found = ("relu", "")
    elif applied.target is aten.gelu.default:
        found = ("gelu", str(applied.kwargs.get("approximate", "none")))
    else:
        return _NO_ACTIVATION
    applied.replace_all_uses_with(shaped)
    draft.graph.erase_node(applied)
    return found


def _find_next(node: fx.Node) -> tuple[fx.Node, fx.Node | None]:
    """The last view of a value that nobody reads otherwise, and what alone is computed from it."""
    shaped = node
    while len(shaped.users) == 1 and next(iter(shaped.users)).target in _VIEWS:
        shaped = next(iter(shaped.users))
    return shaped, next(iter(shaped.users)) if len(shaped.users) == 1 else None


def remove_unread_weights(draft: Draft) -> None:
    """Take out views and placeholders of weights that are read in their packed form alone."""
    for node in reversed(list(draft.graph.nodes)):
        if node.op == "call_function" and not node.users and is_transposed(node):
            draft.graph.erase_node(node)
    unread = {node.name: node for node in draft.graph.find_nodes(op="placeholder") if not node.users}
    dropped = {entry.node for entry in draft.inputs if entry.kind is InputKind.PARAMETER and entry.node in unread}
    draft.inputs = tuple(entry for entry in draft.inputs if entry.node not in dropped)
    for name in dropped:
        draft.graph.erase_node(unread[name])


def _read_host_bytes() -> int:
    """Nothing is packed on a system that does not say."""
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
