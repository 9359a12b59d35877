"""Weights of recurrent layers of inference in the order in which oneDNN reads them.

In: a draft of an inference program, ready to be generated, and the device memory. Out: a rule by which LSTM layers
have packed copies of their weights. Otherwise oneDNN rearranges them in every call, which is a tenth of the time
of a layer with few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import fx

from openipu.graph import GraphInput, InputKind
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN, Tensors, infer_layer
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products.onednn_products import has_onednn


@dataclass(frozen=True)
class HeldLayer:
    """An LSTM layer in one direction whose weights a run only reads."""

    names: tuple[str, str]  # of the weights of the inputs, and of the state
    reverse: bool
    shape: tuple[int, ...]  # of the inputs: steps, samples, features
    width: int
    reads_last: bool = True  # whether anything reads the last state, which is also among those of all steps

    @property
    def multiplications(self) -> int:
        """Of one call."""
        steps, samples, features = self.shape
        return 4 * steps * samples * self.width * (features + self.width)


class _Layer(Protocol):
    """Computes a layer from its input, state, cell and bias."""

    def apply(
        self, source: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, bias: torch.Tensor | None
    ) -> Tensors: ...


class PackedLayer:
    """One LSTM layer with packed copies of its weights, which follow newly loaded ones."""

    def __init__(self, memory: DeviceMemory, layer: HeldLayer) -> None:
        self._memory, self._layer = memory, layer
        self._packed: list[torch.Tensor] | None = None  # until they are asked for
        memory.follow(self, layer.names)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._packed = None

    def apply(
        self, source: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, bias: torch.Tensor | None
    ) -> Tensors:
        """Output of all steps, last state, last cell."""
        if self._packed is None:
            self._packed = self._pack()
        return infer_layer(source, hidden, cell, self._packed[0], self._packed[1], bias, self._layer.reverse)

    def _pack(self) -> list[torch.Tensor]:
        layer = self._layer
        weights = [self._memory.parameters[name].float().contiguous() for name in layer.names]
        packed: list[torch.Tensor] = torch.ops.mkldnn._reorder_mkldnn_rnn_layer_weight(
            *weights, layer.width, layer.reverse, True, False, list(layer.shape)
        )
        return packed


def make_rules(draft: Draft, memory: DeviceMemory) -> tuple[Rule, ...]:
    """Let LSTM layers whose weights nothing writes keep them packed."""
    return (replace_layers("packed LSTM layer", draft, partial(PackedLayer, memory)),) if has_onednn() else ()


def read_layer(node: fx.Node, held: Mapping[str, GraphInput]) -> HeldLayer | None:
    """An LSTM layer of inference whose weights nothing writes."""
    if node.target is not LSTM_ONEDNN:
        return None
    operands: tuple[Any, ...] = node.args
    source, _, _, weight_input, weight_hidden, _, reverse, workspace_bytes = operands
    if workspace_bytes or weight_input.name not in held or weight_hidden.name not in held:
        return None
    names = held[weight_input.name].name, held[weight_hidden.name].name
    reads_last = any(user.args[1] == 1 and user.users for user in node.users)
    return HeldLayer(names, reverse, tuple(source.meta["val"].shape), weight_hidden.meta["val"].shape[1], reads_last)


def replace_layers(name: str, draft: Draft, make: Callable[[HeldLayer], _Layer]) -> Rule:
    """A rule that puts what `make` gives in the place of such layers."""
    held = draft.list_held(InputKind.PARAMETER)

    def find(node: fx.Node) -> Match | None:
        layer = read_layer(node, held)
        return None if layer is None else matched(node, layer=layer)

    def call(match: Match, writer: Writer) -> fx.Node:
        source, hidden, cell, _, _, bias, *_ = match.root.args
        return writer.call(make(match["layer"]).apply, source, hidden, cell, bias)

    return Rule(name, Search((LSTM_ONEDNN,), find), call)
