"""What is known of one attribute, and its entry in the generated description.

In: names, types, defaults, deprecations. Out: `AttributeMetadata`, which users get by `get_attribute_metadata`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openipu_tensorflow.ipu.configuration.declarations import fits_hint


@dataclass(eq=False)
class AttributeMetadata:
    """One attribute, or one category (which has no type and no default)."""

    name: str  # from the root, with dots
    description: str
    type: str | None = None
    default: Any = None
    deprecated: bool = False
    deprecated_msg: str | None = None
    hint: Any = None

    def __post_init__(self) -> None:
        self.__doc__ = self.description

    @property
    def _depth(self) -> int:
        return self.name.count(".") + 1

    def check_type(self, value: Any) -> None:
        """Raise a TypeError unless a value has the type of this attribute."""
        if self.type is None:
            raise TypeError(f"{self.name} is a category and cannot be assigned to. Set one of the attributes in it.")
        if not fits_hint(value, self.hint):
            raise TypeError(
                f"Trying to set {self.name} to {value!r}, but it must be of type {self.type}, not "
                f"{type(value).__name__}."
            )

    def deprecate(self, message: str) -> None:
        """Mark it as deprecated; what was said before stays."""
        if not self.deprecated:
            self.deprecated, self.deprecated_msg = True, message

    def warn_if_deprecated(self) -> None:
        """Log a warning where the attribute is one of the past."""
        if self.deprecated:
            from tensorflow.python.platform import tf_logging

            tf_logging.warn(f"{self.name} has been deprecated: {self.deprecated_msg}")

    def describe(self) -> str:
        """The entry in reStructuredText, indented by depth."""
        outer = "   " * (self._depth + 1)
        inner = outer + "   "
        grandparent = ".".join(self.name.split(".")[: max(self._depth - 2, 0)])  # Sphinx takes one level off
        shown = f"{grandparent}.{self.name}" if grandparent else self.name
        lines = [f"{outer}.. _{self.name}:", f"{outer}.. py:attribute:: {shown}"]
        if self.type is not None:
            lines += [f"{inner}:type: {self.type}", f"{inner}:value: {self.default!r}"]
        lines.append(outer)
        if self.deprecated:
            lines += [f"{inner}.. note::", "", f"{inner}   DEPRECATED: {self.deprecated_msg}", ""]
        lines += [inner + line if line else "" for line in self.description.splitlines()]
        return "\n".join(lines) + "\n"
