"""Connectionist temporal classification: the loss of label sequences of unknown place, and its gradient.

In: log probabilities or logits [time, batch, classes], labels [batch, longest], lengths of both. Out: the negative log
probability of each label sequence, and its gradient. Sums over all alignments run forward and backward in time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.mapped import choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from poplar._linear import mapTensorLinearly

_NEVER = -1e30  # the logarithm of no chance at all: finite, so that sums and differences of it are numbers


@dataclass(frozen=True, slots=True)
class Plan:
    """How it is spread over tiles is the planner's business; this is here to be passed on."""


def plan(
    graph: Graph,
    inType: Type,
    outType: Type,
    batchSize: int,
    maxTime: int,
    maxLabelLength: int,
    numClasses: int,
    *rest: Any,
) -> Plan:
    return Plan()


def _create(graph: Graph, element: Type, shape: list[int], name: str) -> Tensor:
    made = graph.addVariable(element, shape, name)
    mapTensorLinearly(graph, made)
    return made


def createDataInput(
    graph: Graph, element: Type, batchSize: int, maxTime: int, numClasses: int, plan: Plan, name: str = ""
) -> Tensor:
    return _create(graph, element, [maxTime, batchSize, numClasses], name or "ctc/data")


def createLabelsInput(
    graph: Graph, element: Type, batchSize: int, maxLabelLength: int, plan: Plan, name: str = ""
) -> Tensor:
    return _create(graph, element, [batchSize, maxLabelLength], name or "ctc/labels")


def _extend(labels: torch.Tensor, blank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Blanks around every label; and where a step may leave out the blank before: between two labels that differ."""
    batch, longest = labels.shape
    pairs = torch.stack([torch.full_like(labels, blank), labels], 2).reshape(batch, 2 * longest)
    wide = torch.cat([pairs, torch.full([batch, 1], blank, dtype=labels.dtype)], 1)
    skips = torch.zeros([batch, 2], dtype=torch.bool)
    return wide, torch.cat([skips, (wide[:, 2:] != blank) & (wide[:, 2:] != wide[:, :-2])], 1)


def _shift(values: torch.Tensor, by: int) -> torch.Tensor:
    edge = torch.full([values.shape[0], by], _NEVER, dtype=values.dtype)
    return torch.cat([edge, values[:, :-by]], 1)


def _unshift(values: torch.Tensor, by: int) -> torch.Tensor:
    edge = torch.full([values.shape[0], by], _NEVER, dtype=values.dtype)
    return torch.cat([values[:, by:], edge], 1)


def _spread(
    data: torch.Tensor, labels: torch.Tensor, times: torch.Tensor, lengths: torch.Tensor, blank: int, gradient: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The loss of each sequence; and the gradient of the log probabilities."""
    places, wide = times.to(torch.int64).unsqueeze(1), data.to(torch.float32)
    ends = 2 * lengths.to(torch.int64).unsqueeze(1)
    extended, skips = _extend(labels.to(torch.int64), blank)
    numbers = torch.arange(extended.shape[1], dtype=torch.int64).unsqueeze(0)
    chances = torch.stack([torch.gather(wide[step], 1, extended) for step in range(wide.shape[0])])
    never = torch.full_like(chances[0], _NEVER)
    alphas = [torch.where(numbers < 2, chances[0], never)]
    for step in range(1, wide.shape[0]):
        before = alphas[-1]
        entered = torch.logaddexp(before, _shift(before, 1))
        entered = torch.logaddexp(entered, torch.where(skips, _shift(before, 2), never)) + chances[step]
        alphas.append(torch.where(places > step, entered, before))
    last = torch.gather(alphas[-1], 1, ends)
    former = torch.gather(alphas[-1], 1, torch.clamp(ends - 1, 0))
    total = torch.logaddexp(last, torch.where(ends > 0, former, torch.full_like(former, _NEVER)))
    if not gradient:
        return -total.squeeze(1), None
    final = torch.where((numbers == ends) | (numbers == ends - 1), torch.zeros_like(never), never)
    beta, made = never, []
    for step in reversed(range(wide.shape[0])):
        if step == wide.shape[0] - 1:
            moved = final
        else:
            after = beta + chances[step + 1]
            moved = torch.logaddexp(after, _unshift(after, 1))
            moved = torch.logaddexp(moved, _unshift(torch.where(skips, after, never), 2))
            moved = torch.where(places == step + 1, final, moved)
        beta = moved
        shares = torch.where(places > step, torch.exp(alphas[step] + beta - total), torch.zeros_like(never))
        made.append(-torch.scatter_add(torch.zeros_like(wide[step]), 1, extended, shares))
    return -total.squeeze(1), torch.stack(made[::-1])


def _run(
    graph: Graph,
    function: str,
    outType: Type,
    data: Tensor,
    labels: Tensor,
    dataLengths: Tensor,
    labelLengths: Tensor,
    prog: Target,
    blankClass: int,
    logits: bool,
    gradient: bool,
    name: str,
) -> list[Tensor]:
    if data.rank() != 3 or labels.rank() != 2 or data.dim(1) != labels.dim(0):
        raise poplar_error(
            f"{function}: data are [time, batch, classes] and labels [batch, longest], not {data.shape()} and"
            f" {labels.shape()}."
        )
    if not 0 <= blankClass < data.dim(2):
        raise poplar_error(f"{function}: the blank class {blankClass} is none of {data.dim(2)}.")
    wanted = choose_format(outType)

    def traced(
        given: torch.Tensor, marks: torch.Tensor, times: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        wide = given.to(torch.float32)
        logs = torch.log_softmax(wide, 2) if logits else wide
        loss, grad = _spread(logs, marks, times, lengths, blankClass, gradient)
        if grad is None:
            return (loss.to(wanted),)
        if logits:
            grad = grad - torch.exp(logs) * torch.sum(grad, 2, keepdim=True)
        return loss.to(wanted), grad.to(wanted)

    operands = [data, labels, dataLengths, labelLengths]
    types = [outType] * (2 if gradient else 1)
    return call_library(graph, prog, f"popnn::ctc::{function}", traced, operands, types=types, name=name)


def _make(function: str, *, logits: bool, gradient: bool) -> Callable[..., Any]:
    """One of the four functions: of logits or of their logarithms after a softmax, with or without the gradient."""

    def calculate(
        graph: Graph,
        outType: Type,
        data: Tensor,
        labels: Tensor,
        dataLengths: Tensor,
        labelLengths: Tensor,
        prog: Target,
        blankClass: int,
        plan: Plan,
        name: str = "",
        *rest: Any,
    ) -> Any:
        lengths = (dataLengths, labelLengths)
        made = _run(graph, function, outType, data, labels, *lengths, prog, blankClass, logits, gradient, name)
        return (made[0], made[1]) if gradient else made[0]

    return calculate


calcCTCLossLogProbabilities = _make("calcCTCLossLogProbabilities", logits=False, gradient=False)
calcCTCLossLogits = _make("calcCTCLossLogits", logits=True, gradient=False)
# The gradient is that of the log probabilities themselves: minus the share of alignments in each class.
calcLossAndGradientLogProbabilities = _make("calcLossAndGradientLogProbabilities", logits=False, gradient=True)
calcLossAndGradientLogits = _make("calcLossAndGradientLogits", logits=True, gradient=True)
