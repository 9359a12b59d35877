"""Names of Python for what a graph names otherwise.

In: names of nodes, inputs and tensors. Out: identifiers, each used once; and the paths of tensors in a module tree.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable

from openipu.graph import RECURRENT_OPS

_GLOBAL = ("aten", "prims", "torch", "Path", "WEIGHTS", "Model", *RECURRENT_OPS)  # of the exported file
_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_GLOBAL, "self", "held"})


class Identifiers:
    """Gives out identifiers of one scope."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = {*_RESERVED, *taken}

    def claim(self, wished: str) -> str:
        """An identifier like the wished one that nobody has."""
        base = re.sub(r"\W+", "_", wished, flags=re.ASCII).strip("_") or "value"
        if base[0].isdigit():
            base = f"_{base}"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def choose_paths(names: Iterable[str]) -> dict[str, str]:
    """Where each tensor stands in a tree of modules: under its own name, unless some names make no tree.

    Names of other frameworks may be "w" and "w.1", or "a..b": then all of them stand at the root, without dots.
    """
    listed = list(names)
    inner = {name.rpartition(".")[0] for name in listed}
    inner |= {path for name in inner for path in _list_parents(name)}
    if all(all(name.split(".")) for name in listed) and not inner.intersection(listed):
        return {name: name for name in listed}
    identifiers = Identifiers()
    return {name: identifiers.claim(name) for name in listed}


def _list_parents(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
