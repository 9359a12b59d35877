"""What is known of each application: its commands, what they need, and where their output has the loss.

In: `catalog/*.toml`, an entry for each application. Out: frozen `Application`s.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).resolve().parent / "catalog"
CONFIGURATIONS = (".yaml", ".yml", ".toml")  # what may be added to: no program
KINDS = ("train", "infer", "both", "plan")
FAULTS = ("ours", "the application's", "its environment's")


@dataclass(frozen=True)
class Published:
    """A rate that the application's own pages state for the configuration of a run."""

    rate: float  # samples per second, or what `unit` says
    source: str
    unit: str = "samples/s"
    items: float = 1.0  # of `unit` in a sample, such as tokens


@dataclass(frozen=True)
class Run:
    """One command of an application."""

    kind: str  # train: the loss must fall; infer: it must end well; both, in one run; plan: it compiles, as published
    command: str  # {folder} is the application's, for programs that want a whole path
    folder: str = "."  # where it is started, inside that of the application
    loss: str = ""  # a pattern whose first group is the loss, once for each step or report
    expects: str = ""  # a pattern that the output must have
    environment: Mapping[str, str] = field(default_factory=dict)
    enough: int = 0  # losses after which the run is ended, where it would go on for hours
    system: str = ""  # the machine to plan for, where it is not the default
    program: str = ""  # the one of its programs whose rate is shown, where it is not the last
    published: Published | None = None
    fault: str = ""  # whose it is that this run cannot end well, if that is known
    reason: str = ""


@dataclass(frozen=True)
class Application:
    """A folder of the checkout."""

    folder: str
    tag: str  # of graphcore/examples
    runs: tuple[Run, ...]
    catalogue: str = ""  # the file that describes it, without its ending
    packages: str = "pytorch"  # the environment that it runs in
    provides: tuple[str, ...] = ()  # "kind:path" of generated data, relative to the folder
    makes: tuple[str, ...] = ()  # "kind:path" of what its own packages write, by `models.py`
    beside: tuple[str, ...] = ()  # other paths of the checkout that it imports from
    files: Mapping[str, str] = field(default_factory=dict)  # new files of ours, by path
    configurations: Mapping[str, str] = field(default_factory=dict)  # added to the end of its own files of sizes
    libraries: tuple[str, ...] = ()  # built from C++ by its makefile: empty here, since their ops are in openipu


def load_applications(catalog: Path = CATALOG) -> list[Application]:
    """All entries, in the order of the files' names and of the entries in them."""
    return [
        read_application(entry | {"catalogue": path.stem})
        for path in sorted(catalog.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["application"]
    ]


def read_application(entry: Mapping[str, Any]) -> Application:
    runs = tuple(_read_run(run) for run in entry["run"])
    programs = [path for path in entry.get("configurations", ()) if not path.endswith(CONFIGURATIONS)]
    if programs:
        raise ValueError(f"{entry['folder']}: only {CONFIGURATIONS} are added to, not {programs}.")
    rest = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key != "run"}
    return Application(runs=runs, **rest)


def _read_run(entry: Mapping[str, Any]) -> Run:
    unknown = set(entry) - {known.name for known in fields(Run)}
    if unknown:
        raise ValueError(f"A run has no {sorted(unknown)}.")
    published = Published(**entry["published"]) if "published" in entry else None
    run = Run(**{**entry, "published": published})
    if run.kind not in KINDS:
        raise ValueError(f"A run is one of {KINDS}, not {run.kind!r}.")
    if run.kind == "both" and not run.expects:
        raise ValueError(f"{run.command}: a run that trains and infers says by which words it has inferred.")
    if run.kind in ("train", "both") and (not run.loss or re.compile(run.loss).groups != 1):
        raise ValueError(f"{run.command}: a training run needs a pattern of the loss with one group.")
    if bool(run.fault) != bool(run.reason) or (run.fault and run.fault not in FAULTS):
        raise ValueError(f"{run.command}: a fault is one of {FAULTS}, with a reason.")
    return run
