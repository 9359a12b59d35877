"""What a call left behind, compared with what the reference left.

In: named tensors of both, and of reference runs in which every result was changed at random by about one unit in its
last place. Out: the tensors that differ by more than such changes explain.

Engines may add in another order, so equal bits cannot be asked for. How far rounding reaches depends on the program:
on the number of summands, on cancellation, on Adam's division. The disturbed runs measure that for each tensor
(Monte Carlo arithmetic). A tensor may differ from the reference by `FACTOR` times what a disturbed run did, in its
largest element and in its root mean square, and in any case by `FLOOR` units in the last place of its largest element.
The change of a weight in one call is also compared along its own direction, because a change is often small beside the
rounding of the weight. Tensors of whole numbers must be equal where no disturbed run changed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.run.engine.snapshot import Snapshot
from openipu.run.reference import Change
from openipu.run.results import RunResult

FACTOR = 32.0
FLOOR = 8.0
SLOPE_FLOOR = 1e-3  # a weight's change may be wrong by so much of itself, in any case
_TINY = 1e-30

Results = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor that is not as the reference has it."""

    name: str
    measure: str  # what was compared
    found: float
    allowed: float
    size: float  # the largest number of the reference's tensor

    @property
    def excess(self) -> float:
        return self.found / max(self.allowed, _TINY)

    def __str__(self) -> str:
        if not self.measure:
            return self.name
        return f"{self.name} differs by {self.found:.2g} in {self.measure} ({self.allowed:.2g} is allowed)"


def list_results(result: RunResult, after: Snapshot) -> Results:
    """Everything that a call gives back or leaves on the device, by name."""
    found: Results = {}
    for kind, values in (("output", enumerate(result.outputs)), ("input", result.changed_inputs.items())):
        found |= {f"{kind} {index}": value for index, value in values if isinstance(value, torch.Tensor)}
    found |= {f"tap {name}": value for name, value in result.taps.items()}
    return found | dict(after.list_tensors())


def make_disturbance(seed: int, units: float) -> Change:
    """Change each element by up to so many units in the last place. Zeros stay zeros."""
    generator = torch.Generator().manual_seed(seed)

    def change(values: torch.Tensor) -> torch.Tensor:
        size = units * torch.finfo(values.dtype).eps
        wide = values.dtype if values.dtype is torch.float64 else torch.float32
        noise = torch.rand(values.shape, generator=generator, dtype=wide).mul_(2 * size).add_(1 - size)
        return noise.mul_(values).to(values.dtype)

    return change


def compare(found: Results, wanted: Results, disturbed: Sequence[Results], before: Results) -> list[Difference]:
    """All tensors that differ, those that differ most first."""
    differences = []
    for name, reference in wanted.items():
        others = [results[name] for results in disturbed if name in results]
        value = found.get(name)
        if value is None or value.shape != reference.shape or value.dtype is not reference.dtype:
            differences.append(Difference(name, "shape or number format", float("inf"), 0.0, 0.0))
        elif not reference.is_floating_point():
            differences += _compare_whole(name, value, reference, others)
        else:
            differences += _compare_numbers(name, value, reference, others, before.get(name))
    return sorted(differences, key=lambda difference: -difference.excess)


def _compare_whole(
    name: str, value: torch.Tensor, reference: torch.Tensor, others: Sequence[torch.Tensor]
) -> list[Difference]:
    wrong = int((value != reference).sum())
    allowed = max((int((other != reference).sum()) for other in others), default=0)
    # Where rounding decides at all, it may decide differently anywhere.
    if not wrong or allowed:
        return []
    return [Difference(name, f"{wrong:,} of {reference.numel():,} elements", float(wrong), 0.0, 0.0)]


def _compare_numbers(
    name: str,
    value: torch.Tensor,
    reference: torch.Tensor,
    others: Sequence[torch.Tensor],
    start: torch.Tensor | None,
) -> list[Difference]:
    if not reference.numel():
        return []
    exact = reference.double()
    error = _subtract(value, exact)
    noises = [_subtract(other, exact) for other in others]
    finite = exact[exact.isfinite()]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    root = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    unit = FLOOR * torch.finfo(reference.dtype).eps
    measured = {
        "its largest element": (_find_largest(error), [_find_largest(noise) for noise in noises], unit * size),
        "root mean square": (_find_root(error), [_find_root(noise) for noise in noises], unit * root),
    }
    if start is not None and start.shape == reference.shape and name.startswith("weight"):
        step = exact - start.double()
        square = float(step.square().sum())
        if square > 0 and bool(step.isfinite().all()):

            def follow(change: torch.Tensor) -> float:
                return abs(float((change * step).sum())) / square

            measured["the change of this call"] = (follow(error), [follow(noise) for noise in noises], SLOPE_FLOOR)
    found = []
    for measure, (difference, noisy, floor) in measured.items():
        allowed = max(floor, FACTOR * max(noisy, default=0.0))
        if not difference <= allowed:
            found.append(Difference(name, measure, difference, allowed, size))
    return sorted(found, key=lambda difference: -difference.excess)[:1]


def _subtract(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The difference; 0 where both are the same infinity, or both are NaN; infinite where one alone is either."""
    wide = value.double()
    same = (wide == exact) | (wide.isnan() & exact.isnan())
    return torch.where(same, 0.0, wide - exact).nan_to_num(nan=float("inf"))


def _find_largest(error: torch.Tensor) -> float:
    return float(error.abs().max())


def _find_root(error: torch.Tensor) -> float:
    return float(error.square().mean().sqrt())


def copy_inputs(leaves: Sequence[Any]) -> list[Any]:
    """Inputs that a run may do what it likes with."""
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def select_weights(snapshot: Snapshot) -> Mapping[str, torch.Tensor]:
    return {name: tensor for name, tensor in snapshot.list_tensors() if name.startswith("weight")}
