"""Channels: named groups of events that are recorded together, or left out.

In: names, of openipu's own channels and of a user's. Out: one `Channel` for each name, which says whether it is on.
"""

from __future__ import annotations

# Our own channels, in the order of a run, and the group of the original that each stands for.
CAPTURE, PLAN, COMPILE, DATA, TRANSFER, RUN, WAIT = (
    "capture",
    "plan",
    "compile",
    "data loading",
    "transfer",
    "run",
    "wait",
)
GROUPS = {
    "Drivers": (TRANSFER, WAIT),
    "Poplar": (PLAN, COMPILE, RUN),
    "Framework": (CAPTURE, DATA),
}


class Channel:
    """One group of events. A channel that is off records nothing."""

    __slots__ = ("enabled", "name")

    def __init__(self, name: str, enabled: bool = True) -> None:
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"Channel({self.name!r}, {'on' if self.enabled else 'off'})"


class Channels:
    """All channels of a process; which of them are on is the wish of the options, then of the program."""

    def __init__(self, wanted: tuple[str, ...] = ()) -> None:
        self._wanted = wanted
        self._channels: dict[str, Channel] = {}
        for group in GROUPS:
            self.find(group)

    def find(self, name: str) -> Channel:
        """The channel of this name; made when it is asked for first."""
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels.setdefault(name, Channel(name, self._is_wanted(name)))
        return channel

    def switch(self, name: str, enabled: bool) -> None:
        """Turn a channel on or off; a group turns its members."""
        for member in (name, *GROUPS.get(name, ())):
            self.find(member).enabled = enabled

    def list_all(self) -> list[Channel]:
        return list(self._channels.values())

    def _is_wanted(self, name: str) -> bool:
        groups = [group for group, members in GROUPS.items() if name in members]
        return not self._wanted or any(entry in self._wanted for entry in (name, *groups))
