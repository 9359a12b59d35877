"""Losses. Written with plain ops: what is trained on is what the program says, whatever losses it holds."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.paddle.calls import Answer, Call, translates


def _pick(values: torch.Tensor, label: torch.Tensor, axis: int, ignored: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The element of each label along an axis, and which labels count. Labels keep the axis with size 1."""
    if label.dim() < values.dim():
        label = label.unsqueeze(axis)
    places = label.to(torch.int64)
    counted = places != ignored
    if ignored < 0 or ignored >= values.shape[axis]:  # an ignored label is not an index
        places = torch.where(counted, places, torch.zeros_like(places))
    return torch.gather(values, axis, places), counted


@translates("softmax_with_cross_entropy", "c_softmax_with_cross_entropy")
def softmax_cross_entropy(call: Call) -> Answer:
    logits, label = call.tensor("Logits"), call.tensor("Label")
    axis = call.whole("axis", -1) % logits.dim()
    if call.flag("use_softmax", True):
        logarithms = torch.log_softmax(logits, axis)
        shares = logarithms.exp()
    else:
        shares = logits
        logarithms = torch.log(logits)
    if call.flag("soft_label"):
        loss = -(label.to(logarithms.dtype) * logarithms).sum(axis, keepdim=True)
    else:
        picked, counted = _pick(logarithms, label, axis, call.whole("ignore_index", -100))
        loss = torch.where(counted, -picked, torch.zeros_like(picked))
    return {"Softmax": shares, "Loss": loss}


@translates("cross_entropy", "cross_entropy2")
def cross_entropy(call: Call) -> Answer:
    """Of probabilities, not of logits."""
    x, label = call.tensor("X"), call.tensor("Label")
    if call.flag("soft_label"):
        return {"Y": -(label * torch.log(x)).sum(-1, keepdim=True)}
    if label.dim() == x.dim() - 1:
        label = label.unsqueeze(-1)
    picked, counted = _pick(x, label, x.dim() - 1, call.whole("ignore_index", -100))
    loss = torch.where(counted, -torch.log(picked), torch.zeros_like(picked))
    return {"Y": loss, "MatchX": picked}


@translates("bce_loss")
def binary_cross_entropy(call: Call) -> Answer:
    x, label = call.tensor("X"), call.tensor("Label")
    near = torch.clamp(torch.log(x), min=-100.0)
    far = torch.clamp(torch.log(1 - x), min=-100.0)
    return -(label * near + (1 - label) * far)


@translates("sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy(call: Call) -> Answer:
    x, label = call.tensor("X"), call.tensor("Label")
    ignored = call.number("ignore_index", -100)
    positive = call.maybe("pos_weight")
    loss = torch.relu(x) - x * label + torch.log1p(torch.exp(-x.abs()))
    if positive is not None:
        tail = torch.log1p(torch.exp(-x.abs())) + torch.relu(-x)
        loss = (1 - label) * x + (1 + (positive - 1) * label) * tail
    counted = label != ignored
    loss = torch.where(counted, loss, torch.zeros_like(loss))
    if call.flag("normalize"):
        loss = loss / torch.clamp(counted.to(loss.dtype).sum(), min=1e-5)
    return loss


@translates("kldiv_loss")
def divergence(call: Call) -> Answer:
    x, target = call.tensor("X"), call.tensor("Target")
    positive = target > 0
    safe = torch.where(positive, target, torch.ones_like(target))
    each = torch.where(positive, target * (torch.log(safe) - x), torch.zeros_like(target))
    if call.flag("log_target"):
        each = torch.exp(target) * (target - x)
    reduction = call.get("reduction", "mean")
    if reduction == "none":
        return {"Loss": each}
    if reduction == "batchmean":
        return {"Loss": each.sum() / x.shape[0]}
    return {"Loss": each.sum() if reduction == "sum" else each.mean()}


@translates("huber_loss")
def huber(call: Call) -> Answer:
    rest, delta = call.tensor("Y") - call.tensor("X"), call.number("delta", 1.0)
    size = rest.abs()
    loss = torch.where(size <= delta, 0.5 * rest * rest, delta * (size - 0.5 * delta))
    return {"Out": loss, "Residual": rest}


@translates("log_loss")
def log_loss(call: Call) -> Answer:
    x, label, epsilon = call.tensor("Predicted"), call.tensor("Labels"), call.number("epsilon", 1e-4)
    return {"Loss": -label * torch.log(x + epsilon) - (1 - label) * torch.log(1 - x + epsilon)}


@translates("rank_loss")
def rank_loss(call: Call) -> Answer:
    label, rest = call.tensor("Label"), call.tensor("Left") - call.tensor("Right")
    return torch.log1p(torch.exp(rest)) - label * rest


@translates("margin_rank_loss")
def margin_rank_loss(call: Call) -> Answer:
    label, margin = call.tensor("Label"), call.number("margin")
    value = -label * (call.tensor("X1") - call.tensor("X2")) + margin
    return {"Out": torch.relu(value), "Activated": (value > 0).to(value.dtype)}


@translates("square_error_cost")
def square_error(call: Call) -> Answer:
    return (call.tensor("X") - call.tensor("Y")) ** 2


@translates("nll_loss", "custom_nll_loss")
def negative_log_likelihood(call: Call) -> Answer:
    x, label = call.tensor("X"), call.tensor("Label")
    ignored = call.whole("ignore_index", -100)
    picked, counted = _pick(x, label.unsqueeze(1) if label.dim() < x.dim() else label, 1, ignored)
    weights = counted.to(x.dtype)
    given = call.maybe("Weight")
    if given is not None:
        places = torch.where(counted, label.reshape(counted.shape).to(torch.int64), 0)
        weights = weights * given.index_select(0, places.reshape(-1)).reshape(counted.shape)
    each = (-picked * weights).squeeze(1)
    total = weights.sum()
    reduction = call.get("reduction", "mean")
    if reduction == "none":
        return {"Out": each, "Total_weight": total}
    return {"Out": each.sum() if reduction == "sum" else each.sum() / total, "Total_weight": total}


@translates("identity_loss")
def identity_loss(call: Call) -> Answer:
    x, reduction = call.tensor("X"), call.whole("reduction", 1)
    if reduction == 0:
        return x.sum()
    return x.mean() if reduction == 1 else x.clone()


@translates("accuracy")
def accuracy(call: Call) -> Answer:
    places, label = call.tensor("Indices"), call.tensor("Label")
    right = (places.to(torch.int64) == label.to(torch.int64).reshape(-1, 1)).any(1).to(torch.int32)
    total = torch.tensor(places.shape[0], dtype=torch.int32)
    correct = right.sum(dtype=torch.int32)
    return {"Accuracy": right.to(torch.float32).mean(), "Correct": correct, "Total": total}


@translates("warpctc")
def temporal_classification(call: Call) -> Answer:
    logits, label = call.tensor("Logits"), call.tensor("Label").to(torch.int64)
    lengths, sizes = call.maybe("LogitsLength"), call.maybe("LabelLength")
    if lengths is None or sizes is None:
        call.fail(
            "needs the lengths of logits and labels: sequences of several lengths in one tensor are not on an IPU"
        )
    logarithms = torch.log_softmax(logits, -1)
    blank = call.whole("blank")
    loss = _ctc(logarithms, label, lengths.to(torch.int64), sizes.to(torch.int64), blank)
    if call.flag("norm_by_times"):
        loss = loss / lengths.to(loss.dtype)
    return {"Loss": loss.reshape(-1, 1)}


def _ctc(
    logarithms: torch.Tensor, label: torch.Tensor, lengths: torch.Tensor, sizes: torch.Tensor, blank: int
) -> torch.Tensor:
    """Of each sequence, by the forward recursion over labels with blanks between them."""
    steps, batch, _ = logarithms.shape
    count = label.shape[1]
    places = torch.arange(2 * count + 1)
    inner = torch.gather(label, 1, ((places - 1) // 2).clamp(min=0).expand(batch, -1))
    extended = torch.where(places % 2 == 1, inner, torch.full_like(inner, blank))
    before = F.pad(extended, [2, 0], value=-1).narrow(1, 0, 2 * count + 1)
    skips = (extended != blank) & (extended != before)
    never = torch.full((batch, 2 * count + 1), -1e30, dtype=logarithms.dtype)
    emitted = torch.gather(logarithms, 2, extended.unsqueeze(0).expand(steps, -1, -1))
    alpha = torch.where(places < 2, emitted[0], never)
    for step in range(1, steps):
        one = F.pad(alpha, [1, 0], value=-1e30).narrow(1, 0, 2 * count + 1)
        two = F.pad(alpha, [2, 0], value=-1e30).narrow(1, 0, 2 * count + 1)
        total = torch.logaddexp(torch.logaddexp(alpha, one), torch.where(skips, two, never)) + emitted[step]
        alpha = torch.where((lengths > step).unsqueeze(1), total, alpha)
    last = torch.gather(alpha, 1, (2 * sizes).unsqueeze(1)).squeeze(1)
    near = torch.gather(alpha, 1, (2 * sizes - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
    return -torch.logaddexp(last, near)
