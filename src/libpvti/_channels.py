"""Channels by name, and the file that their events go to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openipu.trace import find_recorder, start_tracing
from openipu.trace.channels import GROUPS, Channels

start_tracing()

_without_trace = Channels()  # remembers names and switches while nothing is recorded


@dataclass(frozen=True)
class TraceChannel:
    """What `createTraceChannel` returns."""

    name: str


def find_channels() -> Channels:
    """Those of the recorder, while there is one."""
    recorder = find_recorder()
    return _without_trace if recorder is None else recorder.channels


def createTraceChannel(name: str) -> TraceChannel:
    """A channel by its name; the same for the same name."""
    if not isinstance(name, str):
        raise TypeError(f"A trace channel is named by a str, not {name!r}")
    find_channels().find(name)
    return TraceChannel(name)


def listTraceChannel() -> list[list[str | bool]]:
    """All channels, each with whether it is on."""
    return [[channel.name, channel.enabled] for channel in find_channels().list_all()]


def enableTraceChannel(channel: TraceChannel | str) -> None:
    find_channels().switch(_name(channel), True)


def disableTraceChannel(channel: TraceChannel | str) -> None:
    find_channels().switch(_name(channel), False)


def enableTraceChannels(channels: Iterable[TraceChannel | str]) -> None:
    for channel in channels:
        enableTraceChannel(channel)


def disableTraceChannels(channels: Iterable[TraceChannel | str]) -> None:
    for channel in channels:
        disableTraceChannel(channel)


def getCurrentTraceFilename() -> str:
    """The file of this process; empty while nothing was recorded."""
    recorder = find_recorder()
    return "" if recorder is None else recorder.file_name or ""


def _name(channel: TraceChannel | str) -> str:
    return channel if isinstance(channel, str) else channel.name


traceDrivers, tracePoplar, traceFramework = map(TraceChannel, GROUPS)
