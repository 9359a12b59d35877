"""Random numbers of the host: work that a plain trainer does not do must not use them up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Afterwards the generators of Python, NumPy and PyTorch are where they were before."""
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])
