"""`openipu cache`: what the executable cache holds, and how to make it smaller.

In: an action and, for another cache than the user's own, a directory. Out: a table or a sentence, or JSON.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from typing import Any

from rich.markup import escape

from openipu.cli.terminal import make_table, open_console, print_json
from openipu.errors import ArchiveError, OptionError
from openipu.report.units import format_bytes
from openipu.store import Removal, Store, Summary, open_store, parse_size

_EPILOG = """\
examples
  openipu cache                              list what is kept, the latest first
  openipu cache size                         how much that is, and how much it may be
  openipu cache prune --older-than 30d       remove what was not used for 30 days
  openipu cache prune --limit 500MB          remove the least recently used until 500 MB are left
  openipu cache verify                       compare checksums and load kernels; damaged entries go
  openipu cache clear --directory ./cache    empty a cache that a script made for itself

The cache is --directory, else the environment variable OPENIPU_CACHE_DIR, else ~/.cache/openipu. It keeps itself below
OPENIPU_CACHE_LIMIT (4 GB unless set). What a running process uses is never removed.
Exit code 1 means that `verify` found damage.
"""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "cache",
        parents=[shared],
        help="list, measure and prune what was compiled",
        description="Look after the executable cache: plans and native code of programs that were compiled before.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "action", nargs="?", choices=tuple(_ACTIONS), default="list", help="what to do (list unless given)"
    )
    parser.add_argument("--directory", metavar="DIR", help="another cache than the user's own")
    parser.add_argument("--limit", metavar="SIZE", help="prune: the size to reach, such as 500MB")
    parser.add_argument("--older-than", metavar="TIME", help="prune: remove what was not used for 12h, 30d, 2w")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action != "prune" and (arguments.limit or arguments.older_than):
        raise OptionError(f"--limit and --older-than belong to `openipu cache prune`, not to {arguments.action}.")
    store = open_store(arguments.directory)
    if arguments.directory and not store.directory.is_dir():
        raise ArchiveError(f"There is no directory {store.directory}: check --directory.")
    return _ACTIONS[arguments.action](store, arguments)


def parse_duration(text: str) -> float:
    """`"30d"` -> seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise OptionError(
            f"--older-than is {text!r}, which is not a time: write a number with s, m, h, d or w, as in 30d."
        )
    return float(match[1]) * _SECONDS[match[2]]


def format_age(seconds: float) -> str:
    """`7300` -> "2 h"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _list(store: Store, arguments: argparse.Namespace) -> int:
    entries = store.list()
    if arguments.json:
        print_json([_describe(entry) for entry in entries])
        return 0
    console = open_console()
    if not entries:
        console.print(f"The cache at {escape(str(store.directory))} is empty.", soft_wrap=True)
        return 0
    table = make_table()
    for heading in ("key", "program", "system", "kind"):
        table.add_column(heading, no_wrap=True)
    for heading in ("size", "made", "last use"):
        table.add_column(heading, justify="right", no_wrap=True)
    now = time.time()
    for entry in entries:
        described = _describe(entry)
        table.add_row(
            entry.key[:12],
            f"[bold]{escape(described['program'])}[/]",
            escape(described["system"]),
            escape(described["kind"]),
            format_bytes(entry.size_bytes),
            f"{format_age(now - entry.created_seconds)} ago",
            "[green]in use[/]" if entry.in_use else f"{format_age(now - entry.used_seconds)} ago",
        )
    console.print(table)
    total = format_bytes(sum(entry.size_bytes for entry in entries))
    console.print(f"\n{_count(len(entries))}, {total} in {escape(str(store.directory))}", style="dim", soft_wrap=True)
    return 0


def _size(store: Store, arguments: argparse.Namespace) -> int:
    size = store.size()
    if arguments.json:
        print_json({"directory": str(store.directory), "size_bytes": size, "limit_bytes": store.limit_bytes})
        return 0
    limit = "no limit" if store.limit_bytes is None else f"a limit of {format_bytes(store.limit_bytes)}"
    open_console().print(f"{format_bytes(size)} of {limit} in {escape(str(store.directory))}", soft_wrap=True)
    return 0


def _prune(store: Store, arguments: argparse.Namespace) -> int:
    limit = store.limit_bytes if arguments.limit is None else parse_size(arguments.limit, "--limit")
    if arguments.limit is None and arguments.older_than is not None:
        limit = None
    age = None if arguments.older_than is None else parse_duration(arguments.older_than)
    _print_removal(store.prune(limit, age), store, arguments)
    return 0


def _clear(store: Store, arguments: argparse.Namespace) -> int:
    _print_removal(store.clear(), store, arguments)
    return 0


def _verify(store: Store, arguments: argparse.Namespace) -> int:
    findings = store.verify()
    if arguments.json:
        print_json({"damaged": [{"key": finding.key, "reason": finding.reason} for finding in findings]})
    else:
        console = open_console()
        for finding in findings:
            console.print(f"[red]damaged[/] {finding.key[:12]}: {escape(finding.reason)}", soft_wrap=True)
        whole = f"{_count(len(store.list()))} as written"
        console.print(f"{_count(len(findings))} damaged and removed, {whole}." if findings else f"{whole}.")
    return 1 if findings else 0


def _path(store: Store, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json({"directory": str(store.directory), "native_code": store.exposure or "kept and loaded"})
        return 0
    print(store.directory)
    if store.exposure:
        message = f"Native code is neither kept nor loaded there: {escape(store.exposure)}."
        open_console(stderr=True).print(message, soft_wrap=True)
    return 0


_ACTIONS: dict[str, Callable[[Store, argparse.Namespace], int]] = {
    "list": _list,
    "size": _size,
    "prune": _prune,
    "clear": _clear,
    "verify": _verify,
    "path": _path,
}


def _describe(entry: Summary) -> dict[str, Any]:
    description = entry.description
    return {
        "key": entry.key,
        "program": str(description.get("program", "")),
        "system": str(description.get("system", "")),
        "kind": str(description.get("kind", "")),
        "size_bytes": entry.size_bytes,
        "created_seconds": entry.created_seconds,
        "used_seconds": entry.used_seconds,
        "in_use": entry.in_use,
        "parts": dict(entry.parts),
        "description": dict(description),
    }


def _print_removal(removal: Removal, store: Store, arguments: argparse.Namespace) -> None:
    left = store.size()
    if arguments.json:
        print_json(
            {
                "removed": removal.entries,
                "removed_bytes": removal.size_bytes,
                "kept_in_use": removal.kept_in_use,
                "size_bytes": left,
            }
        )
        return
    text = f"{_count(removal.entries)} removed, {format_bytes(removal.size_bytes)}; {format_bytes(left)} left."
    if removal.kept_in_use:
        text += f" {_count(removal.kept_in_use)} stayed: a running process uses them."
    open_console().print(text)


def _count(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"
