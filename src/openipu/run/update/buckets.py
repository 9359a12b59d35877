"""Parameters that are updated by one call, and groups of such that share their 0-dim values.

In: the functions of an update rule and the device memory. Out: `Bucket`s and `BucketGroup`s. Small parameters with the
same rule lie side by side in one piece of memory and are updated together; large ones alone. A rule of several
operators goes through in pieces that stay in the cache, which is where the time of an update is lost otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.run.half.rounded_draws import round_by_chance
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.memory.host_memory import reserve_zeros
from openipu.run.update.functions import RuleFunctions
from openipu.run.update.rules import GRADIENT_ROLE, PARAMETER_ROLE, WeightRounding

PIECE_ELEMENTS = 1 << 18  # a megabyte of float32: the handful that a rule works on fits the cache of a core
_ALONE_ELEMENTS = 1 << 16  # from here on a parameter gains nothing from neighbours
_ALIGNED_ELEMENTS = 16  # parameters start on cache lines


class Bucket:
    """Parameters in one piece of memory."""

    def __init__(
        self,
        functions: RuleFunctions,
        parameters: Sequence[str],
        memory: DeviceMemory,
        gradient_dtype: torch.dtype,
        accumulate: bool,
        roundings: Mapping[str, WeightRounding],
    ) -> None:
        self.parameters = tuple(parameters)
        self.external: tuple[torch.Tensor | float, ...] = ()  # the 0-dim values of this update
        self._update = functions.update_elements
        self._reads_gradient = GRADIENT_ROLE in functions.roles
        self._shapes = [memory.parameters[name].shape for name in parameters]
        self._starts = [0]
        for shape in self._shapes:
            self._starts.append(self._starts[-1] + -(-shape.numel() // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS)
        self._length = self._shapes[0].numel() if len(self._shapes) == 1 else self._starts[-1]
        flat = {role: self._move(role, memory) for role in functions.roles if role != GRADIENT_ROLE}
        self.gradients: list[torch.Tensor] = []  # where gradients are put together, by parameter
        self._gradient: torch.Tensor | None = None
        if accumulate or len(parameters) > 1:
            self._gradient = reserve_zeros((self._length,), gradient_dtype)
            self.gradients = self._cut(self._gradient)
            if self._reads_gradient:
                flat[GRADIENT_ROLE] = self._gradient
        self._roundings = [roundings[name] for name in parameters if name in roundings]
        self._seed = memory.update_seed
        # Bits are drawn for whole parameters.
        whole = functions.one_pass or bool(self._roundings)
        self._piece = max(1, self._length) if whole else PIECE_ELEMENTS
        pieces = (torch.split(flat[role], self._piece) for role in functions.roles if role in flat)
        self._pieces = list(zip(*pieces, strict=True))

    def _move(self, role: str, memory: DeviceMemory) -> torch.Tensor:
        """Put the tensors of one role side by side, and let the memory's names point there."""
        tensors = memory.parameters if role == PARAMETER_ROLE else memory.state
        keys = [name if role == PARAMETER_ROLE else f"{role}:{name}" for name in self.parameters]
        if len(keys) == 1 and tensors[keys[0]].is_contiguous():
            return tensors[keys[0]].view(-1)
        flat = reserve_zeros((self._length,), tensors[keys[0]].dtype)
        for key, view in zip(keys, self._cut(flat), strict=True):
            view.copy_(tensors[key])
            tensors[key] = view
        return flat

    def _cut(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [
            flat[start : start + shape.numel()].view(shape)
            for start, shape in zip(self._starts, self._shapes, strict=False)
        ]

    def apply(self, *gradients: torch.Tensor) -> None:
        """Update all parameters from their gradients, or from what was accumulated where none are given."""
        update = self._update_rounded if self._roundings else self._update
        external = self.external
        if self._gradient is None and self._reads_gradient:
            new = torch.split(gradients[0].reshape(-1), self._piece)
            for piece, gradient in zip(self._pieces, new, strict=True):
                update(*piece, gradient, *external)
            return
        if gradients and self._gradient is not None:
            torch._foreach_copy_(self.gradients, list(gradients))
        for piece in self._pieces:
            update(*piece, *external)

    def _update_rounded(self, weights: torch.Tensor, *values: Any) -> None:
        """Compute new weights in float32, then round each parameter by its own bits."""
        wide = weights.float()
        self._update(wide, *values)
        for new, held, rounding in zip(self._cut(wide), self._cut(weights), self._roundings, strict=True):
            held.copy_(round_by_chance(new, self._seed, rounding.draw, held.shape, rounding.overflow))

    def clear(self) -> None:
        """Start accumulating anew."""
        if self._gradient is not None:
            self._gradient.zero_()


class BucketGroup:
    """Buckets with one rule and equal 0-dim state, which is kept once: from equal values it stays equal."""

    def __init__(
        self,
        functions: RuleFunctions,
        parameters: Sequence[str],
        memory: DeviceMemory,
        gradient_dtype: torch.dtype,
        accumulate: bool,
        roundings: Mapping[str, WeightRounding],
    ) -> None:
        self._functions = functions
        self._scalar_states = {role: _share(role, parameters, memory) for role in functions.shared_states}
        large = [name for name in parameters if memory.parameters[name].numel() >= _ALONE_ELEMENTS]
        small = [name for name in parameters if name not in set(large)]
        self.buckets = tuple(
            Bucket(functions, names, memory, gradient_dtype, accumulate, roundings)
            for names in (*([name] for name in large), small)
            if names
        )

    def prepare(self, values: Mapping[fx.Node, torch.Tensor]) -> None:
        """Compute the 0-dim values of this update, and the new 0-dim state."""
        functions = self._functions
        known = {**values, **{node: self._scalar_states[role] for node, role in functions.scalar_states.items()}}
        if functions.compute_scalars is not None:
            results = functions.compute_scalars(*(known[node] for node in functions.scalar_arguments))
            known.update(zip(functions.scalar_results, results, strict=True))
        # State that the elements read must not change under them.
        external = tuple(
            known[node].item() if number else known[node].clone()
            for node, number in zip(functions.externals, functions.numbers, strict=True)
        )
        new = [(self._scalar_states[role], known[node].clone()) for role, node in functions.scalar_roles.items()]
        for old, value in new:
            old.copy_(value)
        for bucket in self.buckets:
            bucket.external = external


def divide_parameters(
    parameters: Sequence[str], functions: RuleFunctions, memory: DeviceMemory
) -> list[tuple[str, ...]]:
    """Parameters whose 0-dim state is equal, together."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for name in parameters:
        key = tuple(float(memory.state[f"{role}:{name}"]) for role in functions.shared_states)
        groups.setdefault(key, []).append(name)
    return [tuple(names) for names in groups.values()]


def _share(role: str, parameters: Sequence[str], memory: DeviceMemory) -> torch.Tensor:
    shared = memory.state[f"{role}:{parameters[0]}"].clone()
    for name in parameters:
        memory.state[f"{role}:{name}"] = shared
    return shared
