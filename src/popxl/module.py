"""Graphs that are built by a class, which keeps the inputs it makes."""

from __future__ import annotations

from typing import Any


class Module:
    """What `Ir.create_graph` takes beside plain functions: subclasses override `build`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Make the graph's ops; returns its outputs."""
        raise NotImplementedError("A class that is derived from popxl.Module says in `build` what it computes.")
