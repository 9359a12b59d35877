"""What an IPU would hold between runs: weights, buffers of each replica, optimizer state, hyper-parameters.

In: the signature of a program, then values from the host. Out: tensors of the program's own, by name. The host's
tensors are only read from and copied into, never kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Protocol

import torch

from openipu.errors import InputError, OptionError
from openipu.graph import GraphInput, InputKind, Program, StateSlot
from openipu.run.memory.host_memory import reserve_zeros, touch_pages


class Follower(Protocol):
    """What holds weights in a form of its own."""

    def refresh(self) -> None:
        """Take over the weights that the device holds now."""
        ...


class DeviceMemory:
    """Named tensors. An updater may move them (`parameters`, `state`), so they are looked up by name."""

    def __init__(self, program: Program, replicas: int) -> None:
        entries = {InputKind.PARAMETER: {}, InputKind.BUFFER: {}, InputKind.HYPER: {}}  # type: dict[InputKind, dict[str, GraphInput]]
        for graph in filter(None, (program.micro, program.update)):
            for entry in graph.inputs:
                if entry.kind in entries:
                    entries[entry.kind][entry.name] = entry
        self.parameters = {name: _allocate(entry) for name, entry in entries[InputKind.PARAMETER].items()}
        self.buffers = [
            {name: _allocate(entry) for name, entry in entries[InputKind.BUFFER].items()} for _ in range(replicas)
        ]
        self.state = {slot.key: _allocate_state(slot) for slot in program.state_slots}
        self.hyper = {name: _allocate(entry) for name, entry in entries[InputKind.HYPER].items()}
        for hyper in program.hyper_parameters:
            self.hyper.setdefault(hyper.key, torch.zeros((), dtype=torch.float32))
        self.update_seed = torch.zeros((), dtype=torch.int32)  # of stochastic rounding in the next update
        self._copies: dict[tuple[str, torch.dtype], torch.Tensor] = {}  # parameters in another number format
        self._followers: weakref.WeakKeyDictionary[Follower, frozenset[str]] = weakref.WeakKeyDictionary()
        self.weights_loaded = not self.parameters and not self.buffers[0]
        self.hyper_set = not self.hyper
        touch_pages([*self.parameters.values(), *self.state.values()])

    def check_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Refuse host tensors that cannot be copied, before the first is: a copy is whole, or is not made."""
        for name, held in self.parameters.items():
            _find(parameters, name, "parameter", held)
        for name, held in self.buffers[0].items():
            _find(buffers, name, "buffer", held)

    @torch.no_grad()
    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        self.check_weights(parameters, buffers)
        for name, target in self.parameters.items():
            target.copy_(_find(parameters, name, "parameter", target))
        for replica in self.buffers:
            for name, target in replica.items():
                target.copy_(_find(buffers, name, "buffer", target))
        for (name, _), copy in self._copies.items():
            copy.copy_(self.parameters[name])
        self._tell_followers(self.parameters.keys() | self.buffers[0].keys())
        self.weights_loaded = True

    @torch.no_grad()
    def load_buffers(self, buffers: Mapping[str, torch.Tensor], replica: int | None = None) -> None:
        """Write buffers by name, of one replica or of all; those that the program does not use are left out."""
        for held in self.buffers if replica is None else [self.buffers[replica]]:
            for name in buffers.keys() & held.keys():
                held[name].copy_(_find(buffers, name, "buffer", held[name]))
        self._tell_followers(buffers.keys())

    @torch.no_grad()
    def load_parameters(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Write some parameters by name; all others stay."""
        for name in parameters.keys() & self.parameters.keys():
            self.parameters[name].copy_(_find(parameters, name, "parameter", self.parameters[name]))
        for (name, _), copy in self._copies.items():
            copy.copy_(self.parameters[name])
        self._tell_followers(parameters.keys())

    @torch.no_grad()
    def copy_weights(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Copies of some parameters, and of some buffers of replica 0."""
        held = {**self.buffers[0], **self.parameters}
        return {name: held[name].clone() for name in names if name in held}

    def _tell_followers(self, loaded: Set[str]) -> None:
        for follower, names in list(self._followers.items()):
            if not names.isdisjoint(loaded):
                follower.refresh()

    def follow(self, follower: Follower, names: Iterable[str]) -> None:
        """Let something know when one of these parameters and buffers is loaded anew, for as long as it lives."""
        self._followers[follower] = frozenset(names)

    @torch.no_grad()
    def find_parameter(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """A parameter as it is held; or, in another number format, a copy that follows newly loaded weights."""
        held = self.parameters[name]
        if held.dtype is dtype:
            return held
        if (name, dtype) not in self._copies:
            self._copies[name, dtype] = reserve_zeros(held.shape, dtype).copy_(held)
        return self._copies[name, dtype]

    @torch.no_grad()
    def read_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        self.check_weights(parameters, buffers)
        for name, source in self.parameters.items():
            _find(parameters, name, "parameter", source).copy_(source)
        for name, source in self.buffers[0].items():
            _find(buffers, name, "buffer", source).copy_(source)

    def set_hyper_parameters(self, values: Mapping[str, float]) -> None:
        unknown, missing = sorted(set(values) - set(self.hyper)), sorted(set(self.hyper) - set(values))
        if unknown or missing:
            problem = [f"unknown: {', '.join(unknown)}"] * bool(unknown) + [f"missing: {', '.join(missing)}"] * bool(
                missing
            )
            raise OptionError(
                f"The hyper-parameters do not match the compiled optimizer ({'; '.join(problem)}). "
                f"Give exactly these: {', '.join(sorted(self.hyper)) or 'none'}."
            )
        for name, value in {name: float(value) for name, value in values.items()}.items():
            self.hyper[name].fill_(value)
        self.hyper_set = True

    def check_state(self, values: Mapping[str, torch.Tensor]) -> None:
        for key, value in values.items():
            if key not in self.state:
                raise InputError(
                    f"There is no optimizer state {key!r} in this program. "
                    f"It has: {', '.join(sorted(self.state)) or 'none'}."
                )
            if tuple(value.shape) != tuple(self.state[key].shape):
                raise InputError(
                    f"Optimizer state {key!r} has shape {tuple(value.shape)}, but the program holds "
                    f"{tuple(self.state[key].shape)}: load state that was saved from the same model and optimizer."
                )
            _check_values(f"Optimizer state {key!r}", value)

    def check_ready(self) -> None:
        """Refuse to run on memory that was never written."""
        if not self.weights_loaded:
            raise InputError("The program has no weights yet: call load_weights before run.")
        if not self.hyper_set:
            raise OptionError(
                "The optimizer has no values yet: call set_hyper_parameters with "
                f"{', '.join(sorted(self.hyper))} before run."
            )


def _allocate(entry: GraphInput) -> torch.Tensor:
    return reserve_zeros(entry.shape, entry.dtype)


def _allocate_state(slot: StateSlot) -> torch.Tensor:
    if slot.initial == 0:
        return reserve_zeros(slot.shape, slot.dtype)
    return torch.full(slot.shape, slot.initial, dtype=slot.dtype)


def _find(tensors: Mapping[str, torch.Tensor], name: str, kind: str, device: torch.Tensor) -> torch.Tensor:
    found = tensors.get(name)
    if found is None:
        raise InputError(
            f"The program needs {kind} {name!r}, which the host model does not have. "
            "Pass the tensors of the model that was compiled, or compile the program again."
        )
    if found.shape != device.shape:
        raise InputError(
            f"The {kind} {name!r} has shape {tuple(found.shape)} on the host, but the program was compiled for "
            f"{tuple(device.shape)}: compile it again."
        )
    _check_values(f"The {kind} {name!r}", found)
    return found


def _check_values(what: str, tensor: torch.Tensor) -> None:
    """Refuse tensors that have no values to copy, or not one for each element."""
    if tensor.is_meta:
        raise InputError(f"{what} is on the meta device, and has no values: give the model its weights first.")
    if tensor.layout is not torch.strided:
        raise InputError(f"{what} is {tensor.layout}: call to_dense() on it first, a device holds every element.")
