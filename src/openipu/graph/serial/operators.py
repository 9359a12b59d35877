"""Which operators a file may name.

In: a name such as `aten::add.Tensor`. Out: the operator. Only operators that PyTorch's dispatcher has registered, in
the namespaces of ATen and of openipu, that change none of their arguments, return something, and touch no files.
"""

from __future__ import annotations

import re
from functools import cache

import torch

from openipu.errors import ArchiveError

NAMESPACES = ("aten", "prims", "openipu")

# The first maps a file of any name; the second is how capture records what only this process has.
_REFUSED = ("aten::from_file", "openipu::call")
_NAME = re.compile(r"([a-z]+)::([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_]*))?")


def name_operator(operator: torch._ops.OpOverload) -> str:
    """The registered name of an operator, if a file may hold it."""
    name: str = operator._name
    if find_operator(name) is not operator:
        raise ArchiveError(f"the operator {name} is registered more than once")
    return name


@cache
def find_operator(name: str) -> torch._ops.OpOverload:
    """The operator of this name; ArchiveError if a program cannot hold it."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] not in NAMESPACES:
        raise ArchiveError(f"{name!r} is not the name of an operator of {', '.join(NAMESPACES)}")
    namespace, short, overload = match.groups()
    if f"{namespace}::{short}" in _REFUSED:
        raise ArchiveError(f"a program cannot hold the operator {name}")
    packet = getattr(getattr(torch.ops, namespace), short, None)
    found = getattr(packet, overload or "default", None) if isinstance(packet, torch._ops.OpOverloadPacket) else None
    # The dispatcher knows tensor operators alone. TorchScript's own, such as `aten::save`, are not among them.
    if not isinstance(found, torch._ops.OpOverload) or name not in _list_registered():
        raise ArchiveError(f"this PyTorch has no operator {name}")
    schema = found._schema
    if schema.is_mutable or not schema.returns:
        raise ArchiveError(f"the operator {name} changes its arguments or returns nothing, which no program does")
    return found


def _list_registered() -> frozenset[str]:
    return _count_registered(len(torch._C._dispatch_get_all_op_names()))


@cache
def _count_registered(count: int) -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())
