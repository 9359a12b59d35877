"""A call that differs, as one file: the program in openipu's own form, options, inputs, weights, state, random streams.

In: a `Trial` and the rules to leave out. Out: a file without pickle, and the trial again when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from openipu.errors import ArchiveError
from openipu.graph import RunOptions
from openipu.graph.serial import Archive, dump_program, load_program, read_archive, write_archive
from openipu.run.engine.snapshot import ReplicaSetSnapshot, Snapshot
from openipu.run.verify.trial import Trial

_KIND = "call that differs from the reference"
_GLOBAL, _STREAM = "global stream", "stream"


@dataclass(frozen=True, eq=False)
class Reproducer:
    """What a file holds."""

    trial: Trial
    without: frozenset[str]  # rules that the difference does not need
    fault: str


def choose_path(name: str) -> Path:
    """A file of this folder that is not there yet."""
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.") or "program"
    number = 1
    while (path := Path(f"openipu-verify-{stem}-{number}.zip")).exists():
        number += 1
    return path.absolute()


def write_reproducer(path: Path, trial: Trial, without: Collection[str], fault: str) -> None:
    """Write the file. ExportError if the program holds something that only this process has."""
    program = dump_program(trial.program)
    tensors = {f"input:{place}": leaf for place, leaf in enumerate(trial.leaves) if isinstance(leaf, torch.Tensor)}
    start = trial.start
    tensors[_GLOBAL] = start.global_stream
    if start.stream is not None:
        tensors[_STREAM] = start.stream
    for number, replica_set in enumerate(start.sets):
        groups = {"parameter": replica_set.parameters, "state": replica_set.state, "hyper": replica_set.hyper}
        groups |= {f"buffer/{replica}": buffers for replica, buffers in enumerate(replica_set.buffers)}
        for kind, group in groups.items():
            tensors |= {f"{kind}/{number}:{name}": tensor for name, tensor in group.items()}
    values = {
        "options": msgspec.json.decode(msgspec.json.encode(trial.options)),
        "without": sorted(without),
        "fault": fault,
        "leaves": len(trial.leaves),
    }
    blobs = {"program.json": program.document, "constants.bin": program.tensors}
    write_archive(path, Archive(_KIND, values, tensors, blobs))


def read_reproducer(path: Path) -> Reproducer:
    """Read a file that `write_reproducer` wrote."""
    archive = read_archive(path, _KIND)
    try:
        program = load_program(archive.blobs["program.json"], archive.blobs["constants.bin"])
        options = msgspec.convert(archive.values["options"], RunOptions)
        tensors = archive.tensors
        leaves = [tensors.get(f"input:{place}") for place in range(int(archive.values["leaves"]))]
        start = _read_start(tensors)
        return Reproducer(
            Trial(program, options, leaves, start),
            frozenset(map(str, archive.values["without"])),
            str(archive.values["fault"]),
        )
    except (KeyError, ValueError, TypeError, msgspec.ValidationError) as error:
        raise ArchiveError(
            f"{path} is damaged ({type(error).__name__}: {str(error)[:200]}): let --verify write it again."
        ) from error


def _read_start(tensors: dict[str, torch.Tensor] | object) -> Snapshot:
    assert isinstance(tensors, dict)
    groups: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        kind, _, name = key.partition(":")
        groups.setdefault(kind, {})[name] = tensor
    sets = []
    numbers = sorted({int(kind.rpartition("/")[2]) for kind in groups if "/" in kind}) or [0]
    for number in numbers:
        replicas = sorted(
            int(kind.split("/")[1]) for kind in groups if kind.startswith("buffer/") and kind.endswith(f"/{number}")
        )
        count = max(replicas, default=0) + 1
        sets.append(
            ReplicaSetSnapshot(
                groups.get(f"parameter/{number}", {}),
                tuple(groups.get(f"buffer/{replica}/{number}", {}) for replica in range(count)),
                groups.get(f"state/{number}", {}),
                groups.get(f"hyper/{number}", {}),
            )
        )
    return Snapshot(tuple(sets), tensors.get(_STREAM), tensors[_GLOBAL], None)
