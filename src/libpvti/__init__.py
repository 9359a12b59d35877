"""The PopVision trace instrumentation library's Python interface, over openipu's own trace of the host.

In: trace points, graphs and heatmaps of a user's program. Out: events beside openipu's own in the process's `.pvti`
file, if `PVTI_OPTIONS` asks for one; else nothing, at next to no cost.
"""

from libpvti._channels import (
    TraceChannel,
    createTraceChannel,
    disableTraceChannel,
    disableTraceChannels,
    enableTraceChannel,
    enableTraceChannels,
    getCurrentTraceFilename,
    listTraceChannel,
    traceDrivers,
    traceFramework,
    tracePoplar,
)
from libpvti._graphs import Graph, GraphSeries, HeatmapDouble, HeatmapInt
from libpvti._tracepoints import Tracepoint, instrument, instrument_fn

__all__ = [
    "Graph",
    "GraphSeries",
    "HeatmapDouble",
    "HeatmapInt",
    "TraceChannel",
    "Tracepoint",
    "createTraceChannel",
    "disableTraceChannel",
    "disableTraceChannels",
    "enableTraceChannel",
    "enableTraceChannels",
    "getCurrentTraceFilename",
    "instrument",
    "instrument_fn",
    "listTraceChannel",
    "traceDrivers",
    "traceFramework",
    "tracePoplar",
]
