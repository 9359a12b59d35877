"""How many results a call has, before its meta kernel makes them.

In: an operator that cuts a tensor into pieces, its arguments by name, and how many pieces the file declares. Out: a
refusal where the numbers differ: a tensor of a billion rows must not become a billion tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import fx

from openipu.admission.geometry import Geometry
from openipu.admission.refusal import refuse

_BY_SIZE = frozenset({"split.Tensor", "unsafe_split.Tensor"})


def check_pieces(node: fx.Node, arguments: Mapping[str, Any], declared: int) -> None:
    """Refuse a call with another number of pieces than declared."""
    operator: Any = node.target
    name, overload = operator._opname, operator._overloadname
    source = arguments.get("self", arguments.get("input"))
    if name not in ("unbind", "split", "unsafe_split", "chunk") or not isinstance(source, Geometry):
        return
    dim = arguments.get("dim", 0)
    if not isinstance(dim, int) or not -len(source.shape) <= dim < len(source.shape):
        refuse(node, f"{source} has no dimension {dim}", "dim")
    size = source.shape[dim]
    if name == "unbind":
        pieces = size
    elif name == "chunk":
        chunks = max(arguments["chunks"], 1)
        pieces = -(-size // -(-size // chunks)) if size else chunks  # fewer than asked for where rows run out
    elif f"{name}.{overload}" in _BY_SIZE and arguments["split_size"] > 0:
        pieces = max(-(-size // arguments["split_size"]), 1)
    else:
        return
    if pieces != declared:
        refuse(node, f"it returns {pieces} tensors, and {declared} are declared")
