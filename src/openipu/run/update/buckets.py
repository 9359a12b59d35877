"""Parameters that are updated by one call, and groups of such that share their 0-dim values.

In: the functions of an update rule and the device memory. Out: `Bucket`s and `BucketGroup`s. Small parameters with the
same rule lie side by side in one piece of memory and are updated together; large ones alone. A rule of several
operators goes through in pieces that stay in the cache, which is where the time of an update is lost otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.kernels import Run
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.memory.host_memory import reserve_zeros
from openipu.run.rewrites.half.stochastic_rounding import Rows, round_rows_into
from openipu.run.update.functions import RuleFunctions
from openipu.run.update.rules import GRADIENT_ROLE, PARAMETER_ROLE, StochasticRounding

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
        roundings: Mapping[str, StochasticRounding],
        rounding_kernel: Run | None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.external: tuple[torch.Tensor | float, ...] = ()  # the 0-dim values of this update
        self._update = functions.update_elements
        self._reads_gradient = GRADIENT_ROLE in functions.roles
        self._gradient_dtype = gradient_dtype
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
        # Places of rounded tensors among the arguments -> how each parameter's is rounded
        self._roundings = {
            place: [roundings[name_tensor(role, name)] for name in parameters]
            for place, role in enumerate(functions.roles)
            if name_tensor(role, parameters[0]) in roundings
        }
        self._seed = memory.update_seed
        self._rounding_kernel = rounding_kernel
        self._piece = self._choose_piece(functions.one_pass)
        pieces = (torch.split(flat[role], self._piece) for role in functions.roles if role in flat)
        self._pieces = list(zip(*pieces, strict=True))

    def _choose_piece(self, one_pass: bool) -> int:
        if not self._roundings:
            return max(1, self._length) if one_pass else thresholds.UPDATE_PIECE_ELEMENTS
        if len(self.parameters) > 1:
            return max(1, self._length)
        columns = max(1, self._count_columns(0))  # bits are sampled by rows
        return max(1, thresholds.UPDATE_PIECE_ELEMENTS // columns) * columns

    def _count_columns(self, index: int) -> int:
        shape = self._shapes[index]
        return shape[-1] if shape else 1

    def _move(self, role: str, memory: DeviceMemory) -> torch.Tensor:
        """Put the tensors of one role side by side, and let the memory's names point there."""
        tensors = memory.parameters if role == PARAMETER_ROLE else memory.state
        keys = [name_tensor(role, name) for name in self.parameters]
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
        pieces = self._pieces
        if self._gradient is None and self._reads_gradient:
            # An accumulator may have another format than the gradient, also where nothing has to be added up.
            new = torch.split(gradients[0].reshape(-1).to(self._gradient_dtype), self._piece)
            pieces = [(*piece, gradient) for piece, gradient in zip(pieces, new, strict=True)]
        elif gradients and self._gradient is not None:
            torch._foreach_copy_(self.gradients, list(gradients))
        for number, piece in enumerate(pieces):
            if self._roundings:
                self._update_rounded(number * self._piece, piece)
            else:
                self._update(*piece, *self.external)

    def _update_rounded(self, start: int, piece: Sequence[torch.Tensor]) -> None:
        """Compute in float32, then round each tensor of each parameter by its own bits."""
        wide = [tensor.float() if place in self._roundings else tensor for place, tensor in enumerate(piece)]
        self._update(*wide, *self.external)
        for place, roundings in self._roundings.items():
            self._round(start, wide[place], piece[place], roundings)

    def _round(
        self, start: int, new: torch.Tensor, held: torch.Tensor, roundings: Sequence[StochasticRounding]
    ) -> None:
        for index, rounding in enumerate(roundings):
            columns, size = self._count_columns(index), self._shapes[index].numel()
            begin, end = self._starts[index], self._starts[index] + size
            if not size:
                continue
            if len(roundings) == 1:
                begin, end = 0, len(new)
            rows = Rows(start // columns, (end - begin) // columns, columns)
            some = held[begin:end], new[begin:end]
            round_rows_into(*some, self._seed, rounding.sample, rows, rounding.overflow, self._rounding_kernel)

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
        roundings: Mapping[str, StochasticRounding],
        rounding_kernel: Run | None,
    ) -> None:
        self._functions = functions
        self._scalar_states = {role: _share(role, parameters, memory) for role in functions.shared_states}
        large = [name for name in parameters if memory.parameters[name].numel() >= thresholds.UPDATED_ALONE_ELEMENTS]
        small = [name for name in parameters if name not in set(large)]
        self.buckets = tuple(
            Bucket(functions, names, memory, gradient_dtype, accumulate, roundings, rounding_kernel)
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


def name_tensor(role: str, parameter: str) -> str:
    """What the device memory calls a parameter, or a state of it."""
    return parameter if role == PARAMETER_ROLE else f"{role}:{parameter}"


def divide_parameters(
    parameters: Sequence[str], functions: RuleFunctions, memory: DeviceMemory
) -> list[tuple[str, ...]]:
    """Parameters whose 0-dim state is equal, together."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for name in parameters:
        key = tuple(float(memory.state[name_tensor(role, name)]) for role in functions.shared_states)
        groups.setdefault(key, []).append(name)
    return [tuple(names) for names in groups.values()]


def _share(role: str, parameters: Sequence[str], memory: DeviceMemory) -> torch.Tensor:
    shared = memory.state[name_tensor(role, parameters[0])].clone()
    for name in parameters:
        memory.state[name_tensor(role, name)] = shared
    return shared
