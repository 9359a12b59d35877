"""Weights of inference in the order in which oneDNN reads them.

In: a draft of an inference program, ready to be generated, and the device memory. Out: a rule by which products with
large weights are oneDNN's, each with a copy of its weight that is packed once, and with the bias and the activation
that follow. PyTorch's own product rearranges its operands in every call: a tenth to a third of the time of
some hundred rows, and more of that of a few.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import torch
from torch import fx

from openipu.graph import InputKind
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import VIEWS, Match, Rule, Search, Writer, find_only_user, matched
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products.onednn_products import Product, has_onednn, read_product

aten = torch.ops.aten

_Key = tuple[str, bool, int]


class _Copy(Protocol):
    """A product with a copy of its weight."""

    @property
    def apply(self) -> Callable[..., torch.Tensor]: ...

    @property
    def copied_bytes(self) -> int: ...


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

    @property
    def copied_bytes(self) -> int:
        """Of the copy."""
        return 4 * self._memory.parameters[self._name].numel()

    def apply(self, rows: torch.Tensor, bias: torch.Tensor | None, activation: str, kind: str) -> torch.Tensor:
        """The product of these rows, with an activation of some kind."""
        if self._packed is None:
            self._packed = self._pack()
        if activation == "relu":  # oneDNN's makes zeros of what is not a number
            return torch.relu_(self._multiply(rows, self._packed, bias, "none", [], ""))
        found: torch.Tensor = self._multiply(rows, self._packed, bias, activation, [], kind)
        return found

    def _pack(self) -> torch.Tensor:
        weight = self._memory.parameters[self._name].float()
        plain = (weight.t() if self._transposed else weight).contiguous()
        if self._rows == 1:  # is multiplied by each row of the weight, which is quickest as it lies
            return plain
        packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(plain, self._rows)
        return packed


def make_rules(draft: Draft, memory: DeviceMemory) -> tuple[Rule, ...]:
    """Let oneDNN compute the products with large weights that nothing writes."""
    if not has_onednn():
        return ()
    return (use_copies("product with a packed weight", draft, read_product, partial(PackedProduct, memory)),)


def use_copies(
    name: str,
    draft: Draft,
    read: Callable[[fx.Node], Product | None],
    make: Callable[[str, bool, int], _Copy],
    *,
    activates: bool = True,
) -> Rule:
    """A rule for products with float32 weights that nothing writes, each with a copy of its weight, made for a name,
    whether it lies transposed, and a number of rows. `activates`: also with the activation behind the product."""
    held = draft.list_held(InputKind.PARAMETER)

    def find_key(node: fx.Node) -> _Key | None:
        product = read(node)
        if product is None or product.weight.name not in held:
            return None
        return held[product.weight.name].name, product.transposed, product.rows.meta["val"].shape[0]

    copies = _make_copies(map(find_key, draft.graph.nodes), make)

    def find(node: fx.Node) -> Match | None:
        product, key = read(node), find_key(node)
        if product is None or key not in copies:
            return None
        bias, taken = product.bias, list[fx.Node]()
        if bias is None and (found := _find_added(node)) is not None:
            added, bias = found
            taken.append(added)
        arguments: tuple[Any, ...] = (product.rows, bias)
        if activates:
            applied, activation = _find_activation(taken[-1] if taken else node)
            taken += [] if applied is None else [applied]
            arguments += activation
        return matched(node, *taken, copy=copies[key], arguments=arguments, bias=bias, taken=taken)

    return Rule(name, Search((aten.mm.default, aten.addmm.default), find), _multiply, shared=frozenset({"taken"}))


def _multiply(match: Match, writer: Writer) -> fx.Node:
    for node in match["taken"]:
        (operand,) = (value for value in node.args if value is not match["bias"])
        writer.replace(node, operand)
    return writer.call(match["copy"].apply, *match["arguments"])


def _make_copies(keys: Iterable[_Key | None], make: Callable[[str, bool, int], _Copy]) -> dict[_Key, _Copy]:
    """Copies of weights, until they take the host's share of memory."""
    left_bytes = thresholds.PACKED_SHARE_OF_HOST * _read_host_bytes()
    copies: dict[_Key, _Copy] = {}
    for key in dict.fromkeys(keys):
        if key is not None:
            copy = make(*key)
            left_bytes -= copy.copied_bytes
            if left_bytes < 0:
                break
            copies[key] = copy
    return copies


def _find_added(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The addition of a row to a product that is read by nothing else, and the row: oneDNN adds it on the way."""
    shaped, added = _find_next(node)
    if added is None or added.target is not aten.add.Tensor or added.kwargs or len(added.args) != 2:
        return None
    (row,) = [value for value in added.args if value is not shaped] or [None]
    width = node.meta["val"].shape[-1]
    if not isinstance(row, fx.Node) or row.op != "placeholder" or shaped.meta["val"].shape[-1] != width:
        return None
    value = row.meta["val"]
    return (added, row) if tuple(value.shape) == (width,) and value.dtype is torch.float32 else None


def _find_activation(node: fx.Node) -> tuple[fx.Node | None, tuple[str, str]]:
    """What is applied to a product that is read by nothing else, as oneDNN calls it: the same numbers, without a
    further way through memory."""
    _, applied = _find_next(node)
    if applied is not None and len(applied.args) == 1:
        if applied.target is aten.relu.default:
            return applied, ("relu", "")
        if applied.target is aten.gelu.default:
            return applied, ("gelu", str(applied.kwargs.get("approximate", "none")))
    return None, ("none", "")


def _find_next(node: fx.Node) -> tuple[fx.Node, fx.Node | None]:
    """The last view of a value that nobody reads otherwise, and what alone is computed from it."""
    shaped, reader = node, find_only_user(node)
    while reader is not None and reader.target in VIEWS:
        shaped, reader = reader, find_only_user(reader)
    return shaped, reader


def _read_host_bytes() -> int:
    """Nothing is packed on a system that does not say."""
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
