"""A compiled graph as a function on device memory.

In: the library that AOTInductor made of a draft, or several and their schedule, and the draft's signature. Out: a
`MicroFunction`. The code takes every placeholder as an argument, in order, and writes weights, state and buffers in
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from openipu.errors import InputError
from openipu.graph import GraphInput, InputKind
from openipu.run.engines.micro import MicroFunction
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.native.schedule import Run, Schedule
from openipu.run.native.signature import Signature
from openipu.run.update.updater import find_value


class NativeFunction:
    """Loaded libraries. They stay in memory for as long as the process: code cannot be unloaded safely.

    `run` is the code itself: all placeholders, contiguous, to all results.
    """

    def __init__(self, libraries: Sequence[Path], signature: Signature, schedule: Schedule | None = None) -> None:
        self.signature = signature
        # One model instance: calls of one executable never overlap.
        self._runners = [torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1) for library in libraries]
        parts: list[Run] = [runner.run for runner in self._runners]
        self.run: Run = parts[0] if schedule is None else schedule.bind(parts)

    @property
    def gradients(self) -> tuple[GraphInput, ...]:
        """The accumulators that it reads or writes."""
        return tuple(entry for entry in self.signature.placeholders if entry and entry.kind is InputKind.GRADIENT)

    def bind(self, memory: DeviceMemory, gradients: Mapping[str, torch.Tensor]) -> MicroFunction:
        """A function of inputs, buffers and seeds on this memory."""
        _share_states(memory, self.signature.shared_states)
        values: list[torch.Tensor | None] = []
        constants = iter(self.signature.constants)
        for entry in self.signature.placeholders:
            if entry is None:
                values.append(next(constants))
            elif entry.kind is InputKind.GRADIENT:
                values.append(gradients[entry.name])
            else:
                values.append(find_value(entry, memory))
        slots = [index for index, value in enumerate(values) if value is None]
        run = self.run

        def call(*changing: torch.Tensor) -> Sequence[torch.Tensor]:
            full: list[Any] = values.copy()
            for index, value in zip(slots, changing, strict=True):
                full[index] = value.contiguous()
            results: Sequence[torch.Tensor] = run(full)
            return results

        arguments = tuple(entry for index in slots if (entry := self.signature.placeholders[index]) is not None)
        return MicroFunction(call, arguments, self.signature.outputs, self.signature.random)


def _share_states(memory: DeviceMemory, shared: Mapping[str, str]) -> None:
    for name, first in shared.items():
        if not torch.equal(memory.state[name], memory.state[first]):
            raise InputError(
                f"Optimizer state {name!r} differs from {first!r}, and the compiled program keeps one value for both: "
                "load state of one and the same step, or choose the instant tier."
            )
    # Only now: all or nothing.
    unique: dict[int, torch.Tensor] = {}
    for key in {*shared.values(), *(key for key in memory.state if key not in shared)}:
        tensor = memory.state[key]
        if tensor.dim() == 0 and tensor.data_ptr() in unique:
            memory.state[key] = tensor.clone()
        unique[memory.state[key].data_ptr()] = memory.state[key]
    for name, first in shared.items():
        memory.state[name] = memory.state[first]
