"""`openipu systems`: the machines of the catalog, and where every figure of one is from.

In: a name, a TOML file, or nothing. Out: a table, or JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from openipu.cli.rows import Column, print_rows
from openipu.cli.terminal import format_quantity, open_console, print_json
from openipu.machine import Provenance, System, Target, list_systems, resolve_system

_EPILOG = """\
examples
  openipu systems                    all machines
  openipu systems pod16              every figure of one, with provenance and source
  openipu systems my_machine.toml    the same for your own file: also checks it
  openipu systems --json bow-2000

provenance
  published  a vendor document, a paper or a measurement states it
  derived    arithmetic on published figures
  guessed    our judgement; reports say how much of a total rests on these
  user       from your own file
"""
_WIDE_COLUMNS = 110  # of a terminal in which a source has room beside its figure
_CATALOG_COLUMNS = (
    Column("system", figures=False),
    Column("chip", figures=False),
    Column("IPUs"),
    Column("tiles", spare=2),
    Column("clock", spare=1),
    Column("memory/IPU"),
    Column("half peak"),
    Column("description", words=True),
)
_FIGURE_COLUMNS = (
    Column("figure", figures=False),
    Column("value"),
    Column("provenance", figures=False),
    Column("source", words=True),
)
_COLOURS = {
    Provenance.PUBLISHED: "green",
    Provenance.DERIVED: "cyan",
    Provenance.GUESSED: "yellow",
    Provenance.USER: "magenta",
}


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "systems",
        parents=[shared],
        help="list the machines that can be planned for",
        description="List the machines of the catalog, or every figure of one of them.",
        epilog=_EPILOG,
    )
    parser.add_argument("name", nargs="?", help="a name of the catalog, or a TOML file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        systems = list(list_systems().values())
        if arguments.json:
            print_json([summarise_system(system) for system in systems])
        else:
            _print_catalog(systems)
        return 0
    system = resolve_system(arguments.name)
    if arguments.json:
        print_json(describe_system(system))
    else:
        _print_system(system)
    return 0


def summarise_system(system: System) -> dict[str, Any]:
    """The figures that tell machines apart."""
    target = system.target
    return {
        "name": system.name,
        "description": system.description,
        "chip": target.name,
        "ipus": system.ipus,
        "tiles_per_ipu": target.tiles,
        "clock_hz": target.clock_hz,
        "memory_bytes_per_ipu": target.memory_bytes,
        "peak_half_flops": target.peak_flops(2) * system.ipus,
        "peak_float_flops": target.peak_flops(4) * system.ipus,
    }


def describe_system(system: System) -> dict[str, Any]:
    """Every figure of a system and of its chip, with its source."""
    return {**summarise_system(system), "system": _describe_fields(system), "target": _describe_fields(system.target)}


def _describe_fields(item: System | Target) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for field in dataclasses.fields(item):
        if field.name in ("name", "description", "sources", "target"):
            continue
        source = item.sources.get(field.name)  # a plain value of the catalog is structure
        described[field.name] = {
            "value": getattr(item, field.name),
            "provenance": source.provenance.value if source else None,
            "source": source.reference if source else "structure",
        }
    return described


def _print_catalog(systems: list[System]) -> None:
    console = open_console()
    rows = []
    for system in systems:
        target = system.target
        rows.append(
            (
                f"[bold]{escape(system.name)}[/]",
                escape(target.name),
                str(system.ipus),
                f"{target.tiles * system.ipus:,}",
                format_quantity(target.clock_hz, "Hz"),
                f"{target.memory_bytes / 2**20:,.0f} MiB",
                format_quantity(target.peak_flops(2) * system.ipus, "FLOPS"),
                escape(system.description),
            )
        )
    print_rows(console, _CATALOG_COLUMNS, rows)
    default = resolve_system()
    console.print(f"\nDefault: [bold]{escape(default.name)}[/]. Figures and sources: openipu systems NAME", style="dim")


def _print_system(system: System) -> None:
    console = open_console()
    console.print(f"[bold]{escape(system.name)}[/]  {escape(system.description)}\n")
    for title, item in ((f"system {system.name}", system), (f"chip {system.target.name}", system.target)):
        rows = []
        for name, entry in _describe_fields(item).items():
            provenance = Provenance(entry["provenance"]) if entry["provenance"] else None
            marked = f"[{_COLOURS[provenance]}]{provenance}[/]" if provenance else "[dim]structure[/]"
            source = escape(entry["source"]) if provenance else ""
            rows.append((name, _format_value(entry["value"]), marked, source))
        if console.width >= _WIDE_COLUMNS:
            print_rows(console, _FIGURE_COLUMNS, rows, escape(title))
        else:
            _print_narrow(console, rows, title)
        console.print()


def _print_narrow(console: Console, rows: Sequence[tuple[str, str, str, str]], title: str) -> None:
    """A figure in one line, its source below it."""
    console.print(f"[italic]{escape(title)}[/]")
    names, values = (max(len(row[index]) for row in rows) for index in (0, 1))
    for name, value, provenance, source in rows:
        console.print(f"{name:<{names}}  {value:>{values}}  {provenance}")
        if source:
            console.print(Padding(f"[dim]{source}[/]", (0, 0, 0, 4)))


def _format_value(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1e4 and value == int(value) else f"{value:g}"
    return escape(str(value))
