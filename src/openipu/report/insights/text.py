"""Insights as text for a terminal or a log.

In: `Finding`s. Out: lines of at most about 110 columns, the worst first; nothing where nothing was found.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from openipu.report.insights.finding import Finding

_WIDTH = 110


def render_insights(findings: Iterable[Finding]) -> str:
    """A block with number, cause and remedy of each finding, ending with a newline."""
    blocks = [line for finding in findings for line in _render_finding(finding)]
    return "\n".join(["Insights", *blocks]) + "\n" if blocks else ""


def _render_finding(finding: Finding) -> list[str]:
    lines = textwrap.wrap(f"{finding.level}: {finding.title}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    for text in (finding.cause, f"-> {finding.remedy}"):
        lines += textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines
