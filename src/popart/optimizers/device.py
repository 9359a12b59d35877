"""An optimizer of PopART on a compiled program.

In: an optimizer, and the weights that get gradients with their types. Out: the `OptimizerSpec` to compile, values of an
update by openipu's names, PopART's names of state and scalars, and the state that a program begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from openipu.capture import compute_hyper_parameters
from openipu.graph import OptimizerSpec, StateSlot
from popart._exceptions import popart_exception, translate_errors
from popart.optimizers.base import Factors, Optimizer
from popart.optimizers.clipping import make_groups
from popart.optimizers.sgd import SGD

_TYPE_NAMES = {torch.float32: "FLOAT", torch.float16: "FLOAT16"}
_SCALED = "lossScaling_"


class DeviceOptimizer:
    """Weights are in groups that share values: those without values of their own, and each that has some."""

    def __init__(
        self,
        optimizer: Optimizer,
        weights: Mapping[str, torch.dtype],
        factors: Factors = Factors(),  # noqa: B008 (frozen)
        automatic_scaling: bool = False,
    ) -> None:
        """`automatic_scaling`: the loss scale is the program's own to change."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"A training session needs a popart optimizer, not {type(optimizer).__name__}.")
        if automatic_scaling and getattr(optimizer, "scaled_optimizer_state", False):
            raise popart_exception("scaled_optimizer_state and automatic loss scaling are not compatible.")
        self.optimizer = optimizer
        self._weights = dict(weights)
        self._factors = factors
        self._automatic = automatic_scaling
        self._members = _group(optimizer, list(weights))
        with translate_errors():
            self.spec = OptimizerSpec(
                kind=optimizer.kind,
                groups=tuple(optimizer.describe_group(names, names[0]) for names in self._members),
                state_dtypes=optimizer.list_state_dtypes(),
                clip_groups=make_groups(optimizer.clipping),
                loss_scaling=automatic_scaling or not _is_one(optimizer),
                accumulator_dtype=optimizer.accumulator_dtype,
            )

    @property
    def hyper_parameters(self) -> dict[str, float]:
        """The values now, for `Executable.set_hyper_parameters`."""
        settings = [self.optimizer.list_settings(names[0]) for names in self._members]
        with translate_errors():
            return compute_hyper_parameters(self.spec, settings, self.optimizer.loss_scaling.val())

    def replace(self, optimizer: Optimizer) -> None:
        """Take over another optimizer's values, or refuse."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"updateOptimizerFromHost takes a popart optimizer, not {type(optimizer).__name__}.")
        self.optimizer.check_replacement(optimizer)
        before, self.optimizer = self.optimizer, optimizer
        try:
            _ = self.hyper_parameters
        except popart_exception:
            self.optimizer = before
            raise

    # Names ----------------------------------------------------------------------------------------------------------

    def name_state(self, key: str) -> str:
        """PopART's name of openipu's state: `exp_avg:w` is `Accl1___w`."""
        slot, _, weight = key.partition(":")
        return f"{self.optimizer.name_state(slot)}___{weight}"

    def name_all_state(self, slots: Sequence[StateSlot]) -> dict[str, str]:
        """All state of a program: PopART's name -> openipu's key."""
        return {self.name_state(slot.key): slot.key for slot in slots}

    def list_accumulators(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
        """Accumulators as they are between updates, by name: empty."""
        if not self._factors.accumulates:
            return {}
        found = {}
        for weight, dtype in self._weights.items():
            optimizer = self.optimizer
            if isinstance(optimizer, SGD) and optimizer.combined and optimizer.has_momentum(weight):
                if optimizer.has_nesterov(weight):
                    found[f"Accl___{weight}_nesterovGrad"] = torch.zeros(shapes[weight], dtype=dtype)
            else:
                chosen = optimizer.accumulator_dtype or dtype
                found[f"Accum___{weight}"] = torch.zeros(shapes[weight], dtype=chosen)
        return found

    def list_scalars(self) -> dict[str, float]:
        """Scalars of the update that can change, under PopART's names."""
        found: dict[str, float] = {}
        for weight, dtype in self._weights.items():
            own = self.optimizer.hasSpecific(weight)
            suffix = f"___specific___{weight}" if own else f"___default___{_TYPE_NAMES.get(dtype, 'FLOAT')}"
            for name, (value, constant) in self.optimizer.list_scalars(weight, self._factors).items():
                if not constant:
                    found[name + suffix] = value
        if self._automatic or not self.optimizer.loss_scaling.isConst():
            for dtype in dict.fromkeys((torch.float32, *self._weights.values())):
                found[_SCALED + _TYPE_NAMES.get(dtype, "FLOAT")] = self.optimizer.loss_scaling.val()
        return found

    # State ----------------------------------------------------------------------------------------------------------

    def make_initial_state(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """State that does not begin as a number, by openipu's key: momentum that is ahead holds the first decay."""
        return dict(self._look_ahead(weights))

    def _look_ahead(self, weights: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        optimizer = self.optimizer
        if not isinstance(optimizer, SGD) or not optimizer.combined:
            return
        for name in self._weights:
            if optimizer.has_momentum(name):
                scalars = optimizer.list_scalars(name, self._factors)
                yield f"momentum_buffer:{name}", weights[name].detach() * scalars["scaledWeightDecay1"][0]


def _is_one(optimizer: Optimizer) -> bool:
    return optimizer.loss_scaling.isConst() and optimizer.loss_scaling.val() == 1


def _group(optimizer: Optimizer, weights: Sequence[str]) -> list[tuple[str, ...]]:
    """Weights with the same values, as far as they will stay the same."""
    plain = tuple(weight for weight in weights if not optimizer.hasSpecific(weight))
    groups: dict[object, list[str]] = {}
    for weight in weights:
        if optimizer.hasSpecific(weight):
            values = [optimizer.value(field.specific_key, weight) for field in optimizer.FIELDS]
            constant = all(value.isConst() for value in values)
            groups.setdefault(tuple(value.val() for value in values) if constant else weight, []).append(weight)
    return [plain] * bool(plain) + [tuple(names) for names in groups.values()]
