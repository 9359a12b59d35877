"""Replicas that run in step, because they exchange values on the way.

In: a function for each replica. Out: what each returns. Replicas take turns, always in the same order: each runs until
it gives something to the others or ends, then the next one does. When all have come to the same exchange, it happens,
and they go on. Each replica has a thread, and only one thread runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.errors import ReplicaError
from openipu.graph.meeting import Exchange, Tensors, taking_part

Values = Sequence[torch.Tensor]


@dataclass(frozen=True, eq=False)
class _Offer:
    """What a replica gives at an exchange."""

    key: Any
    exchange: Exchange
    tensors: Tensors


class _Stopped(BaseException):
    """Ends a replica that nobody waits for any more."""


class _Replica:
    """One replica: runs until it offers something, has ended, or has failed."""

    def __init__(self, function: Callable[[], Values]) -> None:
        self._function = function
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._given: Tensors | None = None
        self._stops = False
        self.offer: _Offer | None = None
        self.result: Values | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="openipu replica", daemon=True)
        self._thread.start()

    def advance(self, given: Tensors | None) -> None:
        """Run on, with what the last exchange gave."""
        self._given, self.offer = given, None
        self._go.release()
        self._paused.acquire()

    def stop(self) -> None:
        """End it where it waits."""
        if self._thread.is_alive():
            self._stops = True
            self._go.release()
        self._thread.join()

    def meet(self, key: Any, exchange: Exchange, tensors: Tensors) -> Tensors:
        self.offer = _Offer(key, exchange, tensors)
        self._paused.release()
        self._wait()
        assert self._given is not None
        return self._given

    def _wait(self) -> None:
        self._go.acquire()
        if self._stops:
            raise _Stopped

    def _run(self) -> None:
        try:
            self._wait()
            with torch.no_grad(), taking_part(self):
                self.result = self._function()
        except _Stopped:
            pass
        except BaseException as error:
            self.error = error
        self._paused.release()


Gather = Callable[[Sequence[Tensors]], tuple[Sequence[Tensors], slice]]  # all replicas' tensors; which are our own


def run_in_step(functions: Sequence[Callable[[], Values]], name: str, gather: Gather | None = None) -> list[Values]:
    """What each replica returns. `name`: of the program, for messages; `gather`: from replicas of other processes."""
    replicas = [_Replica(function) for function in functions]
    given: Sequence[Tensors | None] = [None] * len(replicas)
    try:
        while True:
            for replica, own in zip(replicas, given, strict=True):
                replica.advance(own)
                if replica.error is not None:
                    raise replica.error
            offers = [replica.offer for replica in replicas if replica.offer is not None]
            if not offers:
                return [_take(replica) for replica in replicas]
            if len(offers) < len(replicas) or any(offer.key != offers[0].key for offer in offers):
                raise ReplicaError(
                    f"The replicas of {name} have parted: some wait for an exchange between replicas that others do "
                    "not come to. A branch or a loop around an exchange must go the same way on every replica: let it "
                    "depend on values that all of them share."
                )
            tensors: Sequence[Tensors] = [offer.tensors for offer in offers]
            every, own_part = (tensors, slice(None)) if gather is None else gather(tensors)
            given = offers[0].exchange(every)[own_part]
    finally:
        for replica in replicas:
            replica.stop()


def _take(replica: _Replica) -> Values:
    assert replica.result is not None
    return replica.result
