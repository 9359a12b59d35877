"""What a deterministic run holds fast while it computes.

In: the inputs of a call. Out: the same values in memory that is aligned alike in every run, and PyTorch with one number
of threads and without kernels that add in the order in which threads arrive. `engines/supervisor.py` compiles
nothing for a deterministic program; batching, the choice of libraries and random numbers depend on the program, the
processor and the seed alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import deterministic

from openipu.errors import OptionError

_logger = logging.getLogger("openipu")
_COMPLAINT = "does not have a deterministic implementation"


class Repeatable:
    """The settings of one program's runs: those of the moment when it was made."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.threads = torch.get_num_threads()
        _logger.info("%s runs deterministically: compiles nothing, with %d threads.", name, self.threads)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Compute alike in here; what the user has set comes back afterwards."""
        threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
        filled = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
        torch.set_num_threads(self.threads)  # also keeps MKL from choosing fewer when it sees fit
        torch.set_deterministic_debug_mode("error")
        deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nobody reads it
        try:
            yield
        except RuntimeError as error:
            if _COMPLAINT not in str(error):
                raise
            operator = str(error).split(" ", 1)[0]
            raise OptionError(
                f"{self._name} cannot run deterministically: PyTorch's {operator} {_COMPLAINT} on this host. Leave out "
                "the option deterministic (OPENIPU_DETERMINISTIC, `openipu run --deterministic`), or that operator."
            ) from error
        finally:
            torch.set_num_threads(threads)
            torch.set_deterministic_debug_mode(mode)
            deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]

    @staticmethod
    def align(leaves: Sequence[Any]) -> list[Any]:
        """Copies in memory of PyTorch's own: libraries sum in another order where a tensor begins somewhere else."""
        return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
