"""A tree of options with strict names and types.

In: classes whose `__init__` declares attributes and categories. Out: objects that take values of the declared types
only, know where they are in the tree, say what was probably meant, and turn into dictionaries and JSON.
"""

from __future__ import annotations

import copy
import difflib
import enum
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from openipu_tensorflow.ipu.configuration.declarations import (
    Declaration,
    find_enumeration,
    read_declarations,
    resolve_hint,
)
from openipu_tensorflow.ipu.configuration.metadata import AttributeMetadata

_C = TypeVar("_C", bound=type)
_DEPRECATIONS = "_deprecated_attributes"


class UnknownOptionError(ValueError, AttributeError):
    """There is no such attribute: a ValueError as in the original, and what `hasattr` expects."""


def deprecate_config_attributes(messages: Mapping[str, str]) -> Callable[[_C], _C]:
    """Class decorator: attributes, or whole categories, that should not be used any more, and why."""

    def mark(owner: _C) -> _C:
        setattr(owner, _DEPRECATIONS, {**getattr(owner, _DEPRECATIONS, {}), **messages})
        return owner

    return mark


def deprecate_config_attribute(name: str, message: str) -> Callable[[_C], _C]:
    """As `deprecate_config_attributes`, for one."""
    return deprecate_config_attributes({name: message})


class ConfigBase:
    """A category of options, or the root of them all, which calls `_finalize_base_config` last."""

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__
        if "_attr_metadata" not in held:  # its own __init__ is still declaring
            held[name] = value
            if not isinstance(value, ConfigBase):  # the hint is checked where it stands, not at the root
                resolve_hint(type(self), read_declarations(type(self)).get(name, Declaration(None)), value)
            return
        metadata = held["_attr_metadata"].get(name)
        if metadata is None:
            raise self._unknown(name)
        if metadata.type is None:
            raise TypeError(
                f"{metadata.name} is a category and cannot be assigned to. Set one of the attributes in it."
            )
        metadata.check_type(value)
        metadata.warn_if_deprecated()
        held[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_attr_metadata" not in self.__dict__:
            raise AttributeError(name)
        raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownOptionError:
        return UnknownOptionError(f"{name!r} is not a valid attribute of this config.{self._suggest(name)}")

    def _suggest(self, name: str) -> str:
        root = self.__dict__["_root"]
        elsewhere: dict[str, str] = {}
        for metadata in root._walk_metadata():
            elsewhere.setdefault(metadata.name.rpartition(".")[2], metadata.name)
        near = difflib.get_close_matches(name, self.__dict__["_attr_metadata"], n=1)
        if near and not (self is root and name in elsewhere):
            return f" Did you mean '{self._get_full_name(near[0])}'?"
        near = difflib.get_close_matches(name, elsewhere, n=1, cutoff=0.85)
        return f" Did you mean '{elsewhere[near[0]]}'?" if near else ""

    def _get_full_name(self, name: str) -> str:
        prefix: str = self.__dict__.get("_full_name", "")
        return f"{prefix}.{name}" if prefix else name

    def _finalize_base_config(self) -> None:
        self._finalize("", self, None)
        text = "\n".join(metadata.describe() for metadata in self._walk_metadata())
        self.__dict__["__doc__"] = f"{type(self).__doc__ or ''}\n\n{text}"

    def _finalize(self, full_name: str, root: ConfigBase, inherited: str | None) -> None:
        held = self.__dict__
        own = {name: value for name, value in held.items() if not name.startswith("_")}
        declared = read_declarations(type(self))
        deprecated: Mapping[str, str] = getattr(type(self), _DEPRECATIONS, {})
        held["_full_name"], held["_root"] = full_name, root
        table: dict[str, AttributeMetadata] = {}
        for name, value in own.items():
            declaration = declared.get(name, Declaration(None))
            metadata = AttributeMetadata(self._get_full_name(name), declaration.description)
            if not isinstance(value, ConfigBase):
                metadata.type, metadata.hint = resolve_hint(type(self), declaration, value)
                metadata.default = copy.deepcopy(value)
            message = deprecated.get(name, inherited)
            if message is not None:
                metadata.deprecate(message)
            table[name] = metadata
            if isinstance(value, ConfigBase):
                value._finalize(metadata.name, root, message)
        held["_attr_metadata"] = table

    def _walk_metadata(self) -> Iterator[AttributeMetadata]:
        for name, metadata in self.__dict__["_attr_metadata"].items():
            yield metadata
            if metadata.type is None:
                yield from self.__dict__[name]._walk_metadata()

    def _walk_values(self) -> Iterator[tuple[AttributeMetadata, Any]]:
        for name, metadata in self.__dict__["_attr_metadata"].items():
            if metadata.type is None:
                yield from self.__dict__[name]._walk_values()
            else:
                yield metadata, self.__dict__[name]

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """What is known of an attribute below this one, by its name with dots."""
        owner: ConfigBase = self
        first, _, rest = attr.partition(".")
        while True:
            table: dict[str, AttributeMetadata] = owner.__dict__["_attr_metadata"]
            if first not in table or (rest and table[first].type is not None):
                wrong = first if first not in table else rest
                raise ValueError(f"Could not get attribute metadata for {attr!r}: {owner._unknown(wrong)}")
            if not rest:
                return table[first]
            owner = owner.__dict__[first]
            first, _, rest = rest.partition(".")

    def to_dict(self) -> dict[str, Any]:
        """All attributes by their names with dots; enumerations as numbers."""
        return {
            metadata.name: value.value if isinstance(value, enum.Enum) else copy.deepcopy(value)
            for metadata, value in self._walk_values()
        }

    def from_dict(self, dct: Mapping[str, Any]) -> None:
        """Set attributes by their names with dots."""
        for name, value in dct.items():
            metadata = self.get_attribute_metadata(name)
            category, _, last = name.rpartition(".")
            owner: Any = self
            for part in category.split(".") if category else ():
                owner = getattr(owner, part)
            enumeration = find_enumeration(metadata.hint)
            if enumeration is not None and type(value) is int:
                value = enumeration(value)
            elif type(value) is list and not _takes(metadata, value) and _takes(metadata, tuple(value)):
                value = tuple(value)  # JSON has no tuples
            setattr(owner, last, value)

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict())

    def from_json(self, json_cfg: str) -> None:
        """`from_dict` of JSON."""
        try:
            given = json.loads(json_cfg)
        except json.JSONDecodeError as error:
            raise ValueError(f"The configuration is not JSON ({error}): write it with to_json().") from error
        if not isinstance(given, dict):
            raise TypeError(
                f"A configuration in JSON is an object of attributes by name, not {type(given).__name__}: "
                "write it with to_json()."
            )
        self.from_dict(given)

    def __repr__(self) -> str:
        lines = [
            f"  {metadata.name} = {value if isinstance(value, enum.Enum) else repr(value)}"
            for metadata, value in self._walk_values()
        ]
        return os.linesep.join([f"{type(self).__name__}:", *lines])

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> ConfigBase:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return made

    def _to_protobuf(self, pb: Any) -> None:
        """Write the attributes into a message; a class that adds its own calls this for the categories in it."""
        for value in self.__dict__.values():
            if isinstance(value, ConfigBase) and value is not self.__dict__.get("_root"):
                value._to_protobuf(pb)


def _takes(metadata: AttributeMetadata, value: Any) -> bool:
    try:
        metadata.check_type(value)
    except TypeError:
        return False
    return True
