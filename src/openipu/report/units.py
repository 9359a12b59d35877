"""Numbers for people: bytes, cycles, seconds, rates and shares as short texts of at most four digits or so."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """1536 -> "1.5 KiB". Tile memory is counted in KiB and MiB, powers of 1,024."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{_trim(count / size)} {unit}"
    return f"{count:.0f} B"


def format_tile_bytes(count: float) -> str:
    """What a tile needs and has, always in KiB, so that two figures can be held against each other."""
    return f"{_trim(count / 1024)} KiB"


def format_bytes_of(count: float, whole: float) -> str:
    """What is needed of what there is, in the unit of the latter: "3,607 of 589 KiB"."""
    number, unit = format_bytes(whole).split()
    size = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}[unit]
    return f"{_trim(count / size) if unit != 'B' else f'{count:.0f}'} of {number} {unit}"


def format_cycles(count: float) -> str:
    """1234567 -> "1,234,567"."""
    return f"{count:,.0f}"


def format_seconds(seconds: float) -> str:
    """0.0012 -> "1.20 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size:
            return f"{_trim(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def format_rate(per_second: float) -> str:
    """Samples or operations per second, with thousands separated."""
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def format_share(share: float) -> str:
    """0.123 -> "12.3 %"; what is there but tiny is never shown as nothing."""
    if not share:
        return "0 %"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{share * 100:.1f} %"


def format_probability(probability: float) -> str:
    """0.734 -> "73 %"; nothing modelled is certain, so never 0 or 100."""
    if probability < 0.01:
        return "below 1 %"
    return "above 99 %" if probability > 0.99 else f"{probability * 100:.0f} %"


def format_change(slowdown: float) -> str:
    """ "12 % slower", "5 % faster", "3 x slower"."""
    ratio = max(slowdown, 1 / slowdown) if slowdown else float("inf")
    word = "slower" if slowdown > 1 else "faster"
    if ratio < 1.0005:
        return "as fast"
    return f"{ratio:.3g} x {word}" if ratio >= 2 else f"{100 * (ratio - 1):.3g} % {word}"


def _trim(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
