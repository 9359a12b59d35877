"""Which machine a model is planned for, where PopTorch's own settings say so.

In: `useOfflineIpuTarget`, POPTORCH_IPU_MODEL_VERSION, POPTORCH_SMALL_IPU_MODEL, the pod. Out: a `System`, or None for
the session's choice. A system that the user named to openipu itself, on the command line or in OPENIPU_SYSTEM, goes
first; then PopTorch's settings, then the pod, if one is set up.
"""

from __future__ import annotations

import dataclasses
import os

from openipu.machine import SYSTEM_VARIABLE, System, resolve_system
from openipu.overrides import read_overrides
from openipu.pod import find_pod
from poptorch.errors import createPoptorchError
from poptorch.options import Options

VERSION_VARIABLE = "POPTORCH_IPU_MODEL_VERSION"
SMALL_VARIABLE = "POPTORCH_SMALL_IPU_MODEL"
SMALL_TILES = 4  # as the original's small model
_SYSTEMS = {"ipu1": "c2-8", "ipu2": None, "ipu21": "c600"}  # None: the default system is of that version


def choose_modelled_system(options: Options) -> System | None:
    """The system that PopTorch's settings ask for."""
    if read_overrides().system is not None or os.environ.get(SYSTEM_VARIABLE):
        return None
    chosen = os.environ.get(VERSION_VARIABLE) or options.exists("ipu_version")
    small = os.environ.get(SMALL_VARIABLE, "0") not in ("", "0")
    if not chosen and not small:
        pod = find_pod()
        return None if pod.open else pod.description.system
    version = os.environ.get(VERSION_VARIABLE) or f"ipu{options.get('ipu_version', 2)}"
    if version not in _SYSTEMS:
        raise createPoptorchError(
            f"Unknown IPU version {version!r}. Set {VERSION_VARIABLE}, or useOfflineIpuTarget, to one of "
            f"{', '.join(_SYSTEMS)} (1, 2, 21)."
        )
    name = _SYSTEMS[version]
    if not small:
        return resolve_system(name) if name else None
    system = resolve_system(name)
    target = dataclasses.replace(system.target, name=f"{system.target.name}-small", tiles=SMALL_TILES)
    return dataclasses.replace(system, name=f"{system.name}-small", target=target)
