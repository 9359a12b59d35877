"""Which pod programs and tools of this machine use, and where its state lies.

In: the environment, and what `openipu pod create` wrote. Out: a `Pod`. The first of these counts: OPENIPU_POD (a
system's name or a pod file), the fabric file of IPUOF_CONFIG_PATH, the pod that was created, and else the open pod,
which refuses nobody.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from openipu.errors import PodError
from openipu.files.documents import LARGEST_TOML
from openipu.files.origin import Origin
from openipu.files.plain import read_text
from openipu.machine import System, resolve_system
from openipu.pod.description import (
    FABRIC_VARIABLE,
    PodDescription,
    describe_open_pod,
    describe_pod,
    read_fabric_file,
    read_pod_file,
)
from openipu.pod.pod import Pod

POD_VARIABLE = "OPENIPU_POD"
STATE_VARIABLE = "OPENIPU_STATE_DIR"
PARTITION_VARIABLE = "IPUOF_VIPU_API_PARTITION_ID"
OPEN = "open"


def choose_state_directory() -> Path:
    """The environment's choice, else the place for state in the user's home."""
    chosen = os.environ.get(STATE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "state") / "openipu"


def choose_pod_file() -> Path:
    """Where `openipu pod create` writes to."""
    return choose_state_directory() / "pod.toml"


def find_pod(partition: str | None = None) -> Pod:
    """The pod that counts here, as its partition `partition`, or the environment's, or the first one."""
    description, wished = _describe_here()
    chosen = description.find_partition(partition or wished)
    return Pod(description, chosen, choose_state_directory() / "pods" / _name_directory(description))


def _describe_here() -> tuple[PodDescription, str | None]:
    """The description that counts, and the partition that the environment asks for."""
    wished = os.environ.get(PARTITION_VARIABLE) or None
    pod = os.environ.get(POD_VARIABLE)
    if pod == OPEN:
        return describe_open_pod(resolve_system()), None
    if pod:
        is_pod_file = pod.endswith(".toml") and "[system]" not in _read_text(pod)
        if is_pod_file:
            return _read_pod(pod, _identify(Path(pod))), wished
        system = resolve_system(pod)
        return describe_pod(system.name, system, origin=POD_VARIABLE), wished
    created = choose_pod_file()
    own = _read_pod(str(created), _identify(created)) if created.exists() else None
    fabric = os.environ.get(FABRIC_VARIABLE)
    if fabric:
        described = read_fabric_file(Path(fabric), _choose_system(own))
        if own is not None and any(part.name == described.name for part in own.partitions):
            return own, described.name  # a partition of the pod that was created
        return described, None
    if own is not None:
        return own, wished
    return describe_open_pod(resolve_system()), None


def _choose_system(own: PodDescription | None) -> System:
    return own.system if own is not None else resolve_system()


@lru_cache(maxsize=8)
def _read_pod(path: str, state: tuple[int, ...]) -> PodDescription:
    return read_pod_file(Path(path))


def _identify(path: Path) -> tuple[int, ...]:
    """What differs when a file was replaced, even within one tick of the file system's clock."""
    try:
        found = path.stat()
    except OSError:
        return ()  # reading it says what is wrong
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read_text(path: str) -> str:
    try:
        return read_text(Path(path), Origin(path, PodError, ""), LARGEST_TOML)
    except PodError:
        return ""  # reading it as a pod says what is wrong


def _name_directory(description: PodDescription) -> str:
    """A pod is known by its name and its shape, not by its file, which has another path inside a container. The open
    pod is one for all systems."""
    if description.open:
        return description.name
    facts = repr((description.system.name, description.system.ipus, description.partitions))
    return f"{_keep_plain(description.name)}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def _keep_plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
