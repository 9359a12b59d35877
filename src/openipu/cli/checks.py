"""The single checks of `openipu doctor`: each looks at one thing and returns a `Check`."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import openipu_startup
from openipu import __version__
from openipu.cli.cores import Cores, count_cores
from openipu.cli.front_ends import probe_front_ends
from openipu.environment.extras import suggest_install
from openipu.errors import OpenIpuError
from openipu.machine import DEFAULT_SYSTEM, SYSTEM_VARIABLE, resolve_system
from openipu.store import DIRECTORY_VARIABLE, choose_directory, explain_exposure

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 13)
OPTIONAL_PACKAGES = {  # distribution -> module
    "transformers": "transformers",
    "lightning": "lightning",
    "scikit-learn": "sklearn",
}
CACHE_VARIABLE = DIRECTORY_VARIABLE


class State(StrEnum):
    """How a check ended."""

    GOOD = "good"
    ABSENT = "absent"  # optional
    DOUBTFUL = "doubtful"  # works, but slower or less than it could
    BROKEN = "broken"  # essential


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at, and what to do about it."""

    name: str
    state: State
    finding: str
    remedy: str = ""


def run_checks() -> tuple[Check, ...]:
    """All checks, in the order of a reader's interest."""
    checks = [check_python(), check_torch(), check_startup()]  # the last one before a front end repairs it
    checks += check_front_ends()
    checks += [check_system(), check_threads(), check_compiler(), check_cache()]
    checks += [check_package(name, module, _suggest_package(name)) for name, module in OPTIONAL_PACKAGES.items()]
    return tuple(checks)


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> Check:
    finding = f"{platform.python_version()} at {sys.executable}, openipu {__version__}"
    if version < OLDEST_PYTHON:
        return Check("python", State.BROKEN, finding, f"use Python {_join(OLDEST_PYTHON)} or newer")
    return Check("python", State.GOOD, finding)


def check_torch(find_version: Callable[[str], str] = importlib.metadata.version) -> Check:
    """The version is read without importing; `check_front_ends` imports it."""
    remedy = f"pip install 'torch>={_join(OLDEST_TORCH)}'"
    try:
        version = find_version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Check("torch", State.BROKEN, "not installed", remedy)
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < OLDEST_TORCH:
        return Check("torch", State.BROKEN, f"{version} is too old", remedy)
    return Check("torch", State.GOOD, version)


def check_startup() -> Check:
    """Without it, programs of Lightning in plain Python must import `lightning_graphcore` themselves."""
    if openipu_startup.is_installed():
        return Check("start-up hook", State.GOOD, "IPUs are added to packages that programs import")
    finding = "not there: plain Python and worker processes do not know the IPUs of Lightning"
    return Check("start-up hook", State.DOUBTFUL, finding, "install openipu with pip, not by PYTHONPATH")


def check_front_ends() -> list[Check]:
    checks = []
    for front_end in probe_front_ends():
        if front_end.works:
            checks.append(Check(front_end.module, State.GOOD, front_end.detail))
        elif front_end.install:
            checks.append(Check(front_end.module, State.ABSENT, front_end.detail, front_end.install))
        else:
            remedy = "reinstall openipu; if that changes nothing, report this line"
            checks.append(Check(front_end.module, State.BROKEN, front_end.detail, remedy))
    return checks


def check_system() -> Check:
    chosen = os.environ.get(SYSTEM_VARIABLE)
    origin = f"from the environment variable {SYSTEM_VARIABLE}" if chosen else "the built-in default"
    try:
        system = resolve_system()
    except OpenIpuError as error:
        remedy = f"unset {SYSTEM_VARIABLE} to have {DEFAULT_SYSTEM}, or correct it"
        return Check("default system", State.BROKEN, str(error), remedy)
    return Check("default system", State.GOOD, f"{system.name} ({system.description}), {origin}")


def check_compiler() -> Check:
    """Only C++ kernels need one: programs run without, with PyTorch's operators alone."""
    wanted = os.environ.get("CXX")
    for candidate in (wanted, "g++", "clang++"):
        path = shutil.which(candidate) if candidate else None
        if path:
            return Check("C++ compiler", State.GOOD, path)
    finding = "none found: programs run with PyTorch's operators alone, without C++ kernels"
    return Check("C++ compiler", State.ABSENT, finding, "install g++ (Debian: apt-get install g++) for C++ kernels")


def check_cache() -> Check:
    directory = choose_directory()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing):
            pass
    except OSError as error:
        finding = f"{directory} is not writable ({error.strerror}): nothing is kept between processes"
        return Check("cache", State.ABSENT, finding, f"set {CACHE_VARIABLE} to a directory that you can write")
    reason = explain_exposure(directory) if directory.exists() else None
    if reason:
        finding = f"native code is neither kept nor loaded: {reason}"
        return Check("cache", State.ABSENT, finding, f"set {CACHE_VARIABLE} to a directory of your own")
    return Check("cache", State.GOOD, f"{directory} is writable")


def check_threads(threads: int | None = None, cores: Cores | None = None) -> Check:
    """Operators share their work among threads that wait for each other: one that finds no core delays them all."""
    threads = _count_threads() if threads is None else threads
    cores = count_cores() if cores is None else cores
    finding = f"{threads} of PyTorch, {cores.allowed} cores, about {cores.free} of them free (load {cores.load:.1f})"
    useful = max(1, cores.free)
    if threads <= useful:
        return Check("threads", State.GOOD, finding)
    return Check("threads", State.DOUBTFUL, finding, f"set OMP_NUM_THREADS={useful}, or wait until other programs end")


def check_package(name: str, module: str, remedy: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, State.ABSENT, "not installed, optional", remedy)
    try:
        importlib.import_module(module)
    except Exception as error:  # a package that is there and broken: its own words say why
        return Check(name, State.DOUBTFUL, f"{version} does not import: {type(error).__name__}: {error}", remedy)
    return Check(name, State.GOOD, version)


def _count_threads() -> int:
    import torch

    return torch.get_num_threads()


def _suggest_package(name: str) -> str:
    if name == "transformers":
        return f"models of the examples; {suggest_install('hf')}"
    if name == "lightning":
        return f"only for your own Lightning scripts; {suggest_install('lightning')}"
    return f"data of the examples; pip install {name}"


def _join(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
