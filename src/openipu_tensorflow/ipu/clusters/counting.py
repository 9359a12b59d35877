"""The number of a round, for programs that ask for it.

In: a traced level that runs a known number of rounds: a pipeline's micro-batches, or a loop. Out: an infeed of that
level which delivers their numbers, the same to all replicas.
"""

from __future__ import annotations

from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.programs import Surroundings
from openipu_tensorflow.ipu.clusters.tracing import Level, make_placeholders
from openipu_tensorflow.ipu.clusters.updates import find_trace

ROUNDS = "rounds"  # a mark of levels: how many there are


class RoundCounter:
    """Counts from 0, and again from 0 after the last round of its level."""

    def __init__(self, level: Level) -> None:
        self._level, self._next = level, 0

    def take_rounds(self, rounds: int, replicas: int) -> list[Any]:
        """The numbers of the next rounds, replicas behind one another."""
        numbers = (numpy.arange(self._next, self._next + rounds) % self._level.marks[ROUNDS]).astype(numpy.int32)
        self._next = (self._next + rounds) % int(self._level.marks[ROUNDS])
        return [numpy.repeat(numbers, replicas)]


def count_rounds() -> Any:
    """The number of the round of the level that is being traced: a scalar."""
    from tensorflow.python.framework import constant_op

    level = find_trace("get_current_iteration_counter").level
    if not isinstance(level.marks.get(ROUNDS), int):
        raise NotImplementedError(
            "get_current_iteration_counter: it counts the micro-batches of a pipeline, or the rounds of "
            "ipu.loops.repeat, and is called in neither, or their number is a tensor. Carry a counter through the "
            "loop: ipu.loops.repeat(n, body, [0])."
        )
    for queue, made in level.infeeds:
        if isinstance(queue, RoundCounter):
            return made[0]
    made = make_placeholders([constant_op.constant(0)], "iteration_counter")
    level.infeeds.append((RoundCounter(level), made))
    return made[0]


def take_rounds(around: Surroundings, queue: Any, rounds: int) -> list[Any]:
    """What an infeed of a level delivers for the next rounds, on all replicas."""
    if isinstance(queue, RoundCounter):
        return queue.take_rounds(rounds, around.replicas)
    return list(queue.take(around.session, around.run, rounds * around.replicas))
