"""LSTM layers through oneDNN, the library that PyTorch itself uses for them on CPUs.

In: a draft. Out: the same draft, in which a pair of `openipu::lstm_layer` and its gradient hands oneDNN's own workspace
from one to the other, in place of the gates and cells that an IPU keeps. A layer whose gates somebody else reads stays
as it is; so do all layers where oneDNN is missing. oneDNN has float32 training alone: half operands are widened, and
results rounded.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import torch
from torch import fx

from openipu.graph import RECURRENT_OPS
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN, LSTM_ONEDNN_BACKWARD, run_layer

_FORWARD, _BACKWARD = RECURRENT_OPS["lstm_layer"], RECURRENT_OPS["lstm_layer_backward"]
_GATES, _CELLS = 3, 4  # results of forward that only backward should read


def use_onednn(draft: Draft) -> None:
    """Give the LSTM layers of a draft to oneDNN."""
    for node in draft.graph.find_nodes(op="call_function", target=_FORWARD):
        parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        readers = _find_gradients(parts)
        if readers is None:
            continue
        (time, batch, features), (_, width) = (argument.meta["val"].shape for argument in node.all_input_nodes[:2])
        workspace_bytes = measure_workspace(time, batch, features, width) if readers else 0
        if workspace_bytes is not None and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            _replace(draft.graph, node, parts, readers, workspace_bytes)


def _find_gradients(parts: dict[Any, fx.Node]) -> list[fx.Node] | None:
    """The gradients of the layer; None where gates or cells are read by anything else."""
    saved = [parts[index] for index in (_GATES, _CELLS) if index in parts]
    readers = dict.fromkeys(user for part in saved for user in part.users)
    expected = [parts.get(index) for index in (0, _GATES, _CELLS)]
    for reader in readers:
        if reader.target is not _BACKWARD or list(reader.args[8:11]) != expected:
            return None
    return list(readers)


def _replace(
    graph: fx.Graph, node: fx.Node, parts: dict[Any, fx.Node], readers: list[fx.Node], workspace_bytes: int
) -> None:
    *operands, reverse, _ = node.args
    with graph.inserting_before(node):
        layer = graph.call_function(LSTM_ONEDNN, (*operands, reverse, workspace_bytes))
    values = list(node.meta["val"])[:3]
    workspace = values[0].new_empty(workspace_bytes, dtype=torch.uint8)
    layer.meta = {**node.meta, "val": (*values, workspace)}
    taken: list[fx.Node] = []
    with graph.inserting_before(node):
        for index, value in enumerate(layer.meta["val"]):
            part = graph.call_function(operator.getitem, (layer, index))
            part.meta = {**node.meta, "val": value}
            taken.append(part)
    for reader in readers:
        *before, _, _, _, reverse, _ = reader.args
        reader.target = LSTM_ONEDNN_BACKWARD
        reader.args = (*before, *taken, reverse)
        # oneDNN makes the gradient of the input whether it is wanted or not.
        source = node.all_input_nodes[0].meta["val"]
        reader.meta = {**reader.meta, "val": (source.new_empty(source.shape), *reader.meta["val"][1:])}
    for index, part in parts.items():
        if index not in (_GATES, _CELLS):
            part.replace_all_uses_with(taken[index])
        graph.erase_node(part)
    graph.erase_node(node)
    for part in taken:
        if not part.users:
            graph.erase_node(part)


@lru_cache(maxsize=256)
def measure_workspace(time: int, batch: int, features: int, width: int) -> int | None:
    """Bytes that oneDNN keeps for backward on this machine, found by running the layer; None where it cannot."""
    state = torch.zeros(batch, width, dtype=torch.float32)
    weights = state.new_zeros(4 * width, features), state.new_zeros(4 * width, width)
    try:
        *_, workspace = run_layer(state.new_zeros(time, batch, features), state, state, *weights, None, False, 1)
    except RuntimeError:
        return None
    return workspace.numel() if isinstance(workspace, torch.Tensor) else None
