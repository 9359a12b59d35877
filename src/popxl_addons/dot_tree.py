"""A tree whose branches and leaves are reached by dots: the container of everything that has a name in a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar

from popxl_addons.utils import OrderedDict

__all__ = ["DotTree", "sanitise", "to_mapping"]

Leaf = TypeVar("Leaf")
Value = TypeVar("Value")
Key = TypeVar("Key")


def sanitise(name: str) -> str:
    """A name as a Python identifier: what none may contain becomes an underscore."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    return f"_{plain}" if plain[:1].isdecimal() else plain


def to_mapping(key: DotTree[Key], value: DotTree[Value]) -> dict[Key, Value]:
    """Leaves of one tree to the leaves of another, for the names that both have."""
    values = value.to_dict()
    return {leaf: values[name] for name, leaf in key.to_dict().items() if name in values}


class DotTree(Generic[Leaf]):
    """Names to leaves or to further trees.

    ``tree.encoder.weight`` and ``tree.get("encoder.weight")`` are the same leaf. A part of a name may be a number,
    which is reached by ``tree[0]``; negative numbers count from the highest one.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._map: OrderedDict[str, Any] = OrderedDict()
        for name, value in kwargs.items():
            self.insert(name, value)

    # Reading

    def __getattr__(self, key: str) -> Any:
        # Only for what Python did not find: names of the tree. Before __init__ ran (copy, pickle) there are none.
        entries = self.__dict__.get("_map", {})
        if key in entries:
            return entries[key]
        raise AttributeError(f"{type(self).__name__} has no entry {key!r}; there are: {', '.join(entries) or 'none'}")

    def __getitem__(self, key: str | int) -> Any:
        return self.get(key)

    def get(self, key: str | int) -> Any:
        """The leaf or tree of a name; ``KeyError`` if there is none."""
        if isinstance(key, int):
            key = self._numbered(key)
        head, _, rest = key.partition(".")
        if head not in self._map:
            raise KeyError(f"no entry {head!r}; there are: {', '.join(self._map) or 'none'}")
        value = self._map[head]
        if not rest:
            return value
        if not isinstance(value, DotTree):
            raise KeyError(f"{head!r} is a leaf, it has no entry {rest!r}")
        return value.get(rest)

    def _numbered(self, key: int) -> str:
        if key >= 0:
            return str(key)
        numbers = [int(name) for name in self._map if name.isnumeric()]
        position = max(numbers, default=-1) + 1 + key
        if position < 0:
            raise KeyError(f"no entry {key}; the numbered entries are: {numbers or 'none'}")
        return str(position)

    def __contains__(self, key: str | int) -> bool:
        try:
            self.get(key)
        except KeyError:
            return False
        return True

    def keys(self) -> list[str]:
        """Names of this level."""
        return list(self._map)

    def keys_flat(self) -> list[str]:
        """Names of all leaves, with dots."""
        return list(self.to_dict())

    def values(self) -> list[Any]:
        """Leaves and trees of this level."""
        return list(self._map.values())

    def values_flat(self) -> list[Leaf]:
        """All leaves."""
        return list(self.to_dict().values())

    def len(self) -> int:
        """How many entries this level has."""
        return len(self._map)

    def len_flat(self) -> int:
        """How many leaves there are."""
        return len(self.to_dict())

    def to_dict(self) -> OrderedDict[str, Leaf]:
        """All leaves by their full names, in the order of insertion."""
        leaves: OrderedDict[str, Leaf] = OrderedDict()
        for name, value in self._map.items():
            if isinstance(value, DotTree):
                leaves.update((f"{name}.{below}", leaf) for below, leaf in value.to_dict().items())
            else:
                leaves[name] = value
        return leaves

    def to_mapping(self, values: DotTree[Value]) -> dict[Leaf, Value]:
        """The leaves of this tree to those of another, for the names that both have."""
        return to_mapping(self, values)

    def unpack(self) -> tuple[tuple[str, ...], tuple[Leaf, ...]]:
        """Names and leaves, sorted by name."""
        items = sorted(self.to_dict().items(), key=lambda item: item[0])
        return tuple(name for name, _ in items), tuple(leaf for _, leaf in items)

    # Writing

    def insert(self, key: str | int, value: Any, overwrite: bool = False) -> None:
        """Put a leaf or a tree under a name. With ``overwrite`` a leaf is replaced, and trees are merged."""
        if isinstance(key, int):
            if key < 0:
                raise ValueError(f"a numbered entry cannot be negative: {key}")
            key = str(key)
        head, _, rest = key.partition(".")
        if not overwrite and head in self._map:
            raise ValueError(f"{head!r} already exists")
        if not (head.isnumeric() or head.isidentifier()):
            raise ValueError(f"{head!r} is neither an identifier nor a number")
        if rest:
            # A copy is filled first, so that an insertion that fails further down leaves this tree as it was.
            branch = self._map.get(head)
            branch = branch.copy() if isinstance(branch, DotTree) else type(self)()
            branch.insert(rest, value, overwrite)
            value = branch
        self._map[head] = value

    def update(self, values: Self, overwrite: bool = False) -> None:
        """Insert the entries of another tree."""
        for name, value in values.copy()._map.items():
            self.insert(name, value, overwrite)

    def pop(self, key: str) -> Any:
        """Take an entry out, and return it."""
        head, _, rest = key.partition(".")
        if rest:
            return self.get(head).pop(rest)
        return self._map.pop(head)

    def _clear(self) -> None:
        """Forget all leaves here and below. Branches stay the same objects: modules share theirs."""
        for name, value in list(self._map.items()):
            if isinstance(value, DotTree):
                value._clear()
            else:
                del self._map[name]

    # Making others

    def copy(self) -> Self:
        """A tree of the same leaves, with branches of its own."""
        tree = type(self)()
        for name, value in self._map.items():
            tree._map[name] = value.copy() if isinstance(value, DotTree) else value
        return tree

    def filter_keys(self, keys: Iterable[str | int]) -> Self:
        """A tree of the entries that are named."""
        wanted = list(keys)
        if len(wanted) != len(set(wanted)):
            raise ValueError(f"keys are named more than once: {wanted}")
        tree = type(self)()
        for key in wanted:
            tree.insert(key, self.get(key), overwrite=True)
        return tree

    def map(self, fn: Callable[[Leaf], Any]) -> Self:
        """A tree of the same names with ``fn`` of each leaf."""
        return type(self).from_dict({name: fn(leaf) for name, leaf in self.to_dict().items()})

    @classmethod
    def from_dict(cls, d: Mapping[Any, Any]) -> Self:
        """A tree of full names and leaves; dots open branches."""
        tree = cls()
        for name, value in d.items():
            *branches, last = str(name).split(".")
            level = tree
            for branch in branches:
                if branch not in level._map:
                    level.insert(branch, cls())
                level = level._map[branch]
            level.insert(last, value)
        return tree

    @classmethod
    def pack(cls, keys: Iterable[str | int], values: Iterable[Any]) -> Self:
        """A tree of names and leaves that stand in two lists, such as :meth:`unpack` gives."""
        return cls.from_dict(dict(zip(keys, values, strict=False)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"
