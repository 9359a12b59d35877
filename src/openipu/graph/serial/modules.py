"""Graph modules that generate their Python when they are first called.

In: a graph. Out: an `fx.GraphModule`. Planning and running read the graph alone; half the time of reading a program
would go into code that nobody calls.
"""

from __future__ import annotations

from typing import Any

from torch import fx


class LateModule(fx.GraphModule):
    """fx gives each instance a class of its own, on which it sets `forward`: here, one that generates the real one."""

    def recompile(self) -> Any:
        type(self).forward = _forward_first

    @property
    def code(self) -> str:
        """The generated Python."""
        return str(fx.GraphModule.recompile(self).src)


def _forward_first(self: LateModule, *args: Any, **kwargs: Any) -> Any:
    fx.GraphModule.recompile(self)
    return self.forward(*args, **kwargs)
