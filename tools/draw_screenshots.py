"""Takes the documentation's pictures of the report anew: `make screenshots`; `PICTURES="report_trace"` takes one.

In: `REPORTS`, the commands that make reports, and `PICTURES`, what each picture shows of which of them. Out: PNG files
in `docs/images`, with at most 128 colours, so that they stay small. `docs/report.md` and `docs/poplar.md` name the same
commands; a test holds them together. Needs Chromium and its driver.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
IMAGES = REPOSITORY / "docs" / "images"
SIZE = (1280, 800)
COLOURS = 128

REPORTS: Mapping[str, str] = {  # a folder below the place of work: the command that fills it
    "bert": "openipu auto examples/plan_models.py:bert_base_training --system bow-2000 --ipus-per-replica 4 "
    "--replicas 1 --profile out",
    "older": "openipu auto examples/plan_models.py:bert_base_training --system m2000 --ipus-per-replica 4 --replicas 1 "
    "--profile out",
    "large": "openipu plan examples/plan_models.py:bert_large_training --advice-plans 20 --profile out",
    "heat": """env POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true","autoReport.directory":"out"}' """
    "python examples/poplar/heat_equation.py",
    "mappings": "python examples/poplar/three_mappings.py out",
}


@dataclass(frozen=True)
class Picture:
    report: str  # of `REPORTS`; a second one after a plus is compared with it
    link: str = ""  # what the page shows
    height: int = SIZE[1]
    script: str = ""  # run before the picture is taken
    program: str = ""  # of several, by its folder


PICTURES: Mapping[str, Picture] = {
    "report_summary": Picture("bert"),
    "report_insights": Picture("large", "#view=insights"),
    "report_memory": Picture("bert", "#view=memory"),
    "report_floor_plan": Picture("bert", "#view=memory&shown=plan&tiles=2,500"),
    "report_liveness": Picture("bert", "#view=liveness&steps=1200,1990"),
    "report_programs": Picture("bert", "#view=programs&step=121"),
    "report_operations": Picture("bert", "#view=operations&group=layer"),
    "report_graph": Picture("bert", "#view=graph&op=40"),
    "report_trace": Picture("bert", "#view=trace"),
    "report_pipeline": Picture("bert", "#view=pipeline"),
    "pipeline": Picture("bert", "#view=pipeline", 720),
    "report_comparison": Picture("older+bert"),
    "report_comparison_trace": Picture("older+bert", "#view=trace"),
    "report_search": Picture("bert", "", script="search"),
    "poplar_programs": Picture("heat", "#view=programs&step=5"),
    "poplar_trace": Picture("heat", "#view=trace", 560),
    "poplar_bsp": Picture("mappings", "#view=trace", 430, program="neighbours"),
    "poplar_one_tile": Picture("mappings", "#view=memory", program="one_tile"),
}


def main(words: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pictures to take; all of them")
    parser.add_argument("--work", type=Path, help="where reports are kept, and used again if they are there")
    arguments = parser.parse_args(list(words))
    unknown = set(arguments.names) - set(PICTURES)
    if unknown:
        raise SystemExit(f"There is no picture {', '.join(sorted(unknown))}. There are: {', '.join(PICTURES)}.")
    with tempfile.TemporaryDirectory() as place:
        work = arguments.work or Path(place)
        browser = start_browser(Path(place) / "chromium")
        try:
            for name in arguments.names or PICTURES:
                picture = PICTURES[name]
                page = make_page(picture, work)
                take_picture(browser, page, picture, IMAGES / f"{name}.png")
                print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")
        finally:
            browser.quit()
    return 0


def make_page(picture: Picture, work: Path) -> Path:
    """The page that a picture shows, made by the command of its report unless it is there."""
    folders = [make_report(name, work, picture.program) for name in picture.report.split("+")]
    if len(folders) == 1:
        return folders[0] / "report.html"
    page = work / f"{picture.report}.html"
    run(["openipu", "report", *map(str, folders), "--html", str(page)], work)
    return page


def make_report(name: str, work: Path, program: str = "") -> Path:
    """The folder with the profile and the page of a report, or of one of its programs."""
    folder = work / name
    if not list(folder.rglob("profile.pop")):
        words = shlex.split(REPORTS[name])
        run([re.sub(r"\bout\b", str(folder), word) for word in words], REPOSITORY)
    (profile,) = (folder / program).rglob("profile.pop")
    if not (profile.parent / "report.html").is_file():
        run(["openipu", "report", str(profile.parent)], work)
    return profile.parent


def run(words: list[str], place: Path) -> None:
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")])}
    subprocess.run(words, cwd=place, check=True, env=environment)


def start_browser(profile: Path) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def take_picture(browser: Any, page: Path, picture: Picture, goal: Path) -> None:
    """What the page shows at this link, as a small PNG."""
    from PIL import Image
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    metrics = {"width": SIZE[0], "height": picture.height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    browser.get(page.resolve().as_uri() + picture.link)
    WebDriverWait(browser, 120).until(lambda found: found.execute_script("return !!document.querySelector('h1')"))
    if picture.script == "search":
        ActionChains(browser).send_keys("/").pause(0.3).send_keys("layer.3.attention").pause(0.7).perform()
    browser.execute_async_script(
        "const done = arguments[0];"
        "setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done())), 600);"
    )
    image = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(goal, optimize=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
