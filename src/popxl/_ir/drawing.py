"""Graphs as text for Graphviz.

In: graphs. Out: one file, `<check>.dot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openipu.files.saving import save_text

if TYPE_CHECKING:
    from popxl.graph import Graph


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def draw_graphs(graphs: Sequence[Graph], check: str, directory: Path) -> Path:
    """Ops are nodes, tensors are edges; each graph is a cluster."""
    lines = ["digraph D {", 'size="12,300"', "node[fontsize=12]"]
    for number, graph in enumerate(graphs):
        lines.append(f"subgraph cluster_{number} {{ label={_quote(graph.name or 'main')}")
        for op in graph._ops:
            lines.append(f"n{op.id} [label={_quote(f'{op.kind}.{op.id}')}]")
            for tensor in op.inputs:
                source = f"n{tensor._producer.id}" if tensor._producer is not None else _quote(tensor.id)
                shown = f"{tensor.id} {tensor.dtype.name}{list(tensor.shape)}"
                lines.append(f"{source} -> n{op.id} [label={_quote(shown)}]")
        lines.append("}")
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{check}.dot"
    save_text(target, "\n".join([*lines, "}", ""]))
    return target
