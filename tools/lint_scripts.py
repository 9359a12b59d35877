"""Lints the scripts of the web pages as the browser sees them: all files of a page, in order, as one script.

In: the pages' own lists of scripts. Out: the linter's findings with the file and the line that a person would open, and
exit code 1 where there are any. A name that one file defines and another one uses is neither unused nor undefined.

    python tools/lint_scripts.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from openipu.cli import live
from openipu.report import html
from openipu.report.system import page

WEB = Path(html.__file__).parent
PAGES = {
    WEB / "web": html.SCRIPTS,
    WEB / "web_system": page.SCRIPTS,
    Path(live.__file__).parent / "web": ("page.js",),
}
RULES = (
    "no-undef",
    "no-unused-vars",
    "no-redeclare",
    "no-const-assign",
    "no-shadow-restricted-names",
    "eqeqeq",
    "no-var",
)


@dataclass(frozen=True)
class JoinedScript:
    """The files of a page as one script, and where each of them begins in it."""

    text: str
    files: tuple[Path, ...]
    starts: tuple[int, ...]  # the first line of each file, counted from 0

    def locate(self, line: int) -> str:
        """A line of the joined script, counted from 1, as file and line."""
        number = bisect_right(self.starts, line - 1) - 1
        return f"{self.files[number].relative_to(Path.cwd())}:{line - self.starts[number]}"


def join_scripts(folder: Path, names: tuple[str, ...]) -> JoinedScript:
    """All files of a page, in the order in which the page has them."""
    files = tuple(folder / name for name in names)
    lines: list[str] = []
    starts: list[int] = []
    for file in files:
        starts.append(len(lines))
        lines.extend(file.read_text(encoding="utf-8").splitlines())
    if lines[-1] != "start();":
        lines.append("start();")  # as the page itself does
    return JoinedScript("\n".join(lines) + "\n", files, tuple(starts))


def list_findings(script: JoinedScript) -> list[str]:
    """What the linter says, one line each."""
    linter = Path(sysconfig.get_path("scripts")) / "oxlint"
    with tempfile.TemporaryDirectory() as place:
        file, config = Path(place, "page.js"), Path(place, "oxlintrc.json")
        file.write_text(script.text, encoding="utf-8")
        settings = {"env": {"browser": True, "es2024": True}, "rules": dict.fromkeys(RULES, "error")}
        config.write_text(json.dumps(settings), encoding="utf-8")
        command = [str(linter), "--format", "json", "--config", str(config), str(file)]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = []
    for entry in answer["diagnostics"]:
        line = entry["labels"][0]["span"]["line"] if entry["labels"] else 1
        found.append(f"{script.locate(line)}: {entry['message']} [{entry['code']}]")
    return found


def main() -> int:
    findings = [line for folder, names in PAGES.items() for line in list_findings(join_scripts(folder, names))]
    for line in findings:
        print(line)
    print(f"{len(findings)} findings" if findings else "The scripts of all pages are clean.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
