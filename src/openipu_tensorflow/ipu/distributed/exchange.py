"""Values that the hosts of a job's instances tell each other, by name.

In: a name and an array. Out: the arrays of all instances, in their order. Instances may ask for several names in
different orders: each value waits under its own name in the store that torch.distributed keeps for the job. Every
instance combines the same values in the same order, so that results are equal to the bit.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy

import popdist
import tensorflow as tf
from openipu.errors import InstanceError

Array = Any
_PREFIX = "openipu_tensorflow"


class HostExchange:
    """The instances of a job, seen from one of them."""

    def __init__(self, store: Any, index: int, count: int) -> None:
        self._store, self._index, self._count = store, index, count
        self._rounds: Counter[str] = Counter()
        self._lock = threading.Lock()

    def gather(self, name: str, value: Array) -> list[Array]:
        """What each instance has under this name."""
        return self._exchange(name, value, range(self._count))

    def take(self, name: str, value: Array, source: int) -> Array:
        """What one instance has under this name; the others' values say what they expect.

        The one that gives waits for nobody: a session runs few ops at a time, in an order of its own, and two instances
        that give and take many would wait for each other.
        """
        return self._exchange(name, value, [source])[0]

    def _exchange(self, name: str, value: Array, sources: Sequence[int]) -> list[Array]:
        value = numpy.asarray(value)  # of no dimension, it stays so
        layout = _describe(value)
        with self._lock:
            self._rounds[name] += 1
            key = f"{name}/{self._rounds[name]}"
        try:
            if self._index in sources:
                self._store.set(f"{key}/value/{self._index}", value.tobytes())
            self._store.set(f"{key}/layout/{self._index}", json.dumps(layout))
            asked = range(self._count) if len(sources) > 1 else sources
            layouts = {number: json.loads(self._store.get(f"{key}/layout/{number}")) for number in asked}
            matched = all(entry == layout for entry in layouts.values())
            found = [self._store.get(f"{key}/value/{number}") for number in sources] if matched else []
            self._clean(key)
        except RuntimeError as error:
            raise InstanceError(
                f"Instance {self._index} of {self._count} lost the others when they exchanged {name!r}: "
                f"{str(error).splitlines()[0]}. Another instance has ended, or did not ask for it; what it wrote last "
                "says why."
            ) from error
        if not matched:
            known = {**layouts, self._index: layout}
            told = ", ".join(f"{dtype} {shape} on instance {place}" for place, (dtype, shape) in sorted(known.items()))
            raise tf.errors.UnknownError(
                None,
                None,
                f"Tensor layouts did not match on all instances: {name!r} is {told}. Let every instance call this with "
                "a tensor of the same type and shape.",
            )
        return [numpy.frombuffer(data, value.dtype).reshape(value.shape) for data in found]

    def _clean(self, key: str) -> None:
        """The last one to read removes what was exchanged."""
        if self._store.add(f"{key}/read", 1) == self._count:
            for number in range(self._count):
                for kind in ("layout", "value"):
                    self._store.delete_key(f"{key}/{kind}/{number}")
            self._store.delete_key(f"{key}/read")


def _describe(value: Array) -> list[Any]:
    return [value.dtype.name, list(value.shape)]


class _Alone:
    """One instance: what it has is what all have."""

    def gather(self, name: str, value: Array) -> list[Array]:
        return [numpy.asarray(value)]

    def take(self, name: str, value: Array, source: int) -> Array:
        return numpy.asarray(value)


_current: HostExchange | None = None


def find_exchange() -> HostExchange | _Alone:
    """The exchange of this process; the first time it waits for the other instances."""
    global _current
    count = popdist.getNumInstances()
    if count == 1:
        return _Alone()
    if _current is None:
        import torch.distributed as distributed

        popdist.init()
        c10d = distributed.distributed_c10d
        store = c10d.PrefixStore(_PREFIX, c10d._get_default_store())
        _current = HostExchange(store, popdist.getInstanceIndex(), count)
    return _current


def reduce_arrays(values: Sequence[Array], *, mean: bool) -> Array:
    """One value of all, in their type."""
    total = numpy.stack(values).sum(axis=0, dtype=values[0].dtype)
    return (total / len(values)).astype(values[0].dtype) if mean else total
