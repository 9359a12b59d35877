"""A program that runs on this host.

In: a `Program`, `RunOptions`, weights and hyper-parameters, then the inputs of one call after another.
Out: a `RunResult` for each call. The device's memory is the executable's own: the host's tensors change only in
`read_weights`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.errors import InputError, OptionError
from openipu.graph import InputKind, OutputKind, Program, Reduction, RunOptions, Tier
from openipu.run.batching import split_call
from openipu.run.compiled import CompiledGraph, compile_program
from openipu.run.device_memory import DeviceMemory
from openipu.run.micro import MicroFunction, build_micro
from openipu.run.outputs import OutputCollector, combine_micro_batches
from openipu.run.random_stream import RandomStream
from openipu.run.update_rules import plan_update
from openipu.run.updater import Updater


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one call gives back."""

    outputs: tuple[Any, ...]  # leaves of what forward returned, combined by the output mode
    changed_inputs: Mapping[int, torch.Tensor]  # input leaf -> its new value, for inputs that forward writes to


class Executable:
    """Device memory and the functions that run on it."""

    def __init__(self, program: Program, options: RunOptions) -> None:
        _check_options(program, options)
        self.program = program
        self.options = options
        self._memory = DeviceMemory(program, options.replicas)
        self._stream = RandomStream(options.random_seed)
        self._update_plan = plan_update(program) if program.update is not None else None
        self._tier = options.tier
        self._updater: Updater | None = None
        self._compiled: CompiledGraph | None = None
        self._function: MicroFunction | None = None
        if self._tier is Tier.INSTANT:
            self._build()

    @property
    def tier(self) -> Tier:
        """How the program really runs: `INSTANT` where compilation failed."""
        return self._tier

    @property
    def random_state(self) -> torch.Tensor | None:
        """The position of the program's own random stream; None where it uses PyTorch's global one."""
        return self._stream.state

    @random_state.setter
    def random_state(self, value: torch.Tensor | None) -> None:
        self._stream.state = value

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Copies of the optimizer state by `StateSlot.key`."""
        return {key: tensor.clone() for key, tensor in self._memory.state.items()}

    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Copy weights from the host to the device, and buffers to every replica."""
        self._memory.load_weights(parameters, buffers)

    def read_weights(
        self, into_parameters: Mapping[str, torch.Tensor], into_buffers: Mapping[str, torch.Tensor]
    ) -> None:
        """Copy weights, and the buffers of replica 0, from the device into the host's tensors."""
        self._memory.read_weights(into_parameters, into_buffers)

    def set_hyper_parameters(self, values: Mapping[str, float]) -> None:
        """Set all values of the optimizer, e.g. {"lr.0": 0.1}. Nothing is compiled again."""
        self._memory.set_hyper_parameters(values)

    def load_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Replace optimizer state, all of it or some."""
        self._memory.check_state(values)
        with torch.no_grad():
            if self._updater is not None:
                # Parameters may share one 0-dim tensor; they are parted before some of them change.
                self._memory.state = {key: tensor.clone() for key, tensor in self._memory.state.items()}
            for key, value in values.items():
                self._memory.state[key].copy_(value)
            if self._updater is not None:
                self._build_updater()
                self._bind()

    def compile(self) -> Tier:
        """Make everything ready now instead of at the first run; says which tier that is."""
        if self._function is None:
            self._build()
        return self._tier

    def run(self, leaves: Sequence[Any]) -> RunResult:
        """Run one call on the flattened (args, kwargs) of all its micro-batches."""
        self._memory.check_ready()
        entries = self.program.micro.inputs_of(InputKind.INPUT)
        needed = max((entry.index for entry in entries), default=-1) + 1
        if len(leaves) < needed:
            raise InputError(
                f"{self.program.name} was compiled for at least {needed} inputs and got {len(leaves)}: "
                "pass the same structure of arguments as at compilation."
            )
        inputs = {entry.index: split_call(leaves[entry.index], entry, self.options) for entry in entries}
        with torch.no_grad():
            if self._function is None:
                self._build()
            assert self._function is not None
            if not self._function.random:
                return self._run(self._function, inputs)
            with self._stream.use():
                return self._run(self._function, inputs)

    def _run(self, function: MicroFunction, inputs: Mapping[int, Sequence[torch.Tensor]]) -> RunResult:
        options, updater = self.options, self._updater
        results = _Results(function, self.program)
        collector = OutputCollector(options, results.outputs, self.program.output_tree)
        changed: dict[int, list[torch.Tensor]] = {}
        position = 0
        for iteration in range(options.device_iterations):
            if updater is not None:
                updater.begin()
            for step in range(options.gradient_accumulation):
                for replica in range(options.replicas):
                    values = function.call(*self._list_arguments(function, inputs, position, replica))
                    position += 1
                    self._write_back(results, values, replica)
                    if updater is not None and self._accumulates and results.gradients:
                        updater.accumulate({name: values[index] for name, index in results.gradients}, self._scale)
                    for index, leaf in results.changed:
                        changed.setdefault(leaf, []).append(values[index])
                    if collector.wants(iteration, step):
                        collector.add(replica, [values[index] for index in results.output_positions])
            if updater is not None:
                kept = {name: values[index] for name, index in results.gradients}
                updater.finish(updater.accumulators if self._accumulates else kept)
        return RunResult(collector.combine(), {leaf: _join_parts(parts) for leaf, parts in changed.items()})

    def _list_arguments(
        self, function: MicroFunction, inputs: Mapping[int, Sequence[torch.Tensor]], position: int, replica: int
    ) -> list[torch.Tensor]:
        buffers = self._memory.buffers[replica]
        return [
            inputs[entry.index][position] if entry.kind is InputKind.INPUT else buffers[entry.name]
            for entry in function.arguments
        ]

    def _write_back(self, results: _Results, values: Sequence[torch.Tensor], replica: int) -> None:
        if results.written:
            targets = [
                self._memory.buffers[replica][name] if kind is OutputKind.BUFFER else self._memory.parameters[name]
                for kind, name in results.targets
            ]
            torch._foreach_copy_(targets, [values[index] for index in results.written])

    @property
    def _accumulates(self) -> bool:
        return self.options.gradient_accumulation * self.options.replicas > 1

    @property
    def _scale(self) -> float:
        """The weight of one micro-batch in the reduced gradient."""
        batches = self.options.gradient_accumulation * self.options.replicas
        return 1 / batches if self.options.reduction is Reduction.MEAN else 1.0

    def _build(self) -> None:
        if self._tier is Tier.COMPILED:
            try:
                self._compiled = compile_program(self.program, self._memory, whole_step=not self._accumulates)
            except Exception as error:  # whatever Inductor raises, the instant tier gives the same results
                _warn_not_compiled(self.program.name, error)
                self._tier = Tier.INSTANT
        if self._compiled is None or not self._compiled.updates:
            self._build_updater()
        self._bind()

    def _build_updater(self) -> None:
        if self._update_plan is not None:
            with torch.no_grad():
                written = frozenset(entry.name for entry in self.program.micro.outputs_of(OutputKind.PARAMETER))
                self._updater = Updater(self._update_plan, self._memory, self._accumulates, written)

    def _bind(self) -> None:
        """Make the function that runs one micro-batch on the memory as it lies now."""
        with torch.no_grad():
            if self._compiled is not None:
                self._function = self._compiled.bind(self._memory)
            else:
                scale = self._scale if self._accumulates else None
                self._function = build_micro(self.program, self._memory, self._updater, scale)


def _check_options(program: Program, options: RunOptions) -> None:
    if options.training != program.training:
        kinds = {True: "training", False: "inference"}
        raise OptionError(
            f"{program.name} was captured for {kinds[program.training]}, but the options ask for "
            f"{kinds[options.training]}: capture it again with the same setting of training."
        )
    written = [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER)]
    if written and options.replicas > 1 and options.broadcast_buffers:
        raise OptionError(
            f"forward writes to {'buffer' if len(written) == 1 else 'buffers'} {', '.join(written)}, and there are "
            f"{options.replicas} replicas: written buffers cannot be broadcast to replicas. Set broadcast_buffers to "
            "False, so that each replica keeps its own, or use one replica."
        )


def _warn_not_compiled(name: str, error: Exception) -> None:
    reason = (str(error).strip().splitlines() or ["no message"])[0]
    warnings.warn(
        f"{name} could not be compiled and runs in the instant tier instead ({type(error).__name__}: {reason}). "
        "Results are the same; only the speed differs. Check that a C++ compiler is installed, or choose the "
        "instant tier.",
        UserWarning,
        stacklevel=4,
    )


class _Results:
    """Where in the returned tuple each kind of result stands."""

    def __init__(self, function: MicroFunction, program: Program) -> None:
        places = list(enumerate(function.results))
        leaf_of = {entry.name: entry.index for entry in program.micro.inputs_of(InputKind.INPUT)}
        self.outputs = [entry for entry in function.results if entry.kind is OutputKind.OUTPUT]
        self.output_positions = [index for index, entry in places if entry.kind is OutputKind.OUTPUT]
        self.changed = [(index, leaf_of[entry.name]) for index, entry in places if entry.kind is OutputKind.INPUT]
        stored = [(index, entry) for index, entry in places if entry.kind in (OutputKind.BUFFER, OutputKind.PARAMETER)]
        self.written = [index for index, _ in stored]
        self.targets = [(entry.kind, entry.name) for _, entry in stored]
        self.gradients = [(entry.name, index) for index, entry in places if entry.kind is OutputKind.GRADIENT]


def _join_parts(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    # A 0-dim input is the same for all micro-batches: the last one has the last word.
    return parts[-1] if parts[0].dim() == 0 else combine_micro_batches(parts)
