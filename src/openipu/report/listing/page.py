"""The list of reports as a page: one HTML file with links, which runs no script.

In: entries, and reports that are still to be written. Out: `reports.html` in the folder that was listed.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from openipu.report.atomic import write_aside
from openipu.report.html import write_html
from openipu.report.listing.entries import REPORT_NAME, Entry, format_date
from openipu.report.read import read_profile
from openipu.report.units import format_bytes_of, format_cycles, format_rate, format_seconds

LIST_NAME = "reports.html"
MOST_NEW_PAGES = 50  # reports that are written because they are missing


def write_missing_pages(entries: Sequence[Entry]) -> int:
    """Write the reports that the newest entries lack; how many are still missing."""
    lacking = [entry for entry in entries if entry.headline is not None and not entry.has_page]
    for entry in lacking[:MOST_NEW_PAGES]:
        write_html(read_profile(entry.folder), entry.folder / REPORT_NAME)
    return max(0, len(lacking) - MOST_NEW_PAGES)


def write_list(entries: Sequence[Entry], path: Path, title: str) -> Path:
    """Write the page."""
    with write_aside(path) as part:
        part.write_text(_render(entries, path.parent, title), encoding="utf-8")
    return path


def _render(entries: Sequence[Entry], base: Path, title: str) -> str:
    lines = "\n".join(f"<tr>{''.join(_draw_cells(entry, base))}</tr>" for entry in entries)
    count = f"{len(entries):,} {'profile' if len(entries) == 1 else 'profiles'}"
    parts = {"title": html.escape(title), "count": count, "rows": lines}
    template = resources.files("openipu.report").joinpath("web_list", "list.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)  # in one pass: names may hold braces


def _draw_cells(entry: Entry, base: Path) -> Iterator[str]:
    headline = entry.headline
    if headline is None:
        yield f'<th scope="row">{html.escape(entry.place)}</th>'
        yield f'<td colspan="6" class="bad">{html.escape(entry.problem)}</td>'
        return
    shown = html.escape(headline.name)
    if entry.has_page:
        link = quote(os.path.relpath(entry.folder / REPORT_NAME, base))
        shown = f'<a href="{html.escape(link)}">{shown}</a>'
    yield f'<th scope="row">{shown}<small>{html.escape(entry.place)}</small></th>'
    yield f"<td>{html.escape(headline.system)}</td>"
    verdict = '<span class="good">fits</span>' if headline.fits else '<span class="bad">does not fit</span>'
    yield f"<td>{verdict}</td>"
    yield f'<td class="number">{format_bytes_of(headline.peak_bytes, headline.limit_bytes)}</td>'
    cycles = f"{format_cycles(headline.call_cycles)}<small>{format_seconds(headline.call_seconds)}</small>"
    yield f'<td class="number">{cycles}</td>'
    yield f'<td class="number">{format_rate(headline.samples_per_second)}</td>'
    yield f"<td>{html.escape(format_date(headline.created))}</td>"
