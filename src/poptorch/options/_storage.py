"""How options are kept: typed values that are readable as attributes, and that freeze once a model uses them.

In: defaults by name. Out: an object with `set`, `exists`, `toDict`; wrong names and types are refused at once.
"""

from __future__ import annotations

import copy
from typing import Any, Self

FROZEN_MESSAGE = "Can't modify frozen Options"


class OptionsDict:
    """Named values of fixed types. Names that begin with an underscore are the object's own."""

    _values: dict[str, Any]
    _frozen: bool

    def __init__(self, **defaults: Any) -> None:
        self._values = dict(defaults)
        self._frozen = False

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name.startswith("_") or name not in values:
            raise AttributeError(f"Invalid attribute {name}.")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        self.checkIsFrozen()
        if name not in self._values:
            raise AttributeError(f"Invalid attribute {name}.")
        self.set(**{name: value})

    def set(self, **values: Any) -> Self:
        """Give known options new values of the same type."""
        self.checkIsFrozen()
        for name, value in values.items():
            assert name in self._values, f"Unknown option {name}: {', '.join(sorted(self._values))} can be set."
            old = self._values[name]
            matches = old is None or (isinstance(value, type(old)) and isinstance(value, bool) == isinstance(old, bool))
            assert matches, f"Unexpected type {type(value)} for option {name}. Expected {type(old)}"
            self._values[name] = value
        return self

    def createOrSet(self, **values: Any) -> Self:
        """Give options values, whether they exist or not."""
        self.checkIsFrozen()
        for name, value in values.items():
            if name in self._values:
                self.set(**{name: value})
            else:
                self._values[name] = value
        return self

    def deleteIfExists(self, name: str) -> None:
        self.checkIsFrozen()
        self._values.pop(name, None)

    def exists(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option that may be absent."""
        return self._values.get(name, default)

    def toDict(self) -> dict[str, Any]:
        return copy.deepcopy(self._values)

    def checkIsFrozen(self, option: str | None = None) -> None:
        """Raise if the options are in use by a model or a data loader."""
        if self._frozen and option != "_frozen":
            raise AttributeError(FROZEN_MESSAGE)

    def _freeze(self) -> None:
        self._frozen = True

    def _unfreeze(self) -> None:
        self._frozen = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            object.__setattr__(made, name, copy.deepcopy(value, memo))
        made._unfreeze()
        return made

    def clone(self) -> Self:
        """An unfrozen deep copy."""
        return copy.deepcopy(self)

    def _describe(self, indent: str) -> str:
        return "".join(f"{indent}{name}={value!r},\n" for name, value in self._values.items())

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}(\n{self._describe('  ')})"
