"""What this front end has, for `openipu run --check`.

In: a name below `lightning_graphcore`. Out: whether it is an option, how openipu stands to it, and a remark.
"""

from __future__ import annotations

import importlib
import inspect

HAS, LACKS = "has it", "lacks it"
RECORDED: dict[str, type] = {}
RESULTS = {name: name for name in ("IPUAccelerator", "IPUPrecision", "IPUStrategy")}
_MODULES = ("accelerator", "precision", "strategy", "utils")


def judge_name(name: str) -> tuple[bool, str, str] | None:
    """(is an option, state, remark), or None for what is not this front end's."""
    head, _, rest = name.partition(".")
    if head in _MODULES:
        if not rest:
            return False, HAS, ""
        head, _, rest = rest.partition(".")
        if head not in RESULTS:
            home = importlib.import_module(f"lightning_graphcore.{name.partition('.')[0]}")
            return False, HAS if hasattr(home, head) else LACKS, ""
    if head not in RESULTS:
        home = importlib.import_module("lightning_graphcore")
        return False, HAS if head in home.__all__ else LACKS, ""
    if not rest:
        return False, HAS, ""
    core = _find_core(head)
    fields = inspect.signature(core).parameters
    return False, HAS if hasattr(core, rest) or rest in fields else LACKS, ""


def _find_core(name: str) -> type:
    home = importlib.import_module(f"lightning_graphcore.{name.removeprefix('IPU').lower()}")
    core: type = getattr(home, f"{name.removeprefix('IPU')}Core")
    return core
