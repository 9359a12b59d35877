"""Tables in the terminal and in `docs/performance.md`.

In: tables and the description of the machine. Out: text; the page's generated parts stand between
`<!-- bench:NAME -->` and `<!-- /bench:NAME -->` and are replaced, the rest stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.tables import Table

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def describe_machine(machine: Mapping[str, Any]) -> str:
    """The machine as one line."""
    if not machine:
        return "The machine is unknown."
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['capability']}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; PyTorch {machine['torch']}, {machine['threads']} threads, "
        f"OMP_WAIT_POLICY={machine['wait_policy'] or 'unset'}; Python {machine['python']}; "
        f"openipu {machine['openipu']}; {machine['date']}."
    )


def write_markdown(table: Table) -> str:
    """A table for the page."""
    lines = [
        f"**{table.title}**",
        "",
        _write_row(table.headings),
        "|---" + "|---:" * (len(table.headings) - 1) + "|",
        *(_write_row(row) for row in table.rows),
    ]
    return "\n".join(lines)


def update_page(text: str, parts: Mapping[str, str]) -> str:
    """The page with new generated parts. A part without a place, or a place without its end, is an error."""
    for name, content in parts.items():
        opening, closing = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"The page needs {opening} and {closing} once each, in this order.")
        before, after = pattern.split(text)
        text = f"{before}{opening}\n{content}\n{closing}{after}"
    return text


def write_page(tables: Iterable[Table], machine: Mapping[str, Any], path: Path = PAGE) -> None:
    """Renew the parts that were measured; others keep what they show."""
    parts = {table.name: write_markdown(table) for table in tables}
    parts["machine"] = describe_machine(machine)
    path.write_text(update_page(path.read_text(encoding="utf-8"), parts), encoding="utf-8")


def print_tables(tables: Iterable[Table], machine: Mapping[str, Any]) -> None:
    """Tables for a terminal."""
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a file has no width: nothing is cut off
    console.print(describe_machine(machine))
    for table in tables:
        shown = RichTable(title=table.title)
        for index, heading in enumerate(table.headings):
            shown.add_column(heading, justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def _write_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
