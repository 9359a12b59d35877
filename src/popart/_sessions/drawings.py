"""Drawings of a session's graph, in the dot language.

In: a graph, options. Out: one file `<check>.dot` in `logDir` for each of `dotChecks` and of the environment variable
POPART_DOT_CHECKS ("FWD0:FINAL"). PopART draws its graph between transforms; here there are none, so that each file has
the same ops.
"""

from __future__ import annotations

import os
from pathlib import Path

from openipu.files.saving import save_bytes
from openipu.translate import ForeignGraph, ForeignNode
from popart._exceptions import popart_exception
from popart._options import SessionOptions

VARIABLE = "POPART_DOT_CHECKS"
CHECKS = ("FWD0", "FWD1", "BWD0", "PREALIAS", "MAINLOOPS", "FINAL")
_ALL = "ALL"


def draw(graph: ForeignGraph, options: SessionOptions) -> None:
    """Write the drawings that are asked for."""
    for check in _list_checks(options):
        save_bytes(Path(str(options.logDir)) / f"{check.lower()}.dot", _describe(graph, options).encode())


def _list_checks(options: SessionOptions) -> list[str]:
    asked = [getattr(check, "name", str(check)).upper() for check in options.dotChecks]
    asked += [check.upper() for check in os.environ.get(VARIABLE, "").split(":") if check]
    for check in asked:
        if check not in (*CHECKS, _ALL):
            raise popart_exception(f"Unrecognised dot check {check!r}. Known are {', '.join((*CHECKS, _ALL))}.")
    return [check for check in CHECKS if check in asked or _ALL in asked]


def _describe(graph: ForeignGraph, options: SessionOptions) -> str:
    first, last = int(options.firstDotOp), int(options.finalDotOp)
    nodes = graph.nodes[first:last]
    lines = [f"  op{number} [shape=box, label={_quote(_title(node, options))}];" for number, node in enumerate(nodes)]
    for number, node in enumerate(nodes):
        lines += [f"  {_quote(name)} -> op{number};" for name in node.inputs if name]
        lines += [f"  op{number} -> {_quote(name)};" for name in node.outputs if name]
    return "\n".join(["digraph G {", *lines, "}", ""])


def _title(node: ForeignNode, options: SessionOptions) -> str:
    return f"{node.op} ({node.name})" if options.dotOpNames else node.op


def _quote(text: str) -> str:
    kept = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{kept}"'
