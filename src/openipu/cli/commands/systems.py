"""`openipu systems`: the machines of the catalog, and where every figure of one is from.

In: a name, a TOML file, or nothing. Out: a table, or JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from rich.markup import escape

from openipu.cli.terminal import format_quantity, make_table, open_console, print_json
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
        allow_abbrev=False,
        help="list the machines that can be planned for",
        description="List the machines of the catalog, or every figure of one of them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    table = make_table()
    for heading, justify in (
        ("system", "left"),
        ("chip", "left"),
        ("IPUs", "right"),
        ("tiles", "right"),
        ("clock", "right"),
        ("memory/IPU", "right"),
        ("half peak", "right"),
        ("description", "left"),
    ):
        table.add_column(heading, justify=justify, no_wrap=heading != "description")  # type: ignore[arg-type]
    for system in systems:
        target = system.target
        table.add_row(
            f"[bold]{escape(system.name)}[/]",
            escape(target.name),
            str(system.ipus),
            f"{target.tiles * system.ipus:,}",
            format_quantity(target.clock_hz, "Hz"),
            f"{target.memory_bytes / 2**20:,.0f} MiB",
            format_quantity(target.peak_flops(2) * system.ipus, "FLOPS"),
            escape(system.description),
        )
    console.print(table)
    default = resolve_system()
    console.print(f"\nDefault: [bold]{escape(default.name)}[/]. Figures and sources: openipu systems NAME", style="dim")


def _print_system(system: System) -> None:
    console = open_console()
    console.print(f"[bold]{escape(system.name)}[/]  {escape(system.description)}\n")
    for title, item in ((f"system {system.name}", system), (f"chip {system.target.name}", system.target)):
        table = make_table(escape(title))
        table.add_column("figure", no_wrap=True)
        table.add_column("value", justify="right", no_wrap=True)
        table.add_column("provenance", no_wrap=True)
        table.add_column("source", overflow="fold")
        for name, entry in _describe_fields(item).items():
            provenance = Provenance(entry["provenance"]) if entry["provenance"] else None
            marked = f"[{_COLOURS[provenance]}]{provenance}[/]" if provenance else "[dim]structure[/]"
            source = escape(entry["source"]) if provenance else ""
            table.add_row(name, _format_value(entry["value"]), marked, source)
        console.print(table)
        console.print()


def _format_value(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1e4 and value == int(value) else f"{value:g}"
    return escape(str(value))
