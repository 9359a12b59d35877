"""What the executable cache keeps of a program: its key, and the figures of its plan.

In: a program, a system, options and a store. Out: a key under which everything compiled from the program is kept, and a
plan that is made once: a warm start reads the figures and plans only if somebody asks for details. Plans of a program
whose lines have moved are made again, so that reports never name old ones.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from openipu.errors import ArchiveError
from openipu.graph import HOST_ONLY, InputKind, Program, RunOptions, describe_options
from openipu.graph.fingerprint import fingerprint_origin, fingerprint_placement, fingerprint_program
from openipu.machine import System
from openipu.plan import Plan, plan_program
from openipu.plan.deferred import dump_figures, load_figures
from openipu.store import Store, describe_build, make_key
from openipu.trace import WAIT, mark_past

PLAN_PART = "plan.json"

Progress = Callable[[float], None]

_logger = logging.getLogger("openipu")

__all__ = [
    "PLAN_PART",
    "check_inputs",
    "find_plan",
    "fingerprint_program",
    "key_program",
    "plan_once",
    "store_plan",
]


def key_program(program: Program, system: System, options: RunOptions) -> str:
    """The key of everything that is made from a program: the same for the same graphs, whatever the weights."""
    return make_key(
        {
            "program": fingerprint_program(program),
            "placement": fingerprint_placement(program),
            "options": describe_options(options, without=HOST_ONLY),
            "system": _describe_figures(system),
            "build": describe_build(),
        }
    )


def plan_once(
    store: Store,
    key: str,
    program: Program,
    system: System,
    options: RunOptions,
    progress: Progress | None = None,
    least_seconds: float = 0.0,
) -> Plan:
    """The plan of a program, from the store if it was planned before. Quick plans may stay out of the store."""
    plan = find_plan(store, key, program, system, options)
    if plan is not None:
        return plan
    asked = time.perf_counter()
    with store.hold(key):
        mark_past(WAIT, "executable cache", asked, time.perf_counter())
        plan = find_plan(store, key, program, system, options)
        if plan is None:
            plan = plan_program(program, system, options, progress=progress)
            if plan.planning_seconds >= least_seconds:
                store_plan(store, key, program, plan)
        return plan


def find_plan(store: Store, key: str, program: Program, system: System, options: RunOptions) -> Plan | None:
    """A plan that was stored for a program with the same names and lines; its details are planned when asked for."""
    entry = store.read(key)
    if entry is None or PLAN_PART not in entry:
        return None
    try:
        origin, figures = entry.read(PLAN_PART).split(b"\n", 1)
        if origin.decode() != fingerprint_origin(program):
            return None
        plan = load_figures(figures, system, options, lambda: plan_program(program, system, options))
    except (ArchiveError, ValueError) as error:
        _logger.warning("The executable cache holds a plan that cannot be used, and it is made again: %s", error)
        return None
    finally:
        entry.close()
    _logger.debug("%s is in the executable cache: %s", program.name, store.directory / key)
    return plan


def store_plan(store: Store, key: str, program: Program, plan: Plan) -> None:
    """Keep the figures of a plan, with what a list of the cache shows."""
    content = b"\n".join((fingerprint_origin(program).encode(), dump_figures(plan)))
    entry = store.write(key, {PLAN_PART: content}, describe_program(program, plan.system, plan.options))
    if entry is not None:
        entry.close()
        _logger.debug("%s was entered into the executable cache: %s", program.name, store.directory / key)


def describe_program(program: Program, system: System, options: RunOptions) -> dict[str, Any]:
    """What a list of the cache shows of a program."""
    return {
        "program": program.name,
        "training": program.training,
        "system": system.name,
        "nodes": sum(len(graph.module.graph.nodes) for graph in (program.micro, program.update) if graph is not None),
        "micro_batches": options.micro_batches,
    }


def check_inputs(program: Program, leaves: Sequence[Any]) -> None:
    """Refuse a program that was read from a file and was captured for other inputs; leaves are of one micro-batch."""
    for entry in program.micro.inputs_of(InputKind.INPUT):
        leaf = leaves[entry.index] if 0 <= entry.index < len(leaves) else None
        found = (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else None
        if found != (entry.shape, entry.dtype):
            described = f"{found[0]} of {found[1]}" if found else "no tensor"
            raise ArchiveError(
                f"{program.name} was compiled for input {entry.name} with {entry.shape} of {entry.dtype} in a "
                f"micro-batch, and these options give it {described}: compile it again, or use the options of the file."
            )


def _describe_figures(system: System) -> str:
    """All figures of a machine; where they are from does not matter."""

    def describe(item: Any) -> Mapping[str, Any]:
        names = [field.name for field in dataclasses.fields(item) if field.name not in ("sources", "description")]
        values = {name: getattr(item, name) for name in names}
        return {name: describe(value) if dataclasses.is_dataclass(value) else value for name, value in values.items()}

    return json.dumps(describe(system), sort_keys=True)
