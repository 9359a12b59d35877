"""The executable cache: one small file for each distinct program, options and system.

In: a compiled program and a directory. Out: whether the same one was there before. What is cached is the fingerprint
and the plan's figures, without weights and without code: capturing and planning take seconds and are done again, so a
hit proves that the program and its plan have not changed. Files hold JSON only.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import fx

from openipu import __version__
from openipu.archive import Archive, read_archive, write_archive
from openipu.errors import ArchiveError
from openipu.graph import Graph, GraphCall, GraphInput, GraphOutput, Program, RunOptions
from openipu.plan import Plan

KIND = "openipu cached plan"
SUFFIX = ".openipu"

_logger = logging.getLogger("openipu")


def fingerprint_program(program: Program) -> str:
    """The same text for the same graphs, whatever the weights."""
    digest = hashlib.sha256()
    for graph in filter(None, (program.micro, program.update)):
        for line in _describe_graph(graph):
            digest.update(line.encode())
    for name, tensor in sorted(program.constants.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type == "cpu":
            digest.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _describe_graph(graph: Graph) -> Iterator[str]:
    numbers: dict[fx.Node, str] = {}
    for index, node in enumerate(graph.module.graph.nodes):
        numbers[node] = f"%{index}"
        # Node names may depend on what else the process captured; their order does not.
        arguments = fx.map_arg((node.args, node.kwargs), lambda source: numbers[source])
        value = node.meta.get("val")
        kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
        target = node.target if isinstance(node.target, str) and node.op != "placeholder" else ""
        if not isinstance(node.target, str):
            target = str(node.target).split(" at 0x")[0]
        yield f"{index} {node.op} {target} {arguments} {kind}\n"
        if isinstance(node.target, GraphCall):
            yield f"{node.target.details}\n"
            for body in node.target.bodies:
                yield from _describe_graph(body)
    signature: tuple[GraphInput | GraphOutput, ...] = (*graph.inputs, *graph.outputs)
    for entry in signature:
        yield f"{entry.kind} {entry.name} {entry.shape} {entry.dtype} {entry.index}\n"


def check_cache(directory: Path, program: Program, plan: Plan, options: RunOptions) -> bool:
    """Look a program up, and enter it if it is new; says whether it was there."""
    text = f"{fingerprint_program(program)} {options} {plan.system.name} {plan.system.target.name} {__version__}"
    key = hashlib.sha256(text.encode()).hexdigest()
    path = directory / f"{key[:32]}{SUFFIX}"
    figures = {
        "key": key,
        "system": plan.system.name,
        "call_cycles": plan.timing.call_cycles,
        "fits": plan.fit.fits,
        "peak_bytes": plan.fit.peak_bytes,
    }
    try:
        if path.exists() and dict(read_archive(path, KIND).values) == figures:
            _logger.debug("%s is in the executable cache: %s", program.name, path)
            return True
    except ArchiveError as error:
        _logger.warning("The executable cache holds a file that cannot be used, and it is written again: %s", error)
    write_archive(path, Archive(KIND, figures))
    _logger.debug("%s was entered into the executable cache: %s", program.name, path)
    return False


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Let one process at a time in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows: processes then compile side by side, which costs time but no correctness
        yield
        return
    handle = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
