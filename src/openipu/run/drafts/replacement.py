"""Replacement of values by passes that change a whole graph, and so are no rules."""

from __future__ import annotations

from torch import fx


def replace_value(graph: fx.Graph, old: fx.Node, new: fx.Node) -> None:
    """Let all readers of a value read another one, and take the old one out."""
    old.replace_all_uses_with(new)
    graph.erase_node(old)
