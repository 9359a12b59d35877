"""Memory of tiles.

In: a profile. Out: one `Tile` for each tile of a replica. A plan leaves no gaps between variables, so sizes with and
without gaps are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openipu.report.profile import Profile
from pva._lists import LazyList
from pva._programs import VertexType

OTHER_CATEGORIES = (
    "constant",
    "controlId",
    "controlTable",
    "copyDescriptor",
    "globalExchangeCode",
    "globalExchangePacketHeader",
    "hostExchangePacketHeader",
    "instrumentationResults",
    "stack",
    "vectorListDescriptor",
    "vertexFieldData",
)


@dataclass(frozen=True)
class Sizes:
    """Bytes, with and without the holes between variables."""

    includingGaps: int
    excludingGaps: int


@dataclass(frozen=True)
class CategorySize:
    """Bytes of one kind of storage."""

    total: int


class Categories:
    """Attributes with the names of the original: `category.vertexCode.total`. What a plan does not model is 0."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = dict.fromkeys(OTHER_CATEGORIES, 0) | sizes

    def __getattr__(self, name: str) -> CategorySize:
        sizes: dict[str, int] = self.__dict__["_sizes"]
        if name not in sizes:
            raise AttributeError(f"there is no storage category {name}: there are {', '.join(sorted(sizes))}")
        return CategorySize(sizes[name])

    def __dir__(self) -> list[str]:
        return sorted(self._sizes)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._sizes))


@dataclass(frozen=True)
class TileVertex:
    """Code of one vertex type on a tile."""

    type: VertexType
    codeBytes: int


class TileMemory:
    """What one tile holds."""

    def __init__(self, profile: Profile, ipu: int, tile: int) -> None:
        self._profile, self._ipu, self._tile = profile, ipu, tile
        memory = profile.memory[ipu]
        self.alwaysLiveBytes = int(memory.always_live_total[tile])
        self.notAlwaysLiveBytes = int(memory.peak_not_always_live[tile])
        total = self.alwaysLiveBytes + self.notAlwaysLiveBytes
        self.total = Sizes(total, total)
        over = max(0, total - profile.fit.limit_bytes)
        self.overflowed = Sizes(over, over)
        self.category = Categories(
            {name: int(values[tile]) for name, values in memory.categories.items()}
            | {"variable": int(memory.always_live[tile]) + self.notAlwaysLiveBytes}
        )

    @property
    def vertices(self) -> list[TileVertex]:
        """The vertex types whose code lies on this tile."""
        steps, tiles = self._profile.steps, self._profile.system.target.tiles
        place = (self._tile - steps.first_tile) % tiles
        here = (steps.ipu == self._ipu) & (place < steps.tiles) & (steps.vertices_per_tile > 0)
        found: dict[str, int] = {}
        for step in here.nonzero()[0].tolist():
            found.setdefault(steps.vertex[step], int(steps.state_bytes[step] // steps.vertices_per_tile[step]))
        code = self._profile.vertex_code_bytes
        return [TileVertex(VertexType(name, size), code[name]) for name, size in found.items()]


@dataclass(frozen=True)
class Tile:
    """One tile."""

    _profile: Profile
    ipu: int
    tile: int

    @property
    def memory(self) -> TileMemory:
        return TileMemory(self._profile, self.ipu, self.tile)


@dataclass(frozen=True)
class Ipu:
    """One IPU of a replica."""

    tiles: Sequence[Tile]


def list_tiles(profile: Profile, replicas: int) -> LazyList[Tile]:
    """All tiles of all replicas; replicas are alike."""
    tiles, ipus = profile.system.target.tiles, len(profile.memory)
    return LazyList(
        tiles * ipus * replicas, lambda index: Tile(profile, index // tiles % ipus, index % tiles), keep=False
    )
