"""Which gradients are clipped together, and to which norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openipu.graph import ClipGroup
from popart._exceptions import popart_exception


class ClipNormSettings:
    """A group of weights whose gradients together have at most this norm; or all weights."""

    def __init__(self, weightIds: Iterable[str], maxNorm: float) -> None:
        self.weightIds = list(weightIds)
        self.maxNorm = float(maxNorm)
        self._all = False

    @staticmethod
    def clipWeights(weightIds: Iterable[str], maxNorm: float) -> ClipNormSettings:
        return ClipNormSettings(weightIds, maxNorm)

    @staticmethod
    def clipAllWeights(maxNorm: float) -> ClipNormSettings:
        settings = ClipNormSettings([], maxNorm)
        settings._all = True
        return settings

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipNormSettings):
            return NotImplemented
        return (self.weightIds, self.maxNorm, self._all) == (other.weightIds, other.maxNorm, other._all)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        which = "all weights" if self._all else self.weightIds
        return f"ClipNormSettings({which}, maxNorm={self.maxNorm})"


def read_settings(given: Iterable[Any]) -> tuple[ClipNormSettings, ...]:
    """Check what a script passed."""
    settings = tuple(given)
    for entry in settings:
        if not isinstance(entry, ClipNormSettings):
            raise TypeError(f"clip_norm_settings takes a list of popart.ClipNormSettings, not of {entry!r}.")
    return settings


def make_groups(settings: Iterable[ClipNormSettings]) -> tuple[ClipGroup, ...]:
    """The same as openipu has it."""
    groups = tuple(ClipGroup(entry.maxNorm, None if entry._all else tuple(entry.weightIds)) for entry in settings)
    if len(groups) > 1 and any(group.parameters is None for group in groups):
        raise popart_exception(
            "Several clip groups, and one of them is of all weights: with ClipNormSettings.clipAllWeights there can be "
            "no other group."
        )
    return groups
