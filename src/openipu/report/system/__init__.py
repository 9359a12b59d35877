"""The system report: what the host did over time, from the trace of a run. Text, JSON, a web page, and Perfetto."""

from openipu.report.system.page import render_system_page, write_system_page
from openipu.report.system.perfetto import to_chrome_trace, write_chrome_trace
from openipu.report.system.summary import Activity, LabelTotal, LoopShares, SystemSummary, summarise_trace
from openipu.report.system.text import describe_trace, render_trace_text

__all__ = [
    "Activity",
    "LabelTotal",
    "LoopShares",
    "SystemSummary",
    "describe_trace",
    "render_system_page",
    "render_trace_text",
    "summarise_trace",
    "to_chrome_trace",
    "write_chrome_trace",
    "write_system_page",
]
