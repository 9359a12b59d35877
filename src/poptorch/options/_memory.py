"""Old names to new for what saves memory: recomputation and tensor locations.

In: `poptorch.Options`. Out: the fields `recompute` and `locations` of RunOptions.
"""

from __future__ import annotations

from typing import Any

import openipu.graph as graph
from poptorch.errors import createPoptorchError
from poptorch.options._options import Options
from poptorch.strategies import _PhasedExecution

RECOMPUTATIONS = {  # PopART's numbers and names
    0: graph.Recompute.NONE,
    1: graph.Recompute.STANDARD,
    2: graph.Recompute.NORM_ONLY,
    3: graph.Recompute.PIPELINE,
    4: graph.Recompute.ALL,
    "None": graph.Recompute.NONE,
    "Standard": graph.Recompute.STANDARD,
    "NormOnly": graph.Recompute.NORM_ONLY,
    "Pipeline": graph.Recompute.PIPELINE,
    "RecomputeAll": graph.Recompute.ALL,
}
ROLES = {
    "location_activation": graph.TensorRole.ACTIVATION,
    "location_weight": graph.TensorRole.WEIGHT,
    "location_optimizer": graph.TensorRole.OPTIMIZER,
    "location_accumulator": graph.TensorRole.ACCUMULATOR,
}
SETTINGS = {  # name in TensorLocationSettings -> field of TensorLocation
    "onChip": "on_chip",
    "useReplicatedTensorSharding": "replicated_sharding",
    "minElementsForOffChip": "minimum_off_chip_elements",
    "minElementsForReplicatedTensorSharding": "minimum_sharded_elements",
    "useIOTilesToLoad": "io_tiles_load",
    "useIOTilesToStore": "io_tiles_store",
}


def choose_recomputation(options: Options) -> graph.Recompute | None:
    """What `_Popart.set("autoRecomputation", …)` asks for; None leaves it to the strategy."""
    given = options._Popart.options.get("autoRecomputation")
    if given is None:
        return None
    key: Any = given.rpartition("::")[2] if isinstance(given, str) else given
    if key not in RECOMPUTATIONS:
        known = ", ".join(map(str, RECOMPUTATIONS))
        raise createPoptorchError(
            f"Unknown value {given!r} of the PopART option autoRecomputation. Use one of {known}."
        )
    return RECOMPUTATIONS[key]


def choose_locations(options: Options) -> tuple[tuple[graph.TensorRole, graph.TensorLocation], ...]:
    """Where tensors lie that are not in use. Phases keep all of them off the chip, unless the options say otherwise."""
    phased = isinstance(options._execution_strategy, _PhasedExecution)
    chosen = []
    for name, role in ROLES.items():
        given = options.TensorLocations.get(name)
        if given:
            fields = {SETTINGS[key]: value for key, value in given.items()}
            chosen.append((role, graph.TensorLocation(**fields)))
        elif phased:
            chosen.append((role, graph.TensorLocation(on_chip=False)))
    return tuple(chosen)
