"""`If`, `Loop` and `Scan`: graphs inside a node.

Where condition or count is known when the program is compiled, the body is written out. Else it becomes a branch or a
loop of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.capture import capture_branches, is_capturing, is_on_ipu, lift, on_host
from openipu.translate.foreign import ForeignGraph, ForeignNode
from openipu.translate.rules import Results, rule
from openipu.translate.site import LONGEST_WRITTEN_OUT, Site

KEEPS_SLICES = "__keeps_slices"  # attribute of a scan: slices keep the dimension, as those of PopART do


@rule("If")
def branch(site: Site) -> Results:
    condition = site.input(0)
    chosen, otherwise = _body(site, "then_branch"), _body(site, "else_branch")
    if not is_on_ipu(condition):
        return site.run_body(chosen if bool(condition.reshape(())) else otherwise, ())
    if not is_capturing():
        site.fail("depends on a tensor without data")

    def run(graph: ForeignGraph) -> list[torch.Tensor]:
        return [lift(value) for value in site.run_body(graph, ())]

    return capture_branches(condition, lambda: run(chosen), (), lambda: run(otherwise), (), trains=True)


def _find_deciding(node: ForeignNode) -> tuple[int, ...]:
    """A loop that collects its passes has results whose shapes the condition decides."""
    return (1,) if len(node.outputs) > len(node.inputs) - 2 else ()


@rule("Loop", static=(0,), decide=_find_deciding)
def loop(site: Site) -> Results:
    """Pass by pass. Once the condition depends on data, a pass after the last one changes nothing."""
    body = _body(site, "body")
    limit = site.optional(0)
    condition = site.optional(1)
    carried = [site.input(place) for place in range(2, site.count)]
    if limit is not None and is_on_ipu(limit):
        site.value(0, "number of passes")
    passes = LONGEST_WRITTEN_OUT + 1 if limit is None else int(limit.reshape(()))
    with on_host():
        going = torch.tensor(True) if condition is None else condition.reshape(())
    collected: list[list[torch.Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    for number in range(passes):
        by_data = is_on_ipu(going)
        if by_data and (limit is None or collected):
            site.fail(
                "goes on for as long as a condition holds that depends on data, and "
                + ("collects a result of each pass, so that a shape" if collected else "how many passes that are")
                + " is not known when it is compiled. Give it a largest number of passes, and carry its results"
            )
        if not by_data and not bool(going):
            break
        if number >= LONGEST_WRITTEN_OUT:
            site.fail(f"has more than {LONGEST_WRITTEN_OUT} passes")
        with on_host():
            counter = torch.tensor(number)
        results = site.run_body(body, (counter, going, *carried))
        fresh, new = results[0].reshape(()), results[1 : 1 + len(carried)]
        for entry, value in zip(collected, results[1 + len(carried) :], strict=True):
            entry.append(value)
        if by_data:
            carried = [_choose(site, going, value, old) for value, old in zip(new, carried, strict=True)]
            going = going & lift(fresh)
        else:
            carried, going = new, fresh
    return [*carried, *(_stack(site, entry, 0) for entry in collected)]


def _choose(site: Site, going: torch.Tensor, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    if new.shape != old.shape:
        site.fail(f"carries a tensor whose shape changes from {list(old.shape)} to {list(new.shape)}")
    return torch.where(going, lift(new), lift(old))


@rule("Scan", until=8)
def scan_batches(site: Site) -> Results:
    """Operator set 8 had a batch dimension in front, and lengths as its first input."""
    body, count = _body(site, "body"), site.get("num_scan_inputs")
    values = [site.input(place) for place in range(1, site.count)]
    states, sequences = values[: len(values) - count], values[len(values) - count :]
    directions = site.get("directions", [0] * count)
    found = []
    for batch in range(sequences[0].shape[0]):
        own = [state[batch] for state in states]
        found.append(_scan(site, body, own, [s[batch] for s in sequences], directions, [0] * count, None, None))
    return [_stack(site, parts, 0) for parts in zip(*found, strict=True)]


@rule("Scan", since=9)
def scan(site: Site) -> Results:
    body, count = _body(site, "body"), site.get("num_scan_inputs")
    values = [site.input(place) for place in range(site.count)]
    states, sequences = values[: len(values) - count], values[len(values) - count :]
    return _scan(
        site,
        body,
        states,
        sequences,
        site.get("scan_input_directions", [0] * count),
        site.get("scan_input_axes", [0] * count),
        site.get("scan_output_directions", None),
        site.get("scan_output_axes", None),
    )


def _scan(
    site: Site,
    body: ForeignGraph,
    states: Sequence[torch.Tensor],
    sequences: Sequence[torch.Tensor],
    directions: Sequence[int],
    axes: Sequence[int],
    output_directions: Sequence[int] | None,
    output_axes: Sequence[int] | None,
) -> list[torch.Tensor]:
    length = sequences[0].shape[axes[0]]
    if length > LONGEST_WRITTEN_OUT:
        site.fail(f"has {length} passes, more than {LONGEST_WRITTEN_OUT}")
    keeps = bool(site.get(KEEPS_SLICES, 0))
    carried = list(states)
    stacked = len(body.outputs) - len(carried)
    collected: list[list[torch.Tensor]] = [[] for _ in range(stacked)]
    for step in range(length):
        pieces = [
            _take(sequence, axis, length - 1 - step if backwards else step, keeps)
            for sequence, axis, backwards in zip(sequences, axes, directions, strict=True)
        ]
        results = site.run_body(body, (*carried, *pieces))
        carried = results[: len(carried)]
        for entry, value in zip(collected, results[len(carried) :], strict=True):
            entry.append(value)
    turned = output_directions or [0] * stacked
    placed = output_axes or [0] * stacked
    joined = [
        _stack(site, entry[::-1] if backwards else entry, axis, keeps)
        for entry, backwards, axis in zip(collected, turned, placed, strict=True)
    ]
    return [*carried, *joined]


def _take(sequence: torch.Tensor, axis: int, step: int, keeps: bool) -> torch.Tensor:
    return sequence.narrow(axis, step, 1) if keeps else sequence.select(axis, step)


def _stack(site: Site, parts: Sequence[torch.Tensor], axis: int, joins: bool = False) -> torch.Tensor:
    if not parts:
        site.fail("runs no pass at all, so the shape of what it collects is unknown")
    mixed = any(is_on_ipu(part) for part in parts)
    values = [lift(part) if mixed else part for part in parts]
    return torch.cat(values, axis) if joins else torch.stack(values, axis)


def _body(site: Site, name: str) -> ForeignGraph:
    body = site.get(name)
    if not isinstance(body, ForeignGraph):
        site.fail(f"has no graph as its {name}")
    return body
