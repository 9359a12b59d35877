"""How a program from a file is refused.

In: what is wrong, and with which node. Out: a `ProgramFileError` that names the node, its operator and the argument.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import fx

from openipu.errors import ProgramFileError


def refuse(node: fx.Node, problem: str, argument: str = "") -> NoReturn:
    """Refuse the program for what one of its nodes says."""
    place = f", argument {argument}" if argument else ""
    raise ProgramFileError(f"node {node.name} ({name_target(node)}{place}): {problem}")


def name_target(node: fx.Node) -> str:
    """What a node calls, as a file names it."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._name)
    return node.op if isinstance(target, str) else str(getattr(target, "__name__", target))
