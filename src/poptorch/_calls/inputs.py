"""Tensors on their way in: what an IPU can hold, contiguous, detached, with the right batch dimension.

In: bound inputs of one call. Out: leaves that the executable takes; after the run, inputs that forward changed go back
to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch._calls.binding import BoundInputs
from poptorch._logging import logger
from poptorch.enums import CommGroupType
from poptorch.errors import createPoptorchError
from poptorch.options import Options, read_synthetic_mode

_SYNTHETIC: Mapping[int, Callable[[torch.Tensor], torch.Tensor]] = {  # by PopART's numbers
    1: torch.zeros_like,
    2: torch.randn_like,
    3: torch.rand_like,
}
NARROWED = {torch.float64: torch.float32, torch.bfloat16: torch.float32}  # formats that an IPU does not have


@dataclass
class InputReader:
    """Prepares inputs for one executor; each of its warnings is given once."""

    options: Options
    training: bool
    _warned: set[str] = field(default_factory=set)

    def read(self, inputs: BoundInputs) -> BoundInputs:
        """The same inputs, with each tensor as the device takes it."""
        if inputs.flat:
            return BoundInputs(inputs.names, tuple(map(self._prepare, inputs.args)), {})
        if any(isinstance(value, dict) for value in inputs.args):
            self._warn_once(
                "Dicts as inputs only have partial support: their keys are fixed when the model is compiled."
            )
        args, kwargs = pytree.tree_map(self._prepare, (inputs.args, inputs.kwargs))
        return BoundInputs(inputs.names, args, kwargs)

    def check_batch(self, inputs: BoundInputs) -> None:
        """Every tensor must hold a whole number of samples for each micro-batch."""
        options = self.options
        accumulation = options.Training.gradient_accumulation
        groups = options.replication_factor // options.input_group_size
        factor = options.device_iterations * groups * accumulation
        for leaf in pytree.tree_leaves((inputs.args, inputs.kwargs)):
            if not isinstance(leaf, torch.Tensor):
                continue
            batch = leaf.shape[0] if leaf.dim() else 1
            assert batch % factor == 0, (
                f"Invalid batch dimension: In the input {leaf.shape}, the batch dimension ({batch}) must be a "
                f"multiple of Options.deviceIterations({options.device_iterations}) * "
                f"(Options.replicationFactor({options.replication_factor}) / "
                f"Options.inputReplicaGrouping({options.input_group_size})) * "
                f"Options.Training.gradientAccumulation({accumulation}) = {factor}: so many "
                "micro-batches of one size are made of it. "
                "Change the batch of the input, or these options."
            )

    def _prepare(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            _refuse_hidden_tensors(leaf)
            return leaf
        if leaf.requires_grad:
            self._warn_once(
                "Input tensor has requires_grad=True set. This tensor will be detached because backward pass via "
                "inputs is not supported."
            )
            leaf = leaf.detach()
        if not leaf.is_contiguous():
            self._warn_once("An input is not contiguous: it is copied for every call.")
            leaf = leaf.contiguous()
        narrow = NARROWED.get(leaf.dtype)
        return self._spread_over_groups(leaf if narrow is None else leaf.to(narrow))

    def _spread_over_groups(self, leaf: torch.Tensor) -> torch.Tensor:
        """Give each replica of an input group the group's data."""
        size, replicas = self.options.input_group_size, self.options.replication_factor
        if size == 1 or leaf.dim() == 0:
            return leaf
        groups = replicas // size
        consecutive = self.options.input_cgt == CommGroupType.Consecutive
        group_of_replica = [replica // size if consecutive else replica % groups for replica in range(replicas)]
        steps = self.options.device_iterations * (self.options.Training.gradient_accumulation if self.training else 1)
        if leaf.shape[0] % (steps * groups):
            return leaf  # check_batch has the words for it
        by_group = leaf.reshape(steps, groups, -1, *leaf.shape[1:])
        return by_group[:, group_of_replica].reshape(-1, *leaf.shape[1:])

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)


def makes_data(options: Options) -> bool:
    """Whether the device makes up its inputs."""
    return read_synthetic_mode(options) in _SYNTHETIC


def make_synthetic(leaves: list[Any], options: Options) -> list[Any] | None:
    """What the device makes up in place of the user's data, as `popart.SyntheticDataMode` says; None: it does not.

    Whole numbers are zero, so that they stay valid as indices.
    """
    make = _SYNTHETIC.get(read_synthetic_mode(options))
    if make is None:
        return None
    return [
        (make(leaf) if leaf.is_floating_point() else torch.zeros_like(leaf)) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]


def _refuse_hidden_tensors(leaf: Any) -> None:
    """A value that is not looked into is fixed at compilation, so tensors inside it would never change."""
    if _holds_tensor(leaf, depth=3):
        raise createPoptorchError(
            f"An input of type {type(leaf).__name__} holds tensors, and inputs of this type are not looked into. "
            "Pass its tensors in tuples, lists or dictionaries, for example dict(batch) or **batch."
        )


def _holds_tensor(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or value is None or isinstance(value, int | float | complex | str | bytes | type | torch.nn.Module):
        return False
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        inside = list(value)
    else:
        inside = list(getattr(value, "__dict__", {}).values())
    return any(_holds_tensor(item, depth - 1) for item in inside)


def return_changed_inputs(leaves: Sequence[Any], changed: Mapping[int, torch.Tensor], options: Options) -> None:
    """Write inputs that forward changed in place back into the caller's own tensors."""
    if not changed:
        return
    if options.input_group_size > 1:
        raise createPoptorchError(
            "forward changes an input in place, and inputReplicaGrouping gives that input to several replicas: "
            "which replica's change to keep is not defined. Clone the input in forward before changing it."
        )
    with torch.no_grad():
        for index, value in changed.items():
            leaves[index].copy_(value)
