"""The gradient of a cross-entropy over many classes in one way through memory.

One function writes `softmax - one_hot`, weighed, where autograd fills a matrix with zeros, puts one number into each
row, and computes with the whole of it. Nothing is written beside the logarithms where nobody reads these again
(`reused_memory`).
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.rules import Match, Number, Rule, Value, Viewed, Writer, op

aten = torch.ops.aten

_MEAN = 1  # of the reductions, by ATen's numbers

_softmax_into = aten._softmax.out._op


@gives_fresh_memory
def differentiate_classes(
    logarithms: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    """The gradient of the logits, from their logarithmic softmax, the classes of its rows, and the loss's gradient."""
    return _differentiate(logarithms, torch.empty_like(logarithms), classes, gradient, total, reduction, ignored)


def differentiate_in_place(
    logarithms: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    """The same in the memory of the logarithms, if they lie in order."""
    return _differentiate(logarithms, logarithms, classes, gradient, total, reduction, ignored)


def _differentiate(
    logarithms: torch.Tensor,
    result: torch.Tensor,
    classes: torch.Tensor,
    gradient: torch.Tensor,
    total: torch.Tensor,
    reduction: int,
    ignored: int,
) -> torch.Tensor:
    if not logarithms.is_contiguous() or not result.is_contiguous():
        logarithms = logarithms.contiguous()
        result = torch.empty_like(logarithms)
    columns = logarithms.shape[-1]
    weights = gradient / total if reduction == _MEAN else gradient
    weights = weights.reshape(-1, 1)  # one, or one for each row
    parts = max(1, thresholds.CROSS_ENTROPY_CACHED_BYTES // (columns * 4)) * torch.get_num_threads()
    sources, results = logarithms.view(-1, columns), result.view(-1, columns)
    for start in range(0, len(results), parts):
        part = results[start : start + parts]
        # Of logarithms of probabilities: the probabilities, sooner than by their exponential.
        _softmax_into(sources[start : start + parts], 1, False, out=part)
        part.mul_(weights if len(weights) == 1 else weights[start : start + parts])
    without = classes == ignored
    places = classes.masked_fill(without, 0).unsqueeze(1)
    results.scatter_add_(1, places, weights.neg().expand(len(results), 1))
    if without.any():
        results.index_fill_(0, without.nonzero().view(-1), 0.0)
    return result


def _suits(match: Match) -> bool:
    """Whether a large logarithmic softmax is one of rows, and these are the rows of the loss."""
    logarithms, value = match["logarithms"], match["logarithms"].meta["val"]
    if logarithms.target is not aten._log_softmax.default or value.numel() < thresholds.CROSS_ENTROPY_ELEMENTS:
        return False
    classes = match["classes"].meta["val"]
    rows = classes.dim() == 1 and classes.numel() * value.shape[-1] == value.numel()
    return rows and match["dim"] in (-1, value.dim() - 1)


def _differentiate_at_once(match: Match, writer: Writer) -> fx.Node:
    operands = ("logarithms", "classes", "gradient", "total", "reduction", "ignored")
    return writer.call(differentiate_classes, *(match[name] for name in operands))


_LOGARITHMS = Value("logarithms", torch.float32)
_OF_LOSS = op(
    aten.nll_loss_backward.default,
    *(Value("gradient"), Viewed(_LOGARITHMS, kept=True), Value("classes"), None),
    *(Number(name="reduction"), Number(name="ignored"), Value("total")),
)
RULES = (
    Rule(
        "gradient of a cross-entropy",
        op(
            aten._log_softmax_backward_data.default,
            *(Viewed(_OF_LOSS), _LOGARITHMS, Number(name="dim"), torch.float32),
        ),
        _differentiate_at_once,
        _suits,
    ),
)
