"""Weights of recurrent layers of inference in the order in which oneDNN reads them.

In: a draft of an inference program, ready to be generated, and the device memory. Out: the same draft, in which LSTM
layers have packed copies of their weights. Otherwise oneDNN rearranges them in every call, which is a tenth of the time
of a layer with few samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import fx

from openipu.graph import WRITES_PARAMETER, InputKind
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN, Tensors, infer_layer
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


def pack_recurrent(draft: Draft, memory: DeviceMemory) -> None:
    """Let LSTM layers whose weights nothing writes keep them packed."""
    if has_onednn():
        replace_layers(draft, lambda layer: PackedLayer(memory, layer).apply, "packed_layer")


def find_held_layers(draft: Draft) -> dict[fx.Node, HeldLayer]:
    """LSTM layers of inference whose weights nothing writes."""
    written = {entry.name for entry in draft.outputs if entry.kind in WRITES_PARAMETER}
    weights = {
        entry.node: entry.name
        for entry in draft.inputs
        if entry.kind is InputKind.PARAMETER and entry.name not in written
    }
    found = {}
    for node in draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN):
        source, _, _, weight_input, weight_hidden, _, reverse, workspace_bytes = node.args
        if workspace_bytes or weight_input.name not in weights or weight_hidden.name not in weights:
            continue
        names = weights[weight_input.name], weights[weight_hidden.name]
        _, width = weight_hidden.meta["val"].shape
        reads_last = any(user.args[1] == 1 and user.users for user in node.users)
        found[node] = HeldLayer(names, reverse, tuple(source.meta["val"].shape), width, reads_last)
    return found


def replace_layers(draft: Draft, make: Callable[[HeldLayer], Callable[..., Tensors]], name: str) -> None:
    """Put what `make` gives in the place of such layers: a function of input, state, cell and bias."""
    replaced: set[fx.Node] = set()
    for node, layer in find_held_layers(draft).items():
        source, hidden, cell, weight_input, weight_hidden, bias, *_ = node.args
        with draft.graph.inserting_before(node):
            arguments = (source, hidden, cell, bias)
            result = draft.graph.create_node("call_function", make(layer), arguments, name=name)
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        draft.graph.erase_node(node)
        replaced |= {value for value in (weight_input, weight_hidden) if isinstance(value, fx.Node)}
    unread = {node.name: node for node in replaced if not node.users}
    draft.inputs = tuple(entry for entry in draft.inputs if entry.node not in unread)
    for node in unread.values():
        draft.graph.erase_node(node)
