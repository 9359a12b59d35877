"""What an export says, and what `openipu run --export` writes when the script is over.

In: reports of exports, or every executable of a script. Out: files, and text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from openipu.cli.terminal import open_console
from openipu.errors import OpenIpuError

if TYPE_CHECKING:
    from openipu.export import ExportReport
    from openipu.run import Executable


def print_report(console: Console, report: ExportReport) -> None:
    """The files, and how near their results are."""
    console.print(f"wrote {escape(', '.join(map(str, report.files)))}", soft_wrap=True)
    for comparison in report.comparisons:
        console.print(f"  {escape(str(comparison))}", soft_wrap=True)
    if not report.comparisons:
        console.print("  not checked", soft_wrap=True)
    for note in report.notes:
        console.print(f"  [yellow]{escape(note)}[/]", soft_wrap=True)


def export_all(executables: Sequence[Executable], directory: Path) -> None:
    """Each program as PyTorch and as ONNX. What cannot be written is said; the script itself has ended as it ended."""
    from openipu.export import Format, export_program
    from openipu.export.exporting import SUFFIXES

    console = open_console(stderr=True)
    taken: set[str] = set()
    for executable in executables:
        wished = "".join(c if c.isalnum() or c in "-_" else "_" for c in executable.program.name) or "program"
        name, number = wished, 1
        while name in taken:
            number += 1
            name = f"{wished}-{number}"
        taken.add(name)
        for kind in Format:
            try:
                print_report(console, export_program(executable, directory / f"{name}{SUFFIXES[kind]}", to=kind))
            except OpenIpuError as error:
                console.print(f"openipu: no {kind} file of {escape(name)}: {escape(str(error))}", soft_wrap=True)
