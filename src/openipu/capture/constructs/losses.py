"""Which tensor training starts from.

In: the tensors that `mark_loss` or a loss function of torch made while forward ran, and the recorded graph.
Out: the one final loss. A loss that feeds another is part of it; none, or two that do not meet, is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import fx

from openipu.capture.failures import locate
from openipu.capture.record.recorder import Recorder
from openipu.errors import LossError, Term
from openipu.graph import note_of

LOSS_FUNCTIONS = frozenset(
    {
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
        F.cosine_embedding_loss,
        F.cross_entropy,
        F.ctc_loss,
        F.hinge_embedding_loss,
        F.huber_loss,
        F.kl_div,
        F.l1_loss,
        F.margin_ranking_loss,
        F.mse_loss,
        F.multi_margin_loss,
        F.multilabel_margin_loss,
        F.multilabel_soft_margin_loss,
        F.nll_loss,
        F.poisson_nll_loss,
        F.smooth_l1_loss,
        F.soft_margin_loss,
        F.triplet_margin_loss,
        F.triplet_margin_with_distance_loss,
    }
)


def choose_loss(losses: Sequence[torch.Tensor], recorder: Recorder) -> torch.Tensor:
    """The final loss of a training program."""
    by_node = {recorder.node_of(loss): loss for loss in losses}
    final = [node for node in by_node if not _reaches_another(node, set(by_node))]
    if not final:
        raise LossError(
            "Couldn't find a loss in graph! Training starts from a loss inside forward: compute it there with a loss "
            f"function of torch.nn, or wrap your own expression in {Term.LOSS}(value, reduction)."
        )
    if len(final) > 1:
        places = "".join(locate("", note_of(node).line) for node in final)
        raise LossError(
            "Multiple independent losses found in graph. Graph must have one final loss. "
            f"Wrap final graph loss in {Term.LOSS}. The losses are computed{places}"
        )
    return by_node[final[0]]


def describe_untrained(loss: torch.Tensor, recorder: Recorder) -> str:
    """A warning for a loss that no trainable parameter reaches: the program runs and trains nothing."""
    return locate(
        "The loss depends on no trainable parameter, so there is nothing to train: weights stay as they are. Check "
        "requires_grad of the parameters, and that forward computes the loss outside torch.no_grad() and from "
        "undetached tensors.",
        note_of(recorder.node_of(loss)).line,
    )


def _reaches_another(start: fx.Node, losses: set[fx.Node]) -> bool:
    seen = {start}
    waiting = list(start.users)
    while waiting:
        node = waiting.pop()
        if node in losses and node is not start:
            return True
        if node not in seen:
            seen.add(node)
            waiting.extend(node.users)
    return False
