"""Tables in the memory of the host, of which a running program reads rows and changes them.

In: a table under a name, by whoever holds it while programs run. Out: rows, and a table that has been updated. The
update is gradient descent, at once or once for so many micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from openipu.errors import InputError


@dataclass(eq=False)
class HostTable:
    """Rows of numbers, and what waits to be added to them."""

    rows: torch.Tensor
    waiting: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)


_tables: dict[str, HostTable] = {}


def hold_table(name: str, rows: torch.Tensor) -> None:
    """Let programs use a table, until `release_table`."""
    if name in _tables:
        raise InputError(f"There is a host embedding {name!r} already: give this one another name.")
    _tables[name] = HostTable(rows.clone())


def release_table(name: str) -> torch.Tensor:
    """The table as programs have left it, which they cannot use any more."""
    return _tables.pop(_check(name)).rows


def read_rows(name: str, indices: torch.Tensor) -> torch.Tensor:
    """Copies of rows."""
    return _tables[_check(name)].rows[indices.to(torch.int64)].clone()


def add_rows(name: str, indices: torch.Tensor, changes: torch.Tensor, factor: int = 1) -> None:
    """Add to rows; with a factor above 1, when so many changes have come."""
    table = _tables[_check(name)]
    table.waiting.append((indices.to(torch.int64).reshape(-1), changes.reshape(-1, table.rows.shape[1])))
    if len(table.waiting) >= factor:
        for places, rows in table.waiting:
            table.rows.index_add_(0, places, rows.to(table.rows.dtype))
        table.waiting.clear()


def _check(name: str) -> str:
    if name not in _tables:
        raise InputError(
            f"The program reads the host embedding {name!r}, and nobody holds it: run it inside "
            "`with host_embedding.register(session)`."
        )
    return name
