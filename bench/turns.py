"""Letting several ways take turns, so that noise hits all alike.

In: players, of which each can play a turn. Out: seconds of each player in each round, None where it sat the round out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Seconds = dict[str, list[float | None]]

TURN_SECONDS = 0.1  # a turn is at least this long: its first steps refill the caches that the others emptied
# A thread pool that spins before it sleeps does so for some milliseconds: the next way starts after that.
PAUSE_SECONDS = 0.015
SLOW_RATIO = 3  # a way that takes so much longer than all others together
SLOW_PACE = 3  # plays in every third round: with four rounds twice


@dataclass(frozen=True)
class Player:
    """One who takes turns."""

    play: Callable[[], float | None]  # seconds a step; None if it failed
    pace: int = 1  # plays in every so manieth round


@dataclass(frozen=True)
class Budget:
    """How long to go on."""

    rounds: int = 20  # at most
    minimum_rounds: int = 5
    seconds: float = 30.0  # no further round after that, once the minimum is reached


def take_turns(
    players: Mapping[str, Player],
    budget: Budget,
    after_round: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Seconds:
    """Play round after round. Each round starts with another player, so that nobody always follows the same one."""
    seconds: Seconds = {name: [] for name in players}
    names = list(players)
    started = clock()
    for number in range(budget.rounds):
        if number >= budget.minimum_rounds and clock() - started > budget.seconds:
            break
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            if number % players[name].pace:
                seconds[name].append(None)
                continue
            sleep(PAUSE_SECONDS)
            seconds[name].append(players[name].play())
        after_round()
    return seconds


def choose_steps(step_seconds: Mapping[str, float]) -> int:
    """Steps of a turn, the same for all, so that the quickest way's turn is long enough."""
    return max(1, math.ceil(TURN_SECONDS / min(step_seconds.values())))


def choose_pace(own_seconds: float, others_seconds: float) -> int:
    """In which rounds a way plays: in all, or seldom if it takes far longer than all others together."""
    return SLOW_PACE if own_seconds >= SLOW_RATIO * others_seconds else 1
