"""Executables as files: what a session compiled, known again by another.

In: a compiled program. Out: a file with its identity, in the cache folder or where the user wants it. It holds no
machine code: native code and plans are in openipu's own store, or are made again on another machine; a session that
loads the file checks that it is of the same program.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from openipu.errors import ArchiveError
from openipu.files.documents import dump_json, read_json
from openipu.files.origin import Origin
from openipu.files.saving import save_bytes
from openipu.graph import HOST_ONLY, Program, RunOptions, describe_options, fingerprint_program
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._exceptions import popart_exception
from popart._options import SessionOptions

CACHE_VARIABLES = ("POPXL_CACHE_DIR", "POPART_CACHE_DIR")
KIND = "openipu PopART executable"
NAME = "executable.popef"


def find_cache(options: SessionOptions) -> Path | None:
    """Where executables are kept, if they are."""
    for variable in CACHE_VARIABLES:
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return Path(options.cachePath) if options.enableEngineCaching else None


def identify(program: Program, options: RunOptions, device: DeviceInfo, engine: dict[str, str]) -> str:
    """What tells executables apart: the program, its options, the device, the engine's options."""
    parts = [
        fingerprint_program(program),
        repr(sorted(describe_options(options, HOST_ONLY).items())),
        f"{device.type} {device.numIpus} {device.tilesPerIPU} {device.ipuVersion}",
        repr(sorted((name, value) for name, value in engine.items() if not name.startswith("autoReport"))),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def check_savable(device: DeviceInfo) -> None:
    """Refuse devices whose executables are nothing that could be saved."""
    if device.type in (DeviceType.Cpu, DeviceType.Sim):
        raise popart_exception(
            f"Executables for device type {device.type.name} cannot be saved. Use an IPU, or a model of one."
        )


def choose_path(filename: str) -> Path:
    """The file for a path, which may be a folder."""
    path = Path(filename).expanduser()
    return path / NAME if path.is_dir() else path


def write(path: Path, identity: str, name: str) -> None:
    """Write the file, whole or not at all."""
    save_bytes(path, dump_json({"kind": KIND, "version": 1, "identity": identity, "name": name}).encode())


def matches(path: Path, identity: str) -> bool:
    """Is it a file of this very program?"""
    if not path.is_file():
        return False
    origin = Origin(str(path), ArchiveError, "Compile the session again.")
    found = read_json(path, dict, origin)
    return found.get("kind") == KIND and found.get("identity") == identity
