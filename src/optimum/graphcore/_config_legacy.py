"""What configurations of earlier versions hold: pod types, values for each pod type, fields that are gone.

In: the keyword arguments of an IPUConfig. Out: the same in today's form, each change with a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

from optimum.graphcore._config_fields import FIELDS, IncompatibleIPUConfigError

ALLOWED_POD_TYPES = ("pod4", "pod8", "pod16", "pod32", "pod64", "pod128", "pod256")
_GONE = {  # field: why it has no effect
    "sharded_execution_for_inference": "sharded execution is always used during inference",
    "enable_half_first_order_momentum": "the trainer keeps the first order momentum in half unless `fp32` is set",
    "profile_dir": "set autoReport.directory in POPLAR_ENGINE_OPTIONS, or start the script with `openipu run`",
    "use_popdist": "one process runs all replicas",
    "synthetic_data": "pass data of the right shapes",
    "compile_only": "pass `compile_only` to `to_options` or set it in the training arguments",
}
_RENAMED = {"random_seed": "seed"}


def translate_legacy(values: dict[str, Any]) -> dict[str, Any]:
    """Today's keyword arguments."""
    translated = dict(values)
    for name, reason in _GONE.items():
        if translated.pop(name, None):
            warnings.warn(f'The "{name}" parameter is deprecated and has no effect: {reason}.', stacklevel=4)
    for old, new in _RENAMED.items():
        if old in translated:
            translated[new] = translated.pop(old)
            _warn_future(f'The "{old}" parameter is deprecated, use "{new}".')
    pod_type = translated.pop("pod_type", None)
    if pod_type is not None:
        count = count_pod_ipus(pod_type)
        _warn_future(
            f'`pod_type` is deprecated: pass `n_ipu={count}` to the training arguments, or set "replication_factor".'
        )
    for name, value in translated.items():
        if isinstance(value, dict) and name in FIELDS and FIELDS[name].kind is not dict:
            translated[name] = _choose_for_pod(name, value, pod_type)
    if pod_type is not None and values.get("replication_factor", 1) == 1:
        translated["replication_factor"] = max(1, count_pod_ipus(pod_type) // _count_ipus_per_replica(translated))
    return translated


def count_pod_ipus(pod_type: Any) -> int:
    """IPUs of a pod type, from its name."""
    if pod_type not in ALLOWED_POD_TYPES:
        raise ValueError(
            f"{pod_type} is not a correct value for a POD type, supported POD types: {', '.join(ALLOWED_POD_TYPES)}."
        )
    return int(str(pod_type).removeprefix("pod"))


def _choose_for_pod(name: str, choices: dict[str, Any], pod_type: str | None) -> Any:
    chosen = pod_type if pod_type in choices else "default"
    if chosen not in choices:
        what = "No POD type was specified" if pod_type is None else f"There is no value for {pod_type}"
        raise IncompatibleIPUConfigError(
            f"{what} and no default value was provided for {name}: {choices}. Give one value."
        )
    _warn_future(f"`{name}` has values for several POD types, which is deprecated: taking that of {chosen!r}.")
    return choices[chosen]


def _count_ipus_per_replica(values: dict[str, Any]) -> int:
    ipus, layers = values.get("ipus_per_replica"), values.get("layers_per_ipu")
    return ipus or (len(layers) if isinstance(layers, list) else 1)


def _warn_future(message: str) -> None:
    warnings.warn(message, FutureWarning, stacklevel=5)
