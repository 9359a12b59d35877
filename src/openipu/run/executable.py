"""A program that runs on this host.

In: a `Program`, `RunOptions`, weights and hyper-parameters, then the inputs of one call after another.
Out: a `RunResult` for each call. The device's memory is the executable's own: the host's tensors change only in
`read_weights`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter as clock
from typing import Any

import torch

from openipu.errors import InputError, OptionError
from openipu.graph import InputKind, OutputKind, Program, Reduction, RunOptions, Tier
from openipu.run.batching import split_call
from openipu.run.compiled import CompiledGraph, compile_program
from openipu.run.lanes import Lane, Lanes
from openipu.run.micro import MicroFunction
from openipu.run.outputs import OutputCollector, combine_micro_batches
from openipu.run.random_stream import RandomStream
from openipu.run.taps import UPDATED, TapCollector
from openipu.run.update_rules import plan_update


@dataclass(frozen=True, slots=True)
class MicroBatchTimes:
    """When one micro-batch passed each point, in seconds of this host's monotonic clock."""

    inputs_asked: float
    inputs_ready: float
    outputs_ready: float
    outputs_stored: float
    stored: bool  # the output mode keeps the outputs of this micro-batch


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one call gives back."""

    outputs: tuple[Any, ...]  # leaves of what forward returned, combined by the output mode
    changed_inputs: Mapping[int, torch.Tensor]  # input leaf -> its new value, for inputs that forward writes to
    taps: Mapping[str, torch.Tensor] = field(default_factory=dict)  # by the name of the tap
    times: tuple[MicroBatchTimes, ...] = ()  # measured on this host, in the order of the micro-batches


class Executable:
    """Device memory and the functions that run on it."""

    def __init__(self, program: Program, options: RunOptions) -> None:
        _check_options(program, options)
        self.program = program
        self.options = options
        self._lanes = Lanes(program, options)
        self._stream = RandomStream(options.random_seed)
        self._update_plan = plan_update(program) if program.update is not None else None
        # What looks inside the program needs its single operators.
        observed = bool(options.taps) or options.floating_point_exceptions
        self._tier = Tier.INSTANT if observed else options.tier
        self._compiled: CompiledGraph | None = None
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
    def rng_state(self) -> list[int]:
        """The seed and the position of the random stream, as numbers to store."""
        return self._stream.to_numbers()

    @rng_state.setter
    def rng_state(self, numbers: Sequence[int]) -> None:
        self._stream.from_numbers(numbers)

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """Copies of the optimizer state by `StateSlot.key`."""
        return self._lanes.read_state()

    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Copy weights from the host to the device, and buffers to every replica."""
        self._lanes.load_weights(parameters, buffers)

    def read_weights(
        self, into_parameters: Mapping[str, torch.Tensor], into_buffers: Mapping[str, torch.Tensor]
    ) -> None:
        """Copy weights, and the buffers of replica 0, from the device into the host's tensors."""
        self._lanes.read_weights(into_parameters, into_buffers)

    def set_hyper_parameters(self, values: Mapping[str, float]) -> None:
        """Set all values of the optimizer, e.g. {"lr.0": 0.1}. Nothing is compiled again."""
        for lane in self._lanes.lanes:
            lane.memory.set_hyper_parameters(values)

    def load_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Replace optimizer state, all of it or some."""
        parts = {lane: self._lanes.split_state(values, lane) for lane in self._lanes.lanes}
        for lane, own in parts.items():
            lane.memory.check_state(own)
        for lane, own in parts.items():
            self._load_state(lane, own)

    @torch.no_grad()
    def _load_state(self, lane: Lane, values: Mapping[str, torch.Tensor]) -> None:
        memory = lane.memory
        if lane.updater is not None:
            # Parameters may share one 0-dim tensor; they are parted before some of them change.
            memory.state = {key: tensor.clone() for key, tensor in memory.state.items()}
        for key, value in values.items():
            memory.state[key].copy_(value)
        if lane.updater is not None:
            self._build_updater(lane)
            self._bind(lane)

    def compile(self) -> Tier:
        """Make everything ready now instead of at the first run; says which tier that is."""
        if self._lanes.first.function is None:
            self._build()
        return self._tier

    def run(self, leaves: Sequence[Any]) -> RunResult:
        """Run one call on the flattened (args, kwargs) of all its micro-batches."""
        self._lanes.first.memory.check_ready()
        entries = self.program.micro.inputs_of(InputKind.INPUT)
        needed = max((entry.index for entry in entries), default=-1) + 1
        if len(leaves) < needed:
            raise InputError(
                f"{self.program.name} was compiled for at least {needed} inputs and got {len(leaves)}: "
                "pass the same structure of arguments as at compilation."
            )
        inputs = {entry.index: split_call(leaves[entry.index], entry, self.options) for entry in entries}
        with torch.no_grad():
            if self._lanes.first.function is None:
                self._build()
            function = self._lanes.first.function
            assert function is not None
            if not function.random:
                return self._run(function, inputs)
            with self._stream.use():
                return self._run(function, inputs)

    def _run(self, function: MicroFunction, inputs: Mapping[int, Sequence[torch.Tensor]]) -> RunResult:
        options, updater = self.options, self._lanes.first.updater
        updaters = [lane.updater for lane in self._lanes.lanes if lane.updater is not None]
        results = _Results(function, self.program)  # the same for every lane
        collector = OutputCollector(options, results.outputs, self.program.output_tree)
        taps = TapCollector(options)
        changed: dict[int, list[torch.Tensor]] = {}
        times: list[MicroBatchTimes] = []
        position = 0
        for iteration in range(options.device_iterations):
            for each in updaters:
                each.begin()
            for step in range(options.gradient_accumulation):
                for replica in range(options.replicas):
                    asked = clock()
                    lane = self._lanes[replica]
                    assert lane.function is not None
                    arguments = self._list_arguments(lane, inputs, position, replica)
                    ready = clock()
                    values = lane.function.call(*arguments)
                    done = clock()
                    position += 1
                    self._write_back(results, values, replica)
                    if lane.updater is not None and self._accumulates and results.gradients:
                        gradients = {name: values[index] for name, index in results.gradients}
                        lane.updater.accumulate(gradients, self._scale)
                    for index, leaf in results.changed:
                        changed.setdefault(leaf, []).append(values[index])
                    for index, tensor in results.tapped:
                        taps.add(tensor, values[index], iteration, step, replica)
                    wanted = collector.wants(iteration, step)
                    if wanted:
                        collector.add(replica, [values[index] for index in results.output_positions])
                    times.append(MicroBatchTimes(asked, ready, done, clock(), wanted))
            if updater is not None:
                self._lanes.reduce_gradients()
                kept = {name: values[index] for name, index in results.gradients}
                for each in updaters:
                    each.finish(each.accumulators if self._accumulates else kept)
            self._tap_updates(taps, iteration)
        joined = {leaf: _join_parts(parts) for leaf, parts in changed.items()}
        return RunResult(collector.combine(), joined, taps.combine(), tuple(times))

    def _tap_updates(self, taps: TapCollector, iteration: int) -> None:
        for name in taps.updated_parameters:
            for replica in range(self.options.replicas):
                value = self._lanes[replica].memory.parameters[name].clone()
                taps.add(UPDATED + name, value, iteration, self.options.gradient_accumulation - 1, replica)

    def _list_arguments(
        self, lane: Lane, inputs: Mapping[int, Sequence[torch.Tensor]], position: int, replica: int
    ) -> list[torch.Tensor]:
        assert lane.function is not None
        buffers = lane.memory.buffers[replica]
        return [
            inputs[entry.index][position] if entry.kind is InputKind.INPUT else buffers[entry.name]
            for entry in lane.function.arguments
        ]

    def _write_back(self, results: _Results, values: Sequence[torch.Tensor], replica: int) -> None:
        if results.written:
            memory = self._lanes[replica].memory
            targets = [
                memory.buffers[replica][name] if kind is OutputKind.BUFFER else memory.parameters[name]
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
                memory = self._lanes.first.memory
                self._compiled = compile_program(self.program, memory, whole_step=not self._accumulates)
            except Exception as error:  # whatever Inductor raises, the instant tier gives the same results
                _warn_not_compiled(self.program.name, error)
                self._tier = Tier.INSTANT
        for lane in self._lanes.lanes:
            if self._compiled is None or not self._compiled.updates:
                self._build_updater(lane)
            self._bind(lane)

    def _build_updater(self, lane: Lane) -> None:
        lane.build_updater(self._update_plan, self.program, self._accumulates)

    def _bind(self, lane: Lane) -> None:
        lane.bind(self.program, self._compiled, self._scale if self._accumulates else None, self.options)


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
        self.tapped = [(index, entry.name) for index, entry in places if entry.kind is OutputKind.TAP]
        self.gradients = [(entry.name, index) for index, entry in places if entry.kind is OutputKind.GRADIENT]


def _join_parts(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    # A 0-dim input is the same for all micro-batches: the last one has the last word.
    return parts[-1] if parts[0].dim() == 0 else combine_micro_batches(parts)
