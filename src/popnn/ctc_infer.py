"""Beam search over label sequences for connectionist temporal classification.

In: log probabilities or logits [time, batch, classes], lengths. Out: for each sample the likeliest label sequences:
negative log probabilities [batch, paths], lengths [batch, paths] and labels [batch, paths, time].
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.graph.mapped import UNSIGNED_INT, choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_library
from popnn.ctc import _NEVER, Plan, createDataInput

_State = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # labels, lengths, ends in blank, in label


def plan(graph: Graph, inType: Type, batchSize: int, maxTime: int, numClasses: int, beamwidth: int, *rest: Any) -> Plan:
    return Plan()


def _advance(state: _State, chances: torch.Tensor, step: int, blank: int, width: int) -> _State:
    """One time step of all beams [batch, width]."""
    labels, lengths, blanks, shown = state
    classes = chances.shape[1]
    total = torch.logaddexp(blanks, shown)
    never = torch.full_like(total, _NEVER)
    place = torch.clamp(lengths - 1, 0).unsqueeze(2)
    last = torch.where(lengths > 0, torch.gather(labels, 2, place).squeeze(2), torch.full_like(lengths, blank))
    again = torch.gather(chances, 1, last)
    stay_blank = total + chances[:, blank : blank + 1]
    stay_shown = torch.where(lengths > 0, shown + again, never)
    # [batch, beam, class]: one label more. The same label again needs a blank between.
    kinds = torch.arange(classes, dtype=torch.int64).reshape(1, 1, -1)
    repeated = kinds == last.unsqueeze(2)
    longer = chances.unsqueeze(1) + torch.where(repeated, blanks.unsqueeze(2), total.unsqueeze(2))
    longer = torch.where(kinds == blank, torch.full_like(longer, _NEVER), longer)
    # A beam with one label more may be there already, and alive: [batch, beam, beam that it becomes].
    steps = torch.arange(labels.shape[2], dtype=torch.int64).reshape(1, 1, -1)
    shorter = torch.where(steps == lengths.unsqueeze(2) - 1, torch.full_like(labels, blank), labels)
    same = torch.all(labels.unsqueeze(2) == shorter.unsqueeze(1), 3)
    becomes = same & (lengths.unsqueeze(2) + 1 == lengths.unsqueeze(1)) & (total > _NEVER / 2).unsqueeze(1)
    arriving = torch.gather(longer, 2, last.unsqueeze(1).expand(-1, width, -1))
    arriving = torch.where(becomes, arriving, torch.full_like(arriving, _NEVER))
    stay_shown = torch.logaddexp(stay_shown, torch.logsumexp(arriving, 1))
    taken = torch.any(becomes.unsqueeze(3) & repeated.unsqueeze(1), 2)
    longer = torch.where(taken, torch.full_like(longer, _NEVER), longer)
    # The best of those that stay and those that grow.
    scores = torch.cat([torch.logaddexp(stay_blank, stay_shown), longer.reshape(-1, width * classes)], 1)
    _, chosen = torch.topk(scores, width, 1)
    grown = chosen >= width
    beam = torch.where(grown, torch.div(chosen - width, classes, rounding_mode="floor"), chosen)
    label = torch.where(grown, torch.remainder(chosen - width, classes), torch.full_like(chosen, blank))
    picked = torch.gather(labels, 1, beam.unsqueeze(2).expand(-1, -1, labels.shape[2]))
    sizes = torch.gather(lengths, 1, beam)
    written = (steps == sizes.unsqueeze(2)) & grown.unsqueeze(2)
    return (
        torch.where(written, label.unsqueeze(2), picked),
        sizes + grown.to(torch.int64),
        torch.where(grown, never, torch.gather(stay_blank, 1, beam)),
        torch.where(grown, torch.gather(scores, 1, chosen), torch.gather(stay_shown, 1, beam)),
    )


def _decode(
    graph: Graph,
    function: str,
    data: Tensor,
    dataLengths: Tensor,
    prog: Target,
    blankClass: int,
    beamwidth: int,
    topPaths: int,
    logits: bool,
    name: str,
) -> tuple[Tensor, Tensor, Tensor]:
    if data.rank() != 3:
        raise poplar_error(f"{function}: data are [time, batch, classes], not {data.shape()}.")
    if not 1 <= topPaths <= beamwidth:
        raise poplar_error(f"{function}: topPaths is from 1 to the beam width {beamwidth}, not {topPaths}.")
    if not 0 <= blankClass < data.dim(2):
        raise poplar_error(f"{function}: the blank class {blankClass} is none of {data.dim(2)}.")
    wanted = choose_format(data.elementType())
    longest, batch, _ = data.shape()

    def traced(given: torch.Tensor, times: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        wide = given.to(torch.float32)
        logs = torch.log_softmax(wide, 2) if logits else wide
        first = torch.arange(beamwidth, dtype=torch.int64).unsqueeze(0).expand(batch, -1) == 0
        state: _State = (
            torch.full([batch, beamwidth, longest], blankClass, dtype=torch.int64),
            torch.zeros([batch, beamwidth], dtype=torch.int64),
            torch.where(first, 0.0, _NEVER),
            torch.full([batch, beamwidth], _NEVER, dtype=torch.float32),
        )
        for step in range(longest):
            new = _advance(state, logs[step], step, blankClass, beamwidth)
            runs = (times.to(torch.int64) > step).reshape(-1, 1)
            state = (
                torch.where(runs.unsqueeze(2), new[0], state[0]),
                torch.where(runs, new[1], state[1]),
                torch.where(runs, new[2], state[2]),
                torch.where(runs, new[3], state[3]),
            )
        total = -torch.logaddexp(state[2], state[3])
        return total[:, :topPaths].to(wanted), state[1][:, :topPaths], state[0][:, :topPaths]

    types = [data.elementType(), UNSIGNED_INT, UNSIGNED_INT]
    label = f"popnn::ctc_infer::{function}"
    made = call_library(graph, prog, label, traced, [data, dataLengths], types=types, name=name)
    return made[0], made[1], made[2]


def beamSearchDecoderLogProbabilities(
    graph: Graph,
    logProbs: Tensor,
    dataLengths: Tensor,
    prog: Target,
    blankClass: int,
    beamwidth: int,
    topPaths: int,
    plan: Plan,
    name: str = "",
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Behind a sequence's length its labels are the blank class."""
    function = "beamSearchDecoderLogProbabilities"
    return _decode(graph, function, logProbs, dataLengths, prog, blankClass, beamwidth, topPaths, False, name)


def beamSearchDecoderLogits(
    graph: Graph,
    logits: Tensor,
    dataLengths: Tensor,
    prog: Target,
    blankClass: int,
    beamwidth: int,
    topPaths: int,
    plan: Plan,
    name: str = "",
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    function = "beamSearchDecoderLogits"
    return _decode(graph, function, logits, dataLengths, prog, blankClass, beamwidth, topPaths, True, name)


__all__ = ["beamSearchDecoderLogProbabilities", "beamSearchDecoderLogits", "createDataInput", "plan"]
