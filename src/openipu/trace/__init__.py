"""The trace of the host: what this process did and when. Off unless `PVTI_OPTIONS` asks for it, and then near free.

In: `span(RUN, "training")` around a piece of work. Out: one `.pvti` file a process, for `openipu trace`, for
`pva.openTrace` and, exported, for Perfetto. This package imports nothing of openipu but its errors, so that every
layer may mark what it does.
"""

from openipu.trace.channels import CAPTURE, COMPILE, DATA, GROUPS, PLAN, RUN, TRANSFER, WAIT, Channel
from openipu.trace.marks import (
    find_recorder,
    is_tracing,
    mark_moment,
    mark_past,
    span,
    start_tracing,
    stop_tracing,
    trace_iterator,
)
from openipu.trace.options import VARIABLE, TraceOptions, read_trace_options
from openipu.trace.recorder import Recorder

__all__ = [
    "CAPTURE",
    "COMPILE",
    "DATA",
    "GROUPS",
    "PLAN",
    "RUN",
    "TRANSFER",
    "VARIABLE",
    "WAIT",
    "Channel",
    "Recorder",
    "TraceOptions",
    "find_recorder",
    "is_tracing",
    "mark_moment",
    "mark_past",
    "read_trace_options",
    "span",
    "start_tracing",
    "stop_tracing",
    "trace_iterator",
]
