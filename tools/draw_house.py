"""Draws the tree: folders in the layers of `pyproject.toml`, their sizes, who imports whom, and the way of a batch.

In: the contract of layers, the sources, the walk in `docs/architecture.md`. Out: `docs/images/house.svg`, with its own
data inside as JSON, so that a test can tell whether it is still true. A picture that is true, with sizes about right,
is left as it is: two branches seldom both change it, and where they do, git joins their lines (`.gitattributes`) and
this draws it again.

    python tools/draw_house.py
"""

from __future__ import annotations

import html
import json
import math
import re
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "house.svg"
PAGE = ROOT / "docs" / "architecture.md"

ROW, TOP, LEFT, BAR, DOT = 22, 64, 12, 190, 20  # pixels
COLOURS = {"front end": "#c8553d", "tool": "#b8860b", "pipeline": "#2f6690", "ground": "#6b7280"}
PIPELINE = ("session", "report", "run", "plan", "capture", "ops", "graph", "machine", "translate")


@dataclass(frozen=True)
class House:
    """What the picture shows."""

    folders: list[str]  # from the top layer down
    hundreds: dict[str, int]  # lines of code, in hundreds
    imports: dict[str, list[str]]  # folder -> those that it imports
    walk: list[str]  # the folders that a batch passes, in order


def read_house() -> House:
    """Look at the sources as they are now."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(entry for entry in settings["contracts"] if entry["type"] == "layers")["layers"]
    folders = [name.strip() for layer in layers for name in layer.split("|")]
    graph = grimp.build_graph(*settings["root_packages"], cache_dir=None)
    imports: dict[str, set[str]] = {folder: set() for folder in folders}
    for module in graph.modules:
        owner = find_folder(module, folders)
        if owner is not None:
            found = {find_folder(other, folders) for other in graph.find_modules_directly_imported_by(module)}
            imports[owner] |= {other for other in found if other not in (None, owner)}  # type: ignore[misc]
    hundreds = {folder: max(1, round(count_lines(folder) / 100)) for folder in folders}
    named = {folder: sorted(imports[folder], key=folders.index) for folder in folders}
    return House(folders, hundreds, named, read_walk(folders))


def find_folder(module: str, folders: list[str]) -> str | None:
    """The folder of the layers that a module belongs to."""
    fitting = [folder for folder in folders if module == folder or module.startswith(f"{folder}.")]
    return max(fitting, key=len, default=None)


def count_lines(folder: str) -> int:
    path = ROOT / "src" / Path(*folder.split("."))
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def read_walk(folders: list[str]) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").split("<!-- walk: batch -->")[1].lstrip().split("\n\n")[0]
    names = re.findall(r"^\| \d+ \| `([\w.]+)` \|", section, re.MULTILINE)
    return [folder for name in names if (folder := find_folder(name, folders)) is not None]


def draw(house: House) -> str:
    """The picture as SVG."""
    count = len(house.folders)
    matrix = LEFT + BAR + 280
    width, height = matrix + count * DOT + 20, TOP + count * ROW + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f"<metadata>{html.escape(json.dumps(asdict(house)))}</metadata>",
        _text(LEFT, 24, "The house: who stands on whom", size=16, weight="bold"),
        _text(
            LEFT,
            44,
            "bars: lines of code · numbers: the way of one batch · dots: imports, all to the right of the square",
        ),
    ]
    largest = max(house.hundreds.values())
    for number, folder in enumerate(house.folders):
        y = TOP + number * ROW
        kind = find_kind(folder)
        bar = BAR * math.sqrt(house.hundreds[folder] / largest)
        if number % 2:
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{ROW}" fill="#f6f7f9"/>')
        parts.append(_text(LEFT + 150, y + 15, folder.removeprefix("openipu."), anchor="end"))
        parts.append(
            f'<rect x="{LEFT + 158}" y="{y + 4}" width="{bar:.0f}" height="{ROW - 8}" rx="2" fill="{COLOURS[kind]}"/>'
        )
        parts.append(_text(LEFT + 164 + bar, y + 15, f"{house.hundreds[folder] * 100:,}", colour="#555", size=10))
        x = matrix + number * DOT + DOT / 2
        parts.append(f'<rect x="{x - 4}" y="{y + ROW / 2 - 4}" width="8" height="8" fill="{COLOURS[kind]}"/>')
        for other in house.imports[folder]:
            place = matrix + house.folders.index(other) * DOT + DOT / 2
            title = f"<title>{folder} imports {other}</title>"
            parts.append(f'<circle cx="{place}" cy="{y + ROW / 2}" r="3.5" fill="#9aa3ad">{title}</circle>')
    parts += _draw_walk(house)
    legend = LEFT
    for kind, colour in COLOURS.items():
        parts.append(f'<rect x="{legend}" y="{height - 34}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(legend + 18, height - 24, kind))
        legend += 110
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_walk(house: House) -> list[str]:
    """Numbered steps beside the folders that a batch passes, joined by a line."""
    lane = LEFT + BAR + 218
    steps: dict[str, list[int]] = {}
    for number, folder in enumerate(house.walk, start=1):
        steps.setdefault(folder, []).append(number)
    points = [f"{lane},{TOP + house.folders.index(folder) * ROW + ROW / 2}" for folder in house.walk]
    parts = [f'<polyline points="{" ".join(points)}" fill="none" stroke="#2a9d8f" stroke-width="2"/>']
    for folder, numbers in steps.items():
        y = TOP + house.folders.index(folder) * ROW + ROW / 2
        parts.append(f'<circle cx="{lane}" cy="{y}" r="4" fill="#2a9d8f"/>')
        shown = ", ".join(map(str, numbers))
        parts.append(_text(lane + 9, y + 4, shown, colour="#1d6f66", size=10))
    return parts


def find_kind(folder: str) -> str:
    """What a folder is to a newcomer."""
    head, _, rest = folder.partition(".")
    if head != "openipu":
        return "ground" if head == "openipu_startup" else "front end"
    if rest in PIPELINE:
        return "pipeline"
    return "tool" if rest in ("cli", "gc_tools", "pytest_plugin", "auto", "explore", "validation", "jobs") else "ground"


def _text(
    x: float, y: float, content: str, *, anchor: str = "start", size: int = 12, colour: str = "#111", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{bold}>'
        f"{html.escape(content)}</text>"
    )


def read_picture() -> House | None:
    """What the picture in the repository shows; None for one that this script did not draw, such as a merged one."""
    text = PICTURE.read_text(encoding="utf-8")
    found = re.search(r"<metadata>(.*?)</metadata>", text)
    house = None if found is None else House(**json.loads(html.unescape(found[1])))
    return house if house is not None and draw(house) == text else None


def find_differences(drawn: House | None, real: House) -> list[str]:
    """What is no longer true of a picture. Sizes may be off by a sixth."""
    if drawn is None:
        return ["the picture is not one that this script drew"]
    parts = [name for name in ("folders", "imports", "walk") if getattr(drawn, name) != getattr(real, name)]
    if "folders" in parts:
        return parts
    sizes = ((name, drawn.hundreds[name], size) for name, size in real.hundreds.items())
    return parts + [f"{name}: {old} → {new}" for name, old, new in sizes if abs(old - new) > 2 + 0.15 * new]


def main() -> int:
    house = read_house()
    if find_differences(read_picture(), house):
        PICTURE.write_text(draw(house), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
