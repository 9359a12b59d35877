"""Options of the libraries as a message: pairs of texts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class PoplarOptionFlag:
    option: str = ""
    value: str = ""


class _Flags(list[PoplarOptionFlag]):
    def add(self, option: str = "", value: str = "") -> PoplarOptionFlag:
        """A new pair at the end."""
        self.append(PoplarOptionFlag(option, value))
        return self[-1]


@dataclass(slots=True)
class PoplarOptionFlags:
    flags: _Flags = field(default_factory=_Flags)
