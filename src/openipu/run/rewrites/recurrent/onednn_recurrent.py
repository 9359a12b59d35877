"""LSTM layers through oneDNN, the library that PyTorch itself uses for them on CPUs.

Out: a rule by which `openipu::lstm_layer` hands oneDNN's own workspace to its gradient, in place of the gates and cells
that an IPU keeps. A layer whose gates somebody else reads stays as it is; so do all layers where oneDNN is missing.
oneDNN has float32 training alone: half operands are widened, and results rounded.
"""

from __future__ import annotations

import operator
from functools import lru_cache

import torch
from torch import fx

from openipu.graph import RECURRENT_OPS
from openipu.run.drafts.onednn_lstm import LSTM_ONEDNN, LSTM_ONEDNN_BACKWARD, run_layer
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched

_FORWARD, _BACKWARD = RECURRENT_OPS["lstm_layer"], RECURRENT_OPS["lstm_layer_backward"]
_GATES, _CELLS = 3, 4  # results of forward that only backward should read


def make_rules() -> tuple[Rule, ...]:
    """Give LSTM layers, and their gradients, to oneDNN."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    return (
        Rule("LSTM layer by oneDNN", Search((_FORWARD,), _find), _use_onednn, shared=frozenset({"parts", "gradients"})),
    )


def _find(node: fx.Node) -> Match | None:
    """A layer, and its gradients: nothing else may read gates or cells."""
    parts = {user.args[1]: user for user in node.users}
    saved = [parts[index] for index in (_GATES, _CELLS) if index in parts]
    gradients = list(dict.fromkeys(user for part in saved for user in part.users))
    expected = [parts.get(index) for index in (0, _GATES, _CELLS)]
    if any(reader.target is not _BACKWARD or list(reader.args[8:11]) != expected for reader in gradients):
        return None
    (time, batch, features), (_, width) = (operand.meta["val"].shape for operand in node.all_input_nodes[:2])
    workspace_bytes = measure_workspace(time, batch, features, width) if gradients else 0
    if workspace_bytes is None:
        return None
    found = list(parts.values())
    return matched(node, *found, *gradients, parts=found, gradients=gradients, workspace_bytes=workspace_bytes)


def _use_onednn(match: Match, writer: Writer) -> None:
    node, workspace_bytes = match.root, match["workspace_bytes"]
    *operands, reverse, _ = node.args
    layer = writer.call(LSTM_ONEDNN, *operands, reverse, workspace_bytes)
    values = list(node.meta["val"])[:3]
    layer.meta["val"] = *values, values[0].new_empty(workspace_bytes, dtype=torch.uint8)
    taken: dict[int, fx.Node] = {}
    read = {part.args[1] for part in match["parts"] if part.users}
    for index, value in enumerate(layer.meta["val"]):
        if match["gradients"] or index in read:
            taken[index] = writer.call(operator.getitem, layer, index)
            taken[index].meta["val"] = value
    for gradient in match["gradients"]:
        *before, _, _, _, reverse, _ = gradient.args
        with writer.before(gradient):
            new = writer.call(LSTM_ONEDNN_BACKWARD, *before, *taken.values(), reverse, like=gradient)
        # oneDNN makes the gradient of the input whether it is wanted or not.
        source = node.all_input_nodes[0].meta["val"]
        new.meta["val"] = source.new_empty(source.shape), *gradient.meta["val"][1:]
        writer.replace(gradient, new)
    for part in match["parts"]:
        if part.users and part.args[1] not in (_GATES, _CELLS):
            writer.replace(part, taken[part.args[1]])


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
