"""Remote buffers: tables beside the IPU, of which a program loads and stores single entries.

In: nodes of a graph, and which of them are remote buffers. Out: which nodes load an entry, which ones store one, and
which are other names for a buffer. What loads or stores moves the entry alone; the buffer takes no memory of the IPU.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

from torch import fx

from openipu.graph import Graph, LoopCall
from openipu.ops import Trait, has_trait

LOADING = frozenset({"aten.select.int", "aten.slice.Tensor", "aten.index_select.default"})
STORING = frozenset({"aten.select_scatter.default", "aten.slice_scatter.default", "aten.index_copy.default"})
_COPY = "aten.clone.default"


def is_load(node: fx.Node) -> bool:
    """Whether this reads some entries of its first argument."""
    return str(node.target) in LOADING


def is_copy_of_load(node: fx.Node, buffers: Collection[fx.Node]) -> bool:
    """Whether this copies an entry that was loaded for it alone: what was loaded is a copy already."""
    source = node.args[0] if str(node.target) == _COPY else None
    if not isinstance(source, fx.Node) or not is_load(source) or len(source.users) > 1:
        return False
    return source.args[0] in buffers


def is_store(node: fx.Node) -> bool:
    """Whether this is its first argument with some entries replaced by its last one."""
    return str(node.target) in STORING


def find_remote(node: fx.Node, buffers: Collection[fx.Node]) -> frozenset[int]:
    """Which tensors of a loop are remote buffers, by their places."""
    if not isinstance(node.target, LoopCall):
        return frozenset()
    return frozenset(place for place, argument in enumerate(node.args) if argument in buffers)


def find_buffers(body: Graph, places: frozenset[int]) -> frozenset[fx.Node]:
    """Nodes of a body that are names for remote buffers, where these come in at some places."""
    if not places:
        return frozenset()
    nodes = list(body.module.graph.nodes)
    given = [node for node in nodes if node.op == "placeholder"]
    found = {given[place] for place in places}
    for node in nodes:
        if node.op != "call_function" or not node.all_input_nodes:
            continue
        first = node.args[0]
        if node.target is operator.getitem and isinstance(first, fx.Node):
            if node.args[1] in find_remote(first, found):  # results of a loop are what it carries, in their order
                found.add(node)
        elif first in found and (is_store(node) or _is_name(node)):
            found.add(node)
    return frozenset(found)


def _is_name(node: fx.Node) -> bool:
    return not is_load(node) and has_trait(str(node.target), Trait.VIEW)
