"""Hardware as data: chips, systems, and the source of every figure."""

from openipu.machine.bounds import build_machine
from openipu.machine.catalog import (
    DEFAULT_SYSTEM,
    SYSTEM_VARIABLE,
    list_systems,
    list_targets,
    load_system_file,
    resolve_system,
)
from openipu.machine.margin import estimate_fit_probability
from openipu.machine.target import Provenance, Source, System, Target

__all__ = [
    "DEFAULT_SYSTEM",
    "SYSTEM_VARIABLE",
    "Provenance",
    "Source",
    "System",
    "Target",
    "build_machine",
    "estimate_fit_probability",
    "list_systems",
    "list_targets",
    "load_system_file",
    "resolve_system",
]
