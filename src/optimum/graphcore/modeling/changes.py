"""What `parallelize` did to a model, as records that can be undone.

In: a model and one change to it. Out: the changed model and a `Change`; `undo` leaves the model as it was, with the
weights of today. Records name modules by path and hold no module, so that a copied model brings its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn


class Change(Protocol):
    """One thing that was done to a model."""

    def undo(self, model: nn.Module) -> None: ...


@dataclass(frozen=True)
class ClassChange:
    """A module works by another class, on the same parameters."""

    path: str
    original: type[nn.Module]

    def undo(self, model: nn.Module) -> None:
        model.get_submodule(self.path).__class__ = self.original


@dataclass(frozen=True)
class ModuleChange:
    """Another module stands in place of one. It knows how to become the original again: `to_model`."""

    path: str

    def undo(self, model: nn.Module) -> None:
        current = model.get_submodule(self.path)
        restored = current.to_model()  # type: ignore[operator]
        model.set_submodule(self.path, restored.train(current.training))


@dataclass(frozen=True)
class AttributeChange:
    """An attribute of a module, or of what the module holds (`config.use_cache`), has another value."""

    path: str
    name: str
    original: Any

    def undo(self, model: nn.Module) -> None:
        owner, name = find_owner(model.get_submodule(self.path), self.name)
        setattr(owner, name, self.original)


def find_owner(module: nn.Module, name: str) -> tuple[Any, str]:
    """The object that holds the attribute, and its last name: "config.use_cache" is `use_cache` of `module.config`."""
    owner: Any = module
    *holders, last = name.split(".")
    for holder in holders:
        owner = getattr(owner, holder)
    return owner, last
