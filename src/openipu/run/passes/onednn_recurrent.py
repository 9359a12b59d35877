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
from openipu.graph.library import define_operator
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

Tensors = tuple[torch.Tensor, ...]

_LSTM_MODE = 2  # as ATen numbers the kinds of recurrent layers
_FORWARD, _BACKWARD = RECURRENT_OPS["lstm_layer"], RECURRENT_OPS["lstm_layer_backward"]
_GATES, _CELLS = 3, 4  # results of forward that only backward should read
_OPERANDS = "Tensor input, Tensor hidden, Tensor cell, Tensor weight_input, Tensor weight_hidden"


def _run(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    workspace_bytes: int,
) -> Tensors:
    training = workspace_bytes > 0
    first = weight_input.new_zeros(weight_input.shape[0]) if bias is None else bias
    given = (source, weight_input, weight_hidden, first, torch.zeros_like(first), hidden, cell)
    operands = [_prepare(tensor) for tensor in given]
    # Without gradient mode the operator makes no workspace, whatever it is told of training.
    with torch.set_grad_enabled(training):
        *results, workspace = aten.mkldnn_rnn_layer.default(
            *operands, reverse, [], _LSTM_MODE, hidden.shape[-1], 1, True, False, False, training
        )
    results = [result.to(source.dtype) for result in results]
    return (*results, workspace if training else torch.empty(0, dtype=torch.uint8))


def _run_backward(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    grad_last_cell: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    last_hidden: torch.Tensor,
    last_cell: torch.Tensor,
    workspace: torch.Tensor,
    reverse: bool,
) -> Tensors:
    bias = weight_input.new_zeros(weight_input.shape[0])  # its value is in the gates already
    given = (source, weight_input, weight_hidden, bias, bias, hidden, cell, output, last_hidden, last_cell)
    operands = [_prepare(tensor) for tensor in given]
    gradients = [
        None if gradient is None else _prepare(gradient) for gradient in (grad_output, grad_last_hidden, grad_last_cell)
    ]
    of_input, of_weight_input, of_weight_hidden, of_bias, _, of_hidden, of_cell = (
        aten.mkldnn_rnn_layer_backward.default(
            *operands,
            *gradients,
            *(reverse, _LSTM_MODE, hidden.shape[-1], 1, True, True, False, [], False, workspace),
        )
    )
    found = (of_input, of_hidden, of_cell, of_weight_input, of_weight_hidden, of_bias)
    return tuple(gradient.to(source.dtype) for gradient in found)


def _prepare(tensor: torch.Tensor) -> torch.Tensor:
    """In float32 and contiguous, and nothing that autograd would follow while gradient mode is on."""
    return tensor.detach().to(torch.float32).contiguous()


def _shape(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    workspace_bytes: int,
) -> Tensors:
    output = source.new_empty((*source.shape[:2], hidden.shape[-1]))
    states = (hidden.new_empty(hidden.shape), cell.new_empty(cell.shape))
    return (output, *states, source.new_empty(workspace_bytes, dtype=torch.uint8))


def _shape_backward(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    grad_last_cell: torch.Tensor | None,
    *operands: Any,
) -> Tensors:
    *alike, weight_input = (operands[index] for index in (0, 1, 2, 3, 4, 3))
    return (*(tensor.new_empty(tensor.shape) for tensor in alike), weight_input.new_empty(weight_input.shape[0]))


define_operator(
    f"lstm_onednn({_OPERANDS}, Tensor? bias, bool reverse, int workspace_bytes) "
    "-> (Tensor output, Tensor last_hidden, Tensor last_cell, Tensor workspace)",
    meta=_shape,
    cpu=_run,
)
define_operator(
    f"lstm_onednn_backward(Tensor? grad_output, Tensor? grad_last_hidden, Tensor? grad_last_cell, {_OPERANDS}, "
    "Tensor output, Tensor last_hidden, Tensor last_cell, Tensor workspace, bool reverse) -> (Tensor grad_input, "
    "Tensor grad_hidden, Tensor grad_cell, Tensor grad_weight_input, Tensor grad_weight_hidden, Tensor grad_bias)",
    meta=_shape_backward,
    cpu=_run_backward,
)

LSTM_ONEDNN = torch.ops.openipu.lstm_onednn.default
LSTM_ONEDNN_BACKWARD = torch.ops.openipu.lstm_onednn_backward.default


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
    state = torch.zeros(batch, width)
    weights = torch.zeros(4 * width, features), torch.zeros(4 * width, width)
    try:
        *_, workspace = _run(torch.zeros(time, batch, features), state, state, *weights, None, False, 1)
    except RuntimeError:
        return None
    return workspace.numel() if isinstance(workspace, torch.Tensor) else None
