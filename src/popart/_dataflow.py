"""What comes back to the host: `AnchorReturnType`, `DataFlow`; and shapes that a model leaves open: `InputShapeInfo`.

In: names of tensors and how often they are wanted. Out: the same, checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._enumerations.tensors import AnchorReturnTypeId, ExchangeStrategy, TileSet
from popart._exceptions import popart_exception
from popart.tensorinfo import TensorInfo

_IDS = {entry.name.upper(): entry for entry in AnchorReturnTypeId}


class AnchorReturnType:
    """`AnchorReturnType("All")`, "Final", "Sum", or `AnchorReturnType("EveryN", 4)`."""

    def __init__(self, anchorReturnTypeString: str, *args: Any, **kwargs: Any) -> None:
        given = list(args)
        period = kwargs.pop("returnPeriod", None)
        if period is None and given and type(given[0]) is int:
            period = given.pop(0)
        tiles = kwargs.pop("tileSet", given.pop(0) if given else TileSet.Compute)
        exchange = kwargs.pop("exchangeStrategy", given.pop(0) if given else ExchangeStrategy.JustInTime)
        if given or kwargs:
            raise TypeError(f"AnchorReturnType does not take {[*given, *kwargs]}.")
        found = _IDS.get(anchorReturnTypeString.upper())
        if found is None:
            raise popart_exception(f"Invalid anchor return type ID supplied: {anchorReturnTypeString}")
        if found is AnchorReturnTypeId.EveryN:
            if period is None:
                raise popart_exception("Must specify return period with option 'EVERYN'")
            if period <= 0:
                raise popart_exception("Anchor return period must be greater than zero")
        elif period is not None:
            raise popart_exception("A return period should not be supplied for this anchor return type")
        self._id, self._period = found, period
        self._tiles, self._exchange = TileSet(tiles), ExchangeStrategy(exchange)

    def id(self) -> AnchorReturnTypeId:
        """Which values come back."""
        return self._id

    def rp(self) -> int:
        """The period of EveryN."""
        if self._period is None:
            raise popart_exception("A return period should not be supplied for this anchor return type")
        return int(self._period)

    def tileSet(self) -> TileSet:
        """Which tiles send it."""
        return self._tiles

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When it is sent."""
        return self._exchange

    def __repr__(self) -> str:
        return f"AnchorReturnType({self._id.name}{'' if self._period is None else f', {self._period}'})"


class DataFlow:
    """How many batches a step has, and which tensors come back from it."""

    def __init__(
        self,
        batchesPerStep: int,
        anchorTensors: Any = None,
        anchorReturnType: AnchorReturnType | None = None,
        *,
        anchorIds: Sequence[str] | None = None,
    ) -> None:
        given = anchorIds if anchorTensors is None else anchorTensors
        self._anchors: dict[str, AnchorReturnType]
        if isinstance(given, Mapping):
            self._anchors = dict(given)
        else:
            usual = anchorReturnType or AnchorReturnType("All")
            self._anchors = {str(name): usual for name in given or []}
        for name, kind in self._anchors.items():
            if not isinstance(kind, AnchorReturnType):
                raise TypeError(f"The anchor {name!r} needs an AnchorReturnType, not {kind!r}.")
        self._batches = 0
        self.setBatchesPerStep(batchesPerStep)

    def setBatchesPerStep(self, batchesPerStep: int) -> None:
        """How many batches one `run` has."""
        if not isinstance(batchesPerStep, int) or isinstance(batchesPerStep, bool):
            raise TypeError(f"batchesPerStep must be a whole number, not {batchesPerStep!r}.")
        if batchesPerStep < 0:
            raise popart_exception(f"batchesPerStep must not be negative, and is {batchesPerStep}.")
        self._batches = batchesPerStep

    def batchesPerStep(self) -> int:
        """How many batches one `run` has."""
        return self._batches

    def isAnchored(self, name: str) -> bool:
        """Does a tensor come back?"""
        return name in self._anchors

    def nAnchors(self) -> int:
        """How many tensors come back."""
        return len(self._anchors)

    def anchors(self) -> list[str]:
        """Which tensors come back."""
        return list(self._anchors)

    def art(self, name: str) -> AnchorReturnType:
        """How often a tensor comes back."""
        if name not in self._anchors:
            raise popart_exception(f"There is no anchor {name!r}. Anchors are {self.anchors()}.")
        return self._anchors[name]


class InputShapeInfo:
    """Formats and shapes of inputs whose model leaves them open."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, name: str, info: TensorInfo) -> None:
        """Say what an input is."""
        self._infos[name] = info

    def get(self, name: str) -> TensorInfo:
        """What an input is."""
        if name not in self._infos:
            raise popart_exception(f"Nothing is known of the input {name!r}.")
        return self._infos[name]

    def has(self, name: str) -> bool:
        """Is an input described?"""
        return name in self._infos

    def _all(self) -> Mapping[str, TensorInfo]:
        return self._infos
