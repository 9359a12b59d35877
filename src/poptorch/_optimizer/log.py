"""What users read about optimizers: the values that go to the device, and attributes that nothing reads.

In: `OptimizerValues`, or an optimizer. Out: lines of the logger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from poptorch._logging import logger
from poptorch._optimizer.values import SUPPORTED, OptimizerValues, Value

_TORCH_ATTRIBUTES = ("defaults", "state", "param_groups", "variable_attrs", "ipu_state_is_dirty", "host_state_is_dirty")


def log_values(values: OptimizerValues, members: Sequence[Sequence[str]]) -> None:
    """Say what the device gets: the defaults, then each group with its tensors."""
    extras = values.extras
    types = {
        "accumType": extras.get("accum_type", torch.float32),
        "firstOrderMomentumAccumType": extras.get(
            "velocity_accum_type", extras.get("first_order_momentum_accum_type", torch.float32)
        ),
        "secondOrderMomentumAccumType": extras.get("second_order_momentum_accum_type", torch.float32),
    }
    known = ", ".join(f"{name}={str(dtype).removeprefix('torch.')}" for name, dtype in types.items())
    last = f"useTfVariant={int(extras.get('use_tf_variant', False))}, maxGradNorm={extras.get('max_grad_norm', 'inf')}"
    defaults = {f"default_{name}": value for name, value in _rename(values.defaults).items()}
    shown = _show({**defaults, "loss_scaling": values.loss_scaling})
    logger.debug("Updating graph optimizer with %s, %s, %s, %s", values.variant, shown, known, last)
    for index, (group, names) in enumerate(zip(values.groups, members, strict=False)):
        logger.debug(
            "Updating group %d optimizer with %s, %s, %s for (tensors affected %s)",
            index,
            values.variant,
            _show(_rename(group)),
            last,
            list(names),
        )


def _rename(settings: Mapping[str, Value]) -> dict[str, Value]:
    """The names that the log has always had."""
    renamed = {("learning_rate" if name == "lr" else name): value for name, value in settings.items()}
    betas = renamed.pop("betas", None)
    if betas is not None:
        renamed |= {f"beta{index + 1}": Value(beta, betas.constant) for index, beta in enumerate(betas.value)}
    return renamed


def _show(settings: Mapping[str, Value]) -> str:
    parts = []
    for name, entry in sorted(settings.items()):
        first, *others = name.split("_")
        camel = first + "".join(word.capitalize() for word in others)
        parts.append(f"{camel}={float(entry.value):g}{' (const)' if entry.constant else ''}")
    return ", ".join(parts)


class AttributeWatch:
    """Remembers the attributes of the first optimizer, and says once which later ones nothing reads."""

    def __init__(self, relaxed: bool) -> None:
        self._tell = logger.debug if relaxed else logger.warning
        self._known: dict[str, set[str]] | None = None
        self._told: set[str] = set()

    def check(self, optimizer: torch.optim.Optimizer, variant: str) -> None:
        own = [name for name in vars(optimizer) if name not in _TORCH_ATTRIBUTES and not name.startswith("_")]
        groups = [[name for name in group if name != "params"] for group in optimizer.param_groups]
        if self._known is None:
            first = set(optimizer.defaults).union(*groups)
            self._known = {"group": first, "optimizer": set(own)}
            return
        extras = set(getattr(optimizer, "extra_arguments", ()))
        self._report("default group variable", optimizer.defaults, self._known["group"], variant)
        self._report("optimizer attribute", own, self._known["optimizer"] | extras, variant)
        for index, names in enumerate(groups):
            self._report(f"group {index} attribute", names, self._known["group"], variant)

    def _report(self, place: str, names: Iterable[Any], known: set[str], variant: str) -> None:
        extra = [name for name in names if name not in known]
        message = f"Ignoring unexpected {place} in {variant} optimizer: {extra}"
        if extra and message not in self._told:
            self._told.add(message)
            self._tell(message)


def warn_of_subclass(optimizer: torch.optim.Optimizer) -> None:
    """Python code of a subclass would be left out silently otherwise."""
    if type(optimizer) not in SUPPORTED:
        logger.warning(
            "The optimizer %s is a subclass of a supported one. Poptorch does not run Python optimizer code directly: "
            "only the values of the parent class are used.",
            type(optimizer).__name__,
        )
