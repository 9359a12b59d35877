"""A thread less for the program while something compiles that cannot be given a lower priority.

In: the beginning and the end of such a compilation. Out: PyTorch uses one thread fewer in between, so that a core is
free, and threads do not wait for one that has to share its core. Several compilations need one core in all.
"""

from __future__ import annotations

import torch

_borrowed: list[int] = []  # how many threads there were, once for each compilation


def give_thread() -> None:
    """Use a thread less, if there are several."""
    threads = _borrowed[0] if _borrowed else torch.get_num_threads()
    _borrowed.append(threads)
    torch.set_num_threads(max(threads - 1, 1))


def take_thread_back() -> None:
    """Use all again, once nothing else compiles."""
    threads = _borrowed.pop()
    if not _borrowed:
        torch.set_num_threads(threads)
