"""Keys: what must be the same for a stored result to be used again.

In: named facts. Out: a text of 64 hexadecimal digits. Native code is also tied to the host that it was made for.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import openipu

COMPILING_FOLDERS = ("graph", "machine", "numerics", "ops", "plan", "run")  # what decides how a program is compiled


def make_key(facts: Mapping[str, Any]) -> str:
    """The sha256 of facts that JSON can hold; their order does not matter."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def describe_build() -> dict[str, str]:
    """The software that compiles: openipu, down to its sources, and PyTorch. An edited checkout has another one."""
    sources = digest_sources(Path(openipu.__file__).parent)
    return {"openipu": openipu.__version__, "sources": sources, "torch": importlib.metadata.version("torch")}


def digest_sources(package: Path) -> str:
    """A short text that changes with every line of the code that compiles, in a package that lies there."""
    digest = hashlib.sha256()
    for folder in COMPILING_FOLDERS:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _read_processor() -> str:
    """Model and instruction sets of this processor: native code is made for exactly these."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    found = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}
    described = json.dumps({name: found[name] for name in wanted if name in found})
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def describe_host() -> dict[str, Any]:
    """What native code depends on, beside the program: processor, system, PyTorch."""
    import torch

    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _read_processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "libc": "-".join(platform.libc_ver()),
    }
