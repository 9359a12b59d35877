"""Where the replicas of a program meet while they run.

In: a member for each replica, which somebody sets for the thread that runs it. Out: `meet`, by which a call inside a
graph gives its tensors and gets what all replicas together make of them. Outside of any meeting a program is alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

Tensors = Sequence[torch.Tensor]
Exchange = Callable[[Sequence[Tensors]], Sequence[Tensors]]  # what each replica gives -> what each gets


class Member(Protocol):
    """One replica of several that run in step."""

    def meet(self, key: Any, exchange: Exchange, tensors: Tensors) -> Tensors:
        """Wait for the others at the same call; what this replica gets."""
        ...


_local = threading.local()


@contextmanager
def taking_part(member: Member) -> Iterator[None]:
    """What this thread runs is one replica of several."""
    before = getattr(_local, "member", None)
    _local.member = member
    try:
        yield
    finally:
        _local.member = before


def meet(key: Any, exchange: Exchange, tensors: Tensors) -> Tensors:
    """Exchange tensors with the other replicas. `key`: what tells this call from others."""
    member: Member | None = getattr(_local, "member", None)
    if member is None:
        return exchange([tensors])[0]
    return member.meet(key, exchange, tensors)
