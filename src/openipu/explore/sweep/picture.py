"""A sweep as a picture: throughput against memory, with the Pareto front. One SVG file, drawn here, nothing to install.

In: rows. Out: SVG text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from openipu.explore.sweep.rows import Row, find_front

_WIDTH, _HEIGHT = 900, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 30, 60, 70
_INK, _FAINT, _FITS, _FULL, _FRONT = "#1f2430", "#d5d9e0", "#2f6fde", "#c23b3b", "#e08a00"

Scale = Callable[[float], float]


def draw_front(rows: Sequence[Row], title: str) -> str:
    """The picture. Rows without a plan are left out."""
    planned = [row for row in rows if row.samples_per_second > 0]
    front = find_front(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="system-ui, sans-serif" font-size="13" fill="{_INK}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" font-size="17" font-weight="600">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="44" fill="#667">modelled; each point is one plan</text>',
    ]
    if planned:
        parts += _draw_plot(planned, front)
    else:
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT // 2}">No point of this sweep has a plan.</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_plot(rows: Sequence[Row], front: Sequence[Row]) -> list[str]:
    memory = [row.peak_tile_bytes / 1024 for row in rows]
    limits = [limit for limit in sorted({row.limit_tile_bytes / 1024 for row in rows}) if limit <= 2 * max(memory)]
    speeds = [row.samples_per_second for row in rows]
    place_x, marks_x = _make_scale(0.0, max([*memory, *limits]) * 1.05, _LEFT, _WIDTH - _RIGHT, False)
    wide = max(speeds) > 20 * min(speeds)
    low = min(speeds) / 1.3 if wide else 0.0
    place_y, marks_y = _make_scale(low, max(speeds) * 1.1, _HEIGHT - _BOTTOM, _TOP, wide)
    parts = _draw_axes(place_x, marks_x, place_y, marks_y, wide)
    for limit in limits:
        x = place_x(limit)
        parts.append(
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="{_FULL}" '
            f'stroke-dasharray="5 4"/><text x="{x - 6:.1f}" y="{_TOP + 12}" text-anchor="end" fill="{_FULL}">'
            "tile limit</text>"
        )
    if len(front) > 1:
        path = " ".join(
            f"{place_x(row.peak_tile_bytes / 1024):.1f},{place_y(row.samples_per_second):.1f}" for row in front
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_FRONT}" stroke-width="2"/>')
    for row in rows:
        parts.append(_draw_point(row, place_x, place_y))
    for row in front:
        x, y = place_x(row.peak_tile_bytes / 1024), place_y(row.samples_per_second)
        right = x > _WIDTH - 260
        anchor, shift = ("end", -9) if right else ("start", 9)
        parts.append(
            f'<text x="{x + shift:.1f}" y="{y - 8:.1f}" text-anchor="{anchor}" font-size="12">'
            f"{escape(row.point.describe())}</text>"
        )
    return parts


def _draw_point(row: Row, place_x: Scale, place_y: Scale) -> str:
    x, y = place_x(row.peak_tile_bytes / 1024), place_y(row.samples_per_second)
    verdict = "fits" if row.fits else "does not fit"
    tip = (
        f"{row.point.describe()}: {row.samples_per_second:,.0f} samples/s, {row.peak_tile_bytes:,} B a tile, {verdict}"
    )
    look = f'fill="{_FITS}"' if row.fits else f'fill="white" stroke="{_FULL}" stroke-width="1.6"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {look}><title>{escape(tip)}</title></circle>'


def _draw_axes(
    place_x: Scale, marks_x: Sequence[float], place_y: Scale, marks_y: Sequence[float], wide: bool
) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for mark in marks_x:
        x = place_x(mark)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{_FAINT}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{mark:,.10g}</text>')
    for mark in marks_y:
        y = place_y(mark)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="{_FAINT}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:,.10g}</text>')
    label = "samples/s (logarithmic)" if wide else "samples/s"
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 18}" text-anchor="middle">'
        "memory of the fullest tile, KiB</text>"
    )
    parts.append(
        f'<text x="20" y="{(_TOP + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 20 {(_TOP + bottom) / 2})">{label}</text>'
    )
    return parts


def _make_scale(low: float, high: float, start: float, end: float, logarithmic: bool) -> tuple[Scale, list[float]]:
    """Where a value lies, and the values to mark."""
    if logarithmic:
        first, last = math.log10(low), math.log10(high)

        def place_log(value: float) -> float:
            return start + (math.log10(max(value, low)) - first) / (last - first) * (end - start)

        marks = [factor * 10**power for power in range(math.floor(first), math.ceil(last) + 1) for factor in (1, 2, 5)]
        return place_log, [mark for mark in marks if low <= mark <= high]
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return start + (value - low) / span * (end - start)

    rough = span / 5
    power = 10 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    return place, [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
