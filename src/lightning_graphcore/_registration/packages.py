"""The two names under which Lightning is installed: `lightning.pytorch` and `pytorch_lightning`.

In: the name of one of them. Out: a `Package`: the classes and functions of Lightning that this front end builds on.
Both hold the same code, but their classes are not each other's, so each gets an accelerator and a strategy of its own.
"""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

ROOTS = ("lightning.pytorch", "pytorch_lightning")
DESCRIPTION = "IPUs, modelled by openipu"


@dataclass(frozen=True)
class Package:
    """One installed Lightning."""

    root: str

    def load(self, module: str) -> ModuleType:
        """A module below the root: `load("strategies.parallel")`."""
        return importlib.import_module(f"{self.root}.{module}")

    def find(self, path: str) -> Any:
        """A name below the root: `find("strategies.parallel.ParallelStrategy")`."""
        module, _, name = path.rpartition(".")
        return getattr(self.load(module), name)

    @property
    def has_own_ipus(self) -> bool:
        """Lightning 1 came with an accelerator and a strategy for IPUs, which call PopTorch by themselves."""
        return str(importlib.import_module(self.root).__version__).startswith("1.")

    @property
    def configuration_error(self) -> type[Exception]:
        """What Lightning raises for arguments that do not go together."""
        found: type[Exception] = self.find("utilities.exceptions.MisconfigurationException")
        return found

    def warn(self, message: str) -> None:
        self.find("utilities.rank_zero.rank_zero_warn")(message)

    def inform(self, message: str) -> None:
        self.find("utilities.rank_zero.rank_zero_info")(message)

    def is_overridden(self, method: str, instance: Any) -> bool:
        return bool(self.find("utilities.model_helpers.is_overridden")(method, instance))

    def __repr__(self) -> str:
        return f"Package({self.root!r})"


class TwinMeta(abc.ABCMeta):
    """The metaclass of classes that exist once for each Lightning: each takes its twins' instances for its own."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        core = cls.__mro__[1] if "package" in vars(cls) else None
        return core is not None and any(
            "package" in vars(other) and other.__mro__[1] is core for other in type(instance).__mro__[:-1]
        )


@functools.cache
def open_package(root: str) -> Package:
    return Package(root)


def is_imported(root: str) -> bool:
    """Has the user's program loaded this package, completely?"""
    module = sys.modules.get(root)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def is_installed(root: str) -> bool:
    try:
        return importlib.util.find_spec(root) is not None
    except ModuleNotFoundError:  # of the parent
        return False


def choose_package() -> Package:
    """The one that the program has imported; if that is both or none, `lightning` before `pytorch_lightning`."""
    imported = [root for root in ROOTS if is_imported(root)]
    if len(imported) == 1:
        return open_package(imported[0])
    for root in ROOTS:
        if is_installed(root):
            return open_package(root)
    from openipu.environment.extras import explain_missing

    raise explain_missing(ModuleNotFoundError(name=ROOTS[0]), "lightning_graphcore", "lightning")
