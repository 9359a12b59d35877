"""Values of variables, on the host and on the device.

In: a program of the device, its variables. Out: before a run the device has what the host changed; afterwards the host
gets a value when it is asked for, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy

import tensorflow as tf
from openipu_tensorflow.keras.running.watching import unwatch, watch


class Device(Protocol):
    """The memory of a program, by the places of its variables."""

    def load(self, values: Mapping[int, numpy.ndarray[Any, Any]]) -> None: ...
    def read(self, places: Sequence[int]) -> Mapping[int, numpy.ndarray[Any, Any]]: ...


class ProgramMemory:
    """The variables of one program. Those of Keras are watched; others are copied with every run."""

    def __init__(self, device: Device, variables: Sequence[Any], written: Sequence[int]) -> None:
        """`variables`: of Keras, or of TensorFlow; `written`: places of those that a run changes."""
        self._device = device
        self._variables = list(variables)
        self._place = {id(variable): place for place, variable in enumerate(variables)}
        self._written = list(written)
        self._current: set[int] = set()  # places of variables whose value the device has
        self._stale: set[int] = set()  # ... and the host has not

    def begin(self) -> None:
        """Before a run."""
        late = [place for place in range(len(self._variables)) if place not in self._current]
        if late:
            self._device.load({place: read_value(self._variables[place]) for place in late})

    def end(self) -> None:
        """After a run."""
        self._stale.update(self._written)
        for place, variable in enumerate(self._variables):
            if is_watchable(variable):
                self._current.add(place)
                watch(variable, self)
        plain = [place for place in self._written if not is_watchable(self._variables[place])]
        self._fetch(plain)

    def before_access(self, variable: Any) -> None:
        """The host is about to read or write a variable."""
        place = self._place[id(variable)]
        unwatch(variable)
        self._current.discard(place)
        if place in self._stale:
            self._fetch([place])

    def fetch_all(self) -> None:
        """Copy everything back: the device is about to be given away."""
        for place in sorted(self._stale):
            self.before_access(self._variables[place])

    def _fetch(self, places: Sequence[int]) -> None:
        if not places:
            return
        with tf.init_scope():  # Keras may look at a variable while it traces a graph
            for place, value in self._device.read(places).items():
                self._stale.discard(place)
                held = self._variables[place]
                getattr(held, "_value", held).assign(value)


def is_watchable(variable: Any) -> bool:
    """Is it a variable of Keras?"""
    from keras.src.backend.tensorflow.core import Variable

    return isinstance(variable, Variable)


def read_value(variable: Any) -> numpy.ndarray[Any, Any]:
    """The host's value; whoever has a newer one is asked for it."""
    held = variable._value if is_watchable(variable) else variable
    found: numpy.ndarray[Any, Any] = held.numpy()
    return found
