"""What this front end has of PopTorch, for `openipu run --check` and the API page: read from the code itself.

In: a name below `poptorch`, such as "Options.Training.gradientAccumulation". Out: whether it is an option, how openipu
stands to it ("has it", "without effect", "lacks it"), and a remark.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

import poptorch
from poptorch import PoplarExecutor
from poptorch.options import (
    POPART,
    TABLE,
    Effect,
    Options,
    _DistributedOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TensorLocationOptions,
    _TrainingOptions,
)

HAS, NO_EFFECT, LACKS = "has it", "without effect", "lacks it"
_STATES = {Effect.ACTS: HAS, Effect.PLAN: HAS, Effect.NONE: NO_EFFECT, Effect.MISSING: LACKS}

GROUPS: dict[str, type] = {
    "Jit": _JitOptions,
    "Precision": _PrecisionOptions,
    "Training": _TrainingOptions,
    "Distributed": _DistributedOptions,
    "TensorLocations": _TensorLocationOptions,
    "_Popart": _PopartOptions,
}
RECORDED: dict[str, type] = {
    "Options": Options,
    **{f"Options.{name}": group for name, group in GROUPS.items()},
    "PoplarExecutor": PoplarExecutor,
}
RESULTS = {  # call -> what it returns
    "Options": "Options",
    "trainingModel": "PoplarExecutor",
    "inferenceModel": "PoplarExecutor",
    "load": "PoplarExecutor",
    **{f"Options.{setter}": f"Options.{setter}".rpartition(".")[0] for setter in TABLE},
}
_STORAGE = ("clone", "createOrSet", "exists", "get", "set", "toDict", "deleteIfExists", "checkIsFrozen")


def judge_name(name: str) -> tuple[bool, str, str] | None:
    """(is an option, state, remark), or None for what is not PopTorch's: attributes of the user's own model."""
    if name.startswith("Options."):
        return _judge_option(name.removeprefix("Options."))
    if name.startswith("PoplarExecutor."):
        return _judge_method(name.removeprefix("PoplarExecutor."))
    head, _, rest = name.partition(".")
    found = _find(poptorch, head)
    if found is None:
        return False, LACKS, "not supported yet"
    if rest and isinstance(found, types.ModuleType):
        return (False, HAS, "") if _find(found, rest.partition(".")[0]) is not None else (False, LACKS, "not there")
    return (False, HAS, "") if not rest else None


def _judge_option(name: str) -> tuple[bool, str, str] | None:
    setter, _, argument = name.partition('("')
    row = POPART.get(argument.removesuffix('")')) or TABLE.get(setter)
    if row is not None:
        effect, remark = row
        return True, _STATES[effect], f"plan only: {remark}" if effect is Effect.PLAN else remark
    head, _, rest = name.partition(".")
    if head in GROUPS or head in _STORAGE or rest in _STORAGE:
        return None
    if hasattr(Options, head) or Options().exists(head):
        return True, HAS, ""
    return True, LACKS, "not an option of PopTorch 3.4"


def _judge_method(name: str) -> tuple[bool, str, str] | None:
    from poptorch import _poplar_executor

    if name in getattr(_poplar_executor, "NOT_YET", ()):
        return False, LACKS, "not supported yet"
    return (False, HAS, "") if hasattr(PoplarExecutor, name) else None


def _find(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        try:
            return importlib.import_module(f"{module.__name__}.{name}")
        except ImportError:
            return None
