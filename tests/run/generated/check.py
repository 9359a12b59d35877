"""Compares the engine with eager PyTorch on one case, reduces what fails, and finds the pass at fault.

Numbers may be off by as much as eager PyTorch in the same format is, a few times over.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from generated.case import Case
from generated.engine import _NEEDED, Values, Watch, list_passes, run_eagerly, run_engine
from openipu.errors import InternalError, OpenIpuError

_FACTOR = 10.0  # over the error of eager PyTorch in the same format
_SINGLE, _HALF = 1e-4, 6e-3  # relative to the largest element
_NOISE = 1e-3  # of gradients, where these are rounded to half
_NOISES = 3  # a rectifier may block another number then: tried so often
_LARGEST = 1e3
_TERM = 0.2  # a loss is the sum of numbers of about this size, which may cancel out
_SMALLEST = 1e-5  # changes of weights have no more digits than the weights


@dataclass(frozen=True)
class Failure:
    """What is wrong with a case."""

    case: Case
    problems: tuple[str, ...]
    passes: tuple[str, ...] = field(default=())  # without any one of these it is right

    def __str__(self) -> str:
        lines = [f"{self.case.family}, seed {self.case.seed}", *self.problems[:6]]
        if self.passes:
            lines.append(f"right without: {', '.join(self.passes)}")
        extras = {"options": self.case.options, "spec": self.case.spec, "half": self.case.half}
        lines += [f"{name}: {value}" for name, value in extras.items() if value]
        return "\n".join(["#" * 100, *(f"# {line}" for line in lines), self.case.print_script()])


def find_problems(case: Case, watch: Watch) -> list[str] | None:
    """What differs; None: eager PyTorch does not run it either, or its numbers are not ordinary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            near = run_eagerly(case, torch.float16 if case.half else torch.float32)
            exact = run_eagerly(case, torch.float64)
            low = case.half or bool(case.spec)
            noises = range(_NOISES) if low and case.training else ()
            rough = [run_eagerly(case, torch.float64, _NOISE, seed) for seed in noises] or [exact]
        except Exception:
            return None
        if case.random:
            near = exact = _run_plainly(case, watch)
            rough = [exact]
        if any(bool((value.abs() > _LARGEST).any()) for value in exact.values()):
            return None  # diverges
        if any(not torch.equal(value.isfinite(), exact[name].isfinite()) for name, value in near.items()):
            return None
        watch.begin()
        try:
            found = run_engine(case)
        except OpenIpuError as error:
            if isinstance(error, InternalError):
                return [f"InternalError: {error}"]
            watch.refused[str(error)[:60]] += 1  # says what it does not support
            return None
        except Exception as error:  # whatever it is: eager PyTorch had none
            return [f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"]
        watch.end()
    return list(_compare(case, found, near, rough, exact))


def _run_plainly(case: Case, watch: Watch) -> Values:
    kept, watch.only = watch.only, _NEEDED
    watch.begin()
    try:
        return run_engine(case)
    finally:
        watch.only = kept


def _compare(case: Case, found: Values, near: Values, rough: Sequence[Values], exact: Values) -> Iterator[str]:
    low = case.half or bool(case.spec)
    # What cancels out, such as the gradient of a bias in front of a norm, is as exact as what it is the sum of.
    moved = [value.abs().max().item() for name, value in exact.items() if name.startswith("change") and value.numel()]
    for name, wanted in exact.items():
        got = found.get(name)
        if got is None and name.startswith("state "):
            continue  # kept in another form
        if got is None:
            yield f"{name} is missing"
            continue
        if got.shape != wanted.shape:
            yield f"{name} has shape {tuple(got.shape)} instead of {tuple(wanted.shape)}"
            continue
        if not wanted.numel():
            continue
        if not wanted.is_floating_point():
            if not torch.equal(got.long(), wanted.long()):
                yield f"{name} differs"
            continue
        wanted, got = wanted.double(), got.double()
        if not torch.equal(wanted.isnan(), got.isnan()):
            yield f"{name} is not a number at other places"
            continue
        places = wanted.isfinite()
        if not bool(places.any()):
            continue
        wanted, got, eager = wanted[places], got[places], near[name].double()[places]
        rounded = max((values[name].double()[places] - wanted).abs().max().item() for values in rough)
        scale = max(wanted.abs().max().item(), max(moved) if name.startswith("change") else 0.0)
        if wanted.numel() == 1:
            scale = max(scale, _TERM)
        allowed = _FACTOR * (eager - wanted).abs().max().item() + (_HALF if low else _SINGLE) * scale + _SMALLEST
        if low:
            allowed += 2e-4
        if case.half and case.family.endswith("_models"):
            allowed += 0.02 * scale + 1e-3
        if case.half and case.random:  # a last bit of a sum decides where a number is rounded to
            allowed += 0.02 * scale + 2e-3
        allowed += _FACTOR * rounded
        error = (got - wanted).abs().max().item()
        if not error <= allowed:
            yield f"{name}: off by {error:.1e} (largest {scale:.1e}, allowed {allowed:.1e})"


def reduce_case(case: Case, watch: Watch, tries: int = 300) -> Case:
    """The case without all that it fails without."""
    found = find_problems(case, watch)
    raised = bool(found) and ":" in found[0] and " output " not in found[0] and "change" not in found[0]
    kind = found[0].split(":")[0] if found and raised else None
    changed = True
    while changed and tries > 0:
        changed = False
        for smaller in case.shrink():
            tries -= 1
            problems = find_problems(smaller, watch)
            if problems and (kind is None) == ("Error" not in problems[0].split(":")[0]):
                case, changed = smaller, True
                break
            if tries <= 0:
                break
    return case


def find_passes(case: Case, watch: Watch) -> tuple[str, ...]:
    """Passes without which the case is right."""
    found = []
    for name in list_passes():
        if name in _NEEDED or not watch.runs(name):
            continue
        watch.skipped = {name}
        if find_problems(case, watch) == []:
            found.append(name)
    watch.skipped = ()
    return tuple(found)


def examine(case: Case, watch: Watch) -> Failure | None:
    """What is wrong with a case, reduced; None: nothing."""
    if not find_problems(case, watch):
        return None
    watch.counting = False
    small = reduce_case(case, watch)
    problems = find_problems(small, watch) or []
    failure = Failure(small, tuple(problems), find_passes(small, watch))
    watch.counting = True
    return failure
