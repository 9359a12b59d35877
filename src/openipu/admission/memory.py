"""How much memory a graph needs at once, if it is run node by node.

In: nodes in their order, with the geometry of what each returns. Out: bytes. A view needs none of its own; what nobody
reads any more is freed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch import fx

from openipu.admission.geometry import Geometry, Inferred

Block = int


class Ledger:
    """Blocks of memory and who reads them."""

    def __init__(self, nodes: Sequence[fx.Node]) -> None:
        self.peak_bytes = 0
        self.input_bytes = 0
        self._live = 0
        self._sizes: list[int] = []
        self._blocks: dict[fx.Node, tuple[Block, ...]] = {}
        self._last: dict[fx.Node, list[fx.Node]] = defaultdict(list)  # node -> whom it reads last
        readers: dict[fx.Node, fx.Node] = {}
        for node in nodes:
            readers[node] = node
            for source in node.all_input_nodes:
                readers[source] = node
        for source, reader in readers.items():
            self._last[reader].append(source)
        self._holders: dict[Block, int] = defaultdict(int)  # nodes that may still be read

    def add_input(self, node: fx.Node, geometry: Geometry) -> None:
        """A tensor that is there before the graph runs, and stays."""
        self.input_bytes += geometry.memory
        block = self._open(geometry.memory)
        self._holders[block] += 1  # for ever
        self._hold(node, (block,))

    def add_results(self, node: fx.Node, found: Inferred, sources: Sequence[fx.Node], inside: int = 0) -> None:
        """What a node returns; while it runs, it needs `inside` bytes more."""
        blocks = [
            self._open(geometry.memory if geometry is not None else 0)
            if owner is None
            else self._blocks[sources[owner]][0]
            for geometry, owner in zip(found.results, found.owners, strict=True)
        ]
        self.peak_bytes = max(self.peak_bytes, self._live + inside)
        self._hold(node, tuple(blocks))

    def share(self, node: fx.Node, source: fx.Node, index: int) -> None:
        """One of several results under another name."""
        self._hold(node, (self._blocks[source][index],))

    def finish(self, node: fx.Node) -> None:
        """Free what was read for the last time."""
        for source in self._last.pop(node, ()):
            for block in self._blocks[source]:
                self._holders[block] -= 1
                if self._holders[block] == 0:
                    self._live -= self._sizes[block]

    def _open(self, size: int) -> Block:
        self._sizes.append(size)
        self._live += size
        self.peak_bytes = max(self.peak_bytes, self._live)
        return len(self._sizes) - 1

    def _hold(self, node: fx.Node, blocks: tuple[Block, ...]) -> None:
        self._blocks[node] = blocks
        for block in blocks:
            self._holders[block] += 1
