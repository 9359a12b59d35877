"""What a pod is: a system, cut into partitions.

In: a TOML file of a pod, or the fabric file that IPUOF_CONFIG_PATH names. Out: a `PodDescription`. Partitions lie side
by side, and the IPUs of each are numbered from 0, as a program in it sees them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from openipu.errors import PodError, TargetError
from openipu.files.documents import read_json, read_toml
from openipu.files.origin import Origin
from openipu.machine import System, resolve_system
from openipu.saving import save_text

FABRIC_VARIABLE = "IPUOF_CONFIG_PATH"

_POD_FILE = "A pod file has name, system, and [[partition]] tables with name, ipus, first."
_LARGEST_FABRIC_FILE = 16 << 20
_MOST_DEVICES = 1 << 16
_FABRIC_ENDINGS = ("_ipuof.conf", ".conf", ".json")


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class _PartitionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ipus: Annotated[int, msgspec.Meta(ge=1, le=_MOST_DEVICES)]
    name: _Name | None = None
    first: Annotated[int, msgspec.Meta(ge=0, le=_MOST_DEVICES)] | None = None


class _PodFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    system: _Name
    name: _Name | None = None
    partition: Annotated[list[_PartitionTable], msgspec.Meta(max_length=_MOST_DEVICES)] = []


@dataclass(frozen=True, slots=True)
class Partition:
    """Neighbouring IPUs of a pod that programs use as if there were no others."""

    name: str
    first: int  # in the pod
    ipus: int


@dataclass(frozen=True, slots=True)
class PodDescription:
    """`open`: nobody set this pod up. It has as many IPUs as programs ask for, and refuses nobody."""

    name: str
    system: System
    partitions: tuple[Partition, ...]
    open: bool = False
    origin: str = ""  # where the description is from, for messages

    def find_partition(self, name: str | None) -> Partition:
        """A partition by name; the first one if none is named."""
        if name is None:
            return self.partitions[0]
        for partition in self.partitions:
            if partition.name == name:
                return partition
        known = ", ".join(partition.name for partition in self.partitions)
        raise PodError(f"Pod {self.name} has no partition {name!r}. Choose one of: {known}.")


def describe_pod(
    name: str, system: System, partitions: Sequence[tuple[str, int]] = (), *, origin: str = ""
) -> PodDescription:
    """A pod with partitions side by side, given as (name, IPUs); one over everything if there are none."""
    first = 0
    cut = []
    for own, ipus in partitions or ((name, system.ipus),):
        cut.append(Partition(own, first, ipus))
        first += ipus
    return check_pod(PodDescription(name, system, tuple(cut), origin=origin))


def describe_open_pod(system: System) -> PodDescription:
    """The pod of a machine where nobody has set one up."""
    return PodDescription(
        "default", system, (Partition("default", 0, system.ipus),), open=True, origin="no pod is set up"
    )


def check_pod(pod: PodDescription) -> PodDescription:
    """Refuse partitions that overlap, leave the system, or share a name."""
    where = pod.origin or f"pod {pod.name}"
    names = [partition.name for partition in pod.partitions]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise PodError(f"{where}: there are several partitions {', '.join(doubled)}. Give each a name of its own.")
    taken: dict[int, str] = {}
    for partition in pod.partitions:
        if partition.ipus < 1 or partition.first < 0 or partition.first + partition.ipus > pod.system.ipus:
            raise PodError(
                f"{where}: partition {partition.name} has IPUs {partition.first} to "
                f"{partition.first + partition.ipus - 1}, and {pod.system.name} has 0 to {pod.system.ipus - 1}. "
                "Make the partition smaller, or choose a larger system."
            )
        for number in range(partition.first, partition.first + partition.ipus):
            if number in taken:
                raise PodError(
                    f"{where}: IPU {number} is in partition {taken[number]} and in {partition.name}. "
                    "Let every IPU be in one partition."
                )
            taken[number] = partition.name
    return pod


def read_pod_file(path: Path) -> PodDescription:
    """A pod from its TOML file; `system` is a name of the catalog, or a TOML file beside this one."""
    origin = Origin(f"The pod file {path}", PodError, f"Correct the file, or check the path. {_POD_FILE}")
    document = read_toml(path, _PodFile, origin)
    try:
        choice = document.system
        system = resolve_system(path.parent / choice if choice.endswith(".toml") else choice)
    except TargetError as error:
        raise PodError(f"{path}: {error}") from error
    name = document.name if document.name is not None else path.stem
    first = 0
    partitions = []
    for index, entry in enumerate(document.partition):
        first = first if entry.first is None else entry.first
        partitions.append(Partition(f"p{index}" if entry.name is None else entry.name, first, entry.ipus))
        first += entry.ipus
    whole = (Partition(name, 0, system.ipus),)
    return check_pod(PodDescription(name, system, tuple(partitions) or whole, origin=str(path)))


def write_pod_file(pod: PodDescription, path: Path, system: str | None = None) -> None:
    """The same description as TOML. `system` names a file where the system is not of the catalog."""
    lines = [f"name = {_quote(pod.name)}", f"system = {_quote(system or pod.system.name)}"]
    for partition in pod.partitions:
        lines += [
            "",
            "[[partition]]",
            f"name = {_quote(partition.name)}",
            f"first = {partition.first}",
            f"ipus = {partition.ipus}",
        ]
    save_text(path, "\n".join(lines) + "\n")


def read_fabric_file(path: Path, system: System) -> PodDescription:
    """The pod that a fabric file speaks of: one partition with as many IPUs as it lists devices."""
    origin = Origin(
        f"{path}, which {FABRIC_VARIABLE} names,", PodError, 'It needs {"devices": [...]}: check the path and the file.'
    )
    document = read_json(path, Any, origin, _LARGEST_FABRIC_FILE)
    devices = document.get("devices") if isinstance(document, Mapping) else document  # early files were a bare list
    if not isinstance(devices, list) or not devices:
        raise origin.fail("lists no devices")
    if len(devices) > _MOST_DEVICES:
        raise origin.fail(f"lists {len(devices):,} devices, and at most {_MOST_DEVICES:,} can be")
    name = name_fabric_partition(path, document)
    boards = -(-len(devices) // system.ipus_per_board)
    grown = dataclasses.replace(system, ipus=max(len(devices), boards * system.ipus_per_board))
    return PodDescription(name, grown, (Partition(name, 0, len(devices)),), origin=str(path))


def name_fabric_partition(path: Path, document: Any) -> str:
    """The partition's name: what the file says, else its file name without `_gcd0_ipuof.conf`."""
    if isinstance(document, Mapping) and isinstance(document.get("partition"), str):
        return str(document["partition"])[:100]
    name = path.name
    for ending in _FABRIC_ENDINGS:
        name = name.removesuffix(ending)
    return name.removesuffix("_gcd0").removesuffix("_ipuof") or "ipuof"


def write_fabric_file(partition: Partition, path: Path) -> None:
    """A fabric file for containers: it names the partition and lists its devices."""
    devices = [{"ipu": number, "target": "IPUModel"} for number in range(partition.ipus)]
    save_text(path, json.dumps({"partition": partition.name, "devices": devices}, indent=2) + "\n")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a TOML string
