"""The inside of loops and branches, as the op table sees it.

In: a node whose target is a `GraphCall`, and which of its tensors are remote buffers. Out: one `SiteBody` for each
graph that it runs, nested ones included.
"""

from __future__ import annotations

import operator

from torch import fx

from openipu.graph import Graph, GraphCall, LoopCall
from openipu.ops import LOAD, STORE, Trait, has_trait
from openipu.ops.cost import OpSite, SiteBody
from openipu.plan.lowering.entries import find_buffers, find_remote, is_copy_of_load, is_load, is_store
from openipu.plan.lowering.sites import describe_argument, list_results, list_tensor_arguments


def list_bodies(node: fx.Node, remote: frozenset[int] = frozenset()) -> tuple[SiteBody, ...]:
    """What a loop or a branch runs; nothing for any other node. `remote`: places of tensors beside the IPU."""
    call = node.target
    if not isinstance(call, GraphCall):
        return ()
    repeats = call.count if isinstance(call, LoopCall) else 1
    bodies = [_Body(body, remote) for body in call.bodies]
    return tuple(SiteBody(body.list_sites(), repeats, body.measure_peak()) for body in bodies)


class _Body:
    def __init__(self, body: Graph, remote: frozenset[int]) -> None:
        self.nodes = list(body.module.graph.nodes)
        self.buffers = find_buffers(body, remote)

    def list_sites(self) -> tuple[OpSite, ...]:
        return tuple(self._describe(node) for node in self.nodes if self._is_work(node))

    def measure_peak(self) -> int:
        """Bytes of the body's own values at the worst time; a view keeps what it shows alive."""
        last_use: dict[fx.Node, int] = {}
        for position, node in enumerate(self.nodes):
            for source in node.all_input_nodes:
                last_use[self._find_owner(source)] = position
        dying: dict[int, int] = {}
        live = peak = 0
        for position, node in enumerate(self.nodes):
            if self._is_work(node) and node not in self.buffers:
                size = sum(operand.bytes for item, operand in list_results(node) if not self._is_away(node, item))
                live += size
                peak = max(peak, live)
                last = last_use.get(node, position)
                dying[last] = dying.get(last, 0) + size
            live -= dying.pop(position, 0)
        return peak

    def _describe(self, node: fx.Node) -> OpSite:
        results = tuple(operand for item, operand in list_results(node) if not self._is_away(node, item))
        if self._reads_buffer(node):
            if is_load(node):
                return OpSite(LOAD, results, {}, results)
            if is_store(node):
                entry = list(list_tensor_arguments(node))[-1]
                return OpSite(STORE, (describe_argument(entry),), {}, ())
        return OpSite(
            str(node.target),
            tuple(describe_argument(argument) for argument in node.args if argument not in self.buffers),
            {key: describe_argument(argument) for key, argument in node.kwargs.items()},
            results,
            bodies=list_bodies(node, find_remote(node, self.buffers)),
        )

    def _reads_buffer(self, node: fx.Node) -> bool:
        return bool(node.args) and node.args[0] in self.buffers

    def _is_away(self, node: fx.Node, item: int) -> bool:
        """Whether a result of a loop is a remote buffer."""
        return item in find_remote(node, self.buffers)

    def _find_owner(self, node: fx.Node) -> fx.Node:
        while node.op == "call_function" and not self._is_work(node) and node.all_input_nodes:
            node = node.all_input_nodes[0]
        return node

    def _is_work(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node.target is operator.getitem:
            return False
        if self._reads_buffer(node):
            return node not in self.buffers or is_store(node)
        return not has_trait(str(node.target), Trait.VIEW) and not is_copy_of_load(node, self.buffers)
