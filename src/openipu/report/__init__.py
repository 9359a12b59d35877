"""Reports: a plan as `profile.pop`, text, JSON and one self-contained web page. Opens profiles without PyTorch."""

from openipu.report.advice import AdviceRecord, LeverRecord, render_advice
from openipu.report.convert import build_profile
from openipu.report.html import write_html
from openipu.report.insights import Finding, find_insights, render_insights
from openipu.report.json_export import JSON_VERSION, to_json
from openipu.report.profile import (
    CulpritRecord,
    FitRecord,
    LineRecord,
    MemoryRecord,
    OpRecord,
    PipelineRecord,
    Profile,
    StageRecord,
    StepColumns,
    TimingRecord,
    VariableRecord,
)
from openipu.report.read import read_profile
from openipu.report.schema import FILE_NAME, SCHEMA_VERSION
from openipu.report.summary import Summary, summarise
from openipu.report.text import render_text
from openipu.report.units import format_bytes_of, format_rate
from openipu.report.write import write_profile

__all__ = [
    "FILE_NAME",
    "JSON_VERSION",
    "SCHEMA_VERSION",
    "AdviceRecord",
    "CulpritRecord",
    "Finding",
    "FitRecord",
    "LeverRecord",
    "LineRecord",
    "MemoryRecord",
    "OpRecord",
    "PipelineRecord",
    "Profile",
    "StageRecord",
    "StepColumns",
    "Summary",
    "TimingRecord",
    "VariableRecord",
    "build_profile",
    "find_insights",
    "format_bytes_of",
    "format_rate",
    "read_profile",
    "render_advice",
    "render_insights",
    "render_text",
    "summarise",
    "to_json",
    "write_html",
    "write_profile",
]
