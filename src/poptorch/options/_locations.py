"""Options.TensorLocations: where weights, activations and optimizer state are to live."""

from __future__ import annotations

from typing import Any

from poptorch.options._storage import OptionsDict


class TensorLocationSettings(OptionsDict):
    """Where one kind of tensor is to live. None of it changes results."""

    def minElementsForOffChip(self, min_elements: int) -> TensorLocationSettings:
        return self._store(int, minElementsForOffChip=min_elements)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> TensorLocationSettings:
        return self._store(int, minElementsForReplicatedTensorSharding=min_elements)

    def useOnChipStorage(self, use: bool | None = True) -> TensorLocationSettings:
        return self._store_or_drop("onChip", use)

    def useReplicatedTensorSharding(self, use: bool | None = True) -> TensorLocationSettings:
        return self._store_or_drop("useReplicatedTensorSharding", use)

    def useIOTilesToLoad(self, use: bool | None = True) -> TensorLocationSettings:
        return self._store_or_drop("useIOTilesToLoad", use)

    def useIOTilesToStore(self, use: bool | None = True) -> TensorLocationSettings:
        return self._store_or_drop("useIOTilesToStore", use)

    def _store_or_drop(self, name: str, use: bool | None) -> TensorLocationSettings:
        if use is None:
            self.deleteIfExists(name)
            return self
        return self._store(bool, **{name: use})

    def _store(self, expected: type, **values: Any) -> TensorLocationSettings:
        for name, value in values.items():
            assert type(value) is expected, f"{name} takes {expected.__name__}, not {value!r}"
        self.createOrSet(**values)
        return self


class _TensorLocationOptions(OptionsDict):
    """Options.TensorLocations"""

    def __init__(self) -> None:
        super().__init__(location_activation={}, location_weight={}, location_optimizer={}, location_accumulator={})

    def numIOTiles(self, num_tiles: int) -> _TensorLocationOptions:
        """Tiles that are set aside for host transfers."""
        valid = isinstance(num_tiles, int) and 32 <= num_tiles <= 192 and num_tiles % 2 == 0
        assert valid, "numIOTiles must be an even number between 32 and 192."
        self.createOrSet(numIOTiles=num_tiles)
        return self

    def setActivationLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        return self._place("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        return self._place("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        return self._place("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> _TensorLocationOptions:
        return self._place("location_accumulator", location)

    def _place(self, name: str, location: TensorLocationSettings) -> _TensorLocationOptions:
        assert isinstance(location, TensorLocationSettings), f"{name} takes a poptorch.TensorLocationSettings"
        self.set(**{name: location.toDict()})
        return self
