"""A program that runs on this host.

In: a `Program`, `RunOptions`, weights and hyper-parameters, then the inputs of one call after another.
Out: a `RunResult` for each call. The device's memory is the executable's own: the host's tensors change only in
`read_weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter as clock
from typing import Any, Protocol

import torch

from openipu.activity import is_watched, note_run, take_number
from openipu.errors import InputError, OptionError
from openipu.graph import OWNERLESS, EngineMode, InputKind, OutputKind, Program, RunOptions, meets_replicas
from openipu.graph.collection import pause_collection
from openipu.run.engine.engine import Engine
from openipu.run.engine.micro import MicroFunction
from openipu.run.engine.replica_sets import ReplicaSet, ReplicaSets
from openipu.run.engine.snapshot import Snapshot, load_snapshot, take_snapshot
from openipu.run.feeds import CallFeed, Feed, Source, StreamFeed
from openipu.run.instances import InstanceGroup, join_instances
from openipu.run.kernels import KernelProvider, find_provider
from openipu.run.lockstep import run_in_step
from openipu.run.memory.host_memory import keep_pages
from openipu.run.memory.weight_history import WeightHistory
from openipu.run.memory.written_buffers import check_written_buffers
from openipu.run.outputs import OutputCollector, check_choices
from openipu.run.random_stream import RandomStream
from openipu.run.repeatable import Repeatable
from openipu.run.results import MicroBatchTimes, ResultPlaces, RunResult, join_parts
from openipu.run.rewrites.semantics.loss_scale import LOSS_SCALING, LossScale
from openipu.run.single_call import SingleCall, runs_alone
from openipu.run.supervisor import EngineSupervisor
from openipu.run.taps import STATE, UPDATED, TapCollector
from openipu.run.update.rounded_rules import rounds_update
from openipu.trace import WAIT, span


class CallCheck(Protocol):
    """Runs the calls of an executable, and looks at their results."""

    def run(self, executable: Executable, leaves: Sequence[Any]) -> RunResult: ...

    def skip(self, executable: Executable) -> None:
        """A call is not looked at, because its inputs arrive while it runs."""
        ...


class Executable:
    """Device memory and the functions that run on it."""

    def __init__(self, program: Program, options: RunOptions, kernels: KernelProvider | None = None) -> None:
        """`kernels`: who finds and compiles C++ kernels; by default that of this process for the user's cache."""
        _check_options(program, options)
        self.program = program
        self.options = options
        self.number = take_number()
        keep_pages()
        self._sets = ReplicaSets(program, options)
        self._stream = RandomStream(options.random_seed)
        control = options.loss_scale_control
        self.loss_scale = LossScale(program, control) if control is not None else None
        self._entries = program.micro.inputs_of(InputKind.INPUT)
        self._needed = max((entry.index for entry in self._entries), default=-1) + 1
        self._results: tuple[MicroFunction, ResultPlaces] | None = None  # of the function that ran last
        graph = program.micro.module.graph
        shared = options.replicas * options.instances > 1
        self._in_step = shared and any(meets_replicas(node) for node in graph.nodes)
        self._group: InstanceGroup | None = None  # of a job with several instances, from the first run on
        self._has_news = False  # weights or state were written that other instances may not have
        self._supervisor = EngineSupervisor(program, self._sets, options, kernels or find_provider())
        self.check: CallCheck | None = None  # what compares calls with those of another engine
        self._repeatable = Repeatable(program.name) if options.deterministic else None
        self._rounds_update = rounds_update(program, options)
        self._single: SingleCall | None = None
        if runs_alone(options) and not self._rounds_update:
            memory = self._sets.first.memory
            self._single = SingleCall(program, memory, self._supervisor, self._stream, self.number)
        # Verification also looks at engines that cannot be made.
        if not self._supervisor.waits and not options.verify:
            with pause_collection():
                self._supervisor.start()

    @property
    def engine_mode(self) -> EngineMode:
        """How the program really runs: `OPERATORS` where kernels could not be compiled, or not yet."""
        return self._supervisor.mode

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
        return self._sets.read_state()

    @property
    def hyper_parameters(self) -> dict[str, float]:
        """The values of the optimizer as the device has them, by `HyperParameter.key`."""
        return {name: float(value) for name, value in self._sets.first.memory.hyper.items()}

    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Copy weights from the host to the device, and buffers to every replica."""
        self._sets.load_weights(parameters, buffers)
        self._has_news = True

    def read_weights(
        self, into_parameters: Mapping[str, torch.Tensor], into_buffers: Mapping[str, torch.Tensor]
    ) -> None:
        """Copy weights, and the buffers of replica 0, from the device into the host's tensors."""
        self._sets.read_weights(into_parameters, into_buffers)

    def load_buffers(self, buffers: Mapping[str, torch.Tensor], replica: int | None = None) -> None:
        """Copy some buffers from the host to one replica, or to every one. All others stay as each replica has them."""
        for replica_set in self._sets.sets if replica is None else [self._sets[replica]]:
            replica_set.memory.load_buffers(buffers, replica)
        self._has_news = True

    def copy_buffers(self, names: Collection[str], replica: int) -> dict[str, torch.Tensor]:
        """Copies of some buffers as one replica has them, by name."""
        held = self._sets[replica].memory.buffers[replica]
        return {name: held[name].clone() for name in names if name in held}

    def load_parameters(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Copy some parameters from the host to every replica. All others stay, and so do buffers."""
        for replica_set in self._sets.sets:
            replica_set.memory.load_parameters(parameters)
        self._has_news = True

    def copy_weights(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Copies of some parameters, and of some buffers of replica 0, by name."""
        return self._sets.first.memory.copy_weights(names)

    def set_hyper_parameters(self, values: Mapping[str, float]) -> None:
        """Set all values of the optimizer, e.g. {"lr.0": 0.1}. Nothing is compiled again."""
        scaled = values if self.loss_scale is None else self.loss_scale.scale(values)
        for replica_set in self._sets.sets:
            replica_set.memory.set_hyper_parameters(scaled)

    def load_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Replace optimizer state, all of it or some."""
        parts = {replica_set: self._sets.split_state(values, replica_set) for replica_set in self._sets.sets}
        for replica_set, own in parts.items():
            replica_set.memory.check_state(own)
        # Parameters may share one 0-dim tensor; they are parted before some of them change, and functions bound anew.
        parted = any(
            slot.parameter != OWNERLESS and not slot.shape and slot.key in values for slot in self.program.state_slots
        )
        with torch.no_grad():
            for replica_set, own in parts.items():
                memory = replica_set.memory
                if parted:
                    memory.state = {key: held if held.dim() else held.clone() for key, held in memory.state.items()}
                for key, value in own.items():
                    memory.state[key].copy_(value)
        if parted:
            self._supervisor.rebuild()
        self._has_news = True

    def compile(self) -> EngineMode:
        """Make everything ready now instead of at the first run; says how it will run."""
        self._supervisor.start()
        return self._supervisor.mode

    def run(self, leaves: Sequence[Any]) -> RunResult:
        """Run one call on the flattened (args, kwargs) of all its micro-batches."""
        self._sets.first.memory.check_ready()
        if self.check is not None:
            return self.check.run(self, leaves)
        result = None if self._single is None else self._single.run(leaves)
        return self._run_call(leaves) if result is None else result

    def run_once(self, leaves: Sequence[Any]) -> RunResult:
        """One call by this executable's own engine, whatever checks its calls."""
        result = None if self._single is None else self._single.run(leaves)
        return self._run_call(leaves) if result is None else result

    def _run_call(self, leaves: Sequence[Any]) -> RunResult:
        entries, needed, options = self._entries, self._needed, self.options
        if len(leaves) < needed:
            raise InputError(
                f"{self.program.name} was compiled for at least {needed} inputs and got {len(leaves)}: "
                "pass the same structure of arguments as at compilation."
            )
        return self._start(CallFeed(self._align(leaves), entries, options))

    def stream(self, source: Source) -> RunResult:
        """Run one call on micro-batches that arrive one after the other."""
        self._sets.first.memory.check_ready()
        if self.check is not None:
            self.check.skip(self)
        return self._start(StreamFeed(source, self._entries, self._needed, self.program.name, self._align))

    @property
    def engine(self) -> Engine:
        """What runs the next call."""
        return self._supervisor.start()

    def use_reference(self) -> None:
        """Run operator by operator from now on."""
        self._supervisor.use_reference()

    def adopt_kernels(self, other: Executable) -> None:
        """Before the first run: use the kernels that another executable of this program uses."""
        self._supervisor.adopt_kernels(other._supervisor)

    def take_snapshot(self) -> Snapshot:
        """Copies of everything that the next call starts from."""
        return take_snapshot(self._sets, self._stream, self.loss_scale)

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this program."""
        if load_snapshot(snapshot, self._sets, self._stream, self.loss_scale):
            self._supervisor.rebuild()
        self._has_news = True

    def _align(self, leaves: Sequence[Any]) -> Sequence[Any]:
        return leaves if self._repeatable is None else self._repeatable.align(leaves)

    def _start(self, feed: Feed) -> RunResult:
        options = self.options
        engine = self._supervisor.start()
        if options.instances > 1 and (options.training or self._in_step):
            with span(WAIT, "other instances"):
                self._meet_instances()
        started = clock()
        with torch.no_grad(), self._repeatable.hold() if self._repeatable is not None else nullcontext():
            function = engine.function_of(0)
            seeded = any(entry.kind is InputKind.SEED for entry in function.arguments)
            updates = options.device_iterations if self._rounds_update else 0
            seeds = self._draw_seeds(options) if seeded else None
            update_seeds = self._draw_update_seeds(updates)
            with self._stream.use() if function.random else nullcontext():
                result = self._run(engine, feed, seeds, update_seeds)
        seconds = clock() - started
        self._supervisor.note_run(seconds)
        if is_watched():
            note_run(self.number, self.program.name, seconds)
        return result

    def _run(
        self,
        engine: Engine,
        feed: Feed,
        seeds: torch.Tensor | None,
        update_seeds: Sequence[int],
    ) -> RunResult:
        options, factor = self.options, engine.factor
        results = self._find_results(engine.function_of(0))  # the same for every set
        collector = OutputCollector(options, results.outputs, results.scalar, self.program.output_tree)
        taps = TapCollector(options)
        histories = self._begin_histories(engine)
        changed: dict[int, list[torch.Tensor]] = {}
        carried: dict[ReplicaSet, Sequence[torch.Tensor]] = {}
        times: list[MicroBatchTimes] = []
        steps = options.gradient_accumulation * options.replicas
        if self.loss_scale is not None:
            self.loss_scale.begin()
        for position in range(0, options.micro_batches, factor):
            # Of the first micro-batch of those that run as one; in training they are of one iteration.
            iteration, within = divmod(position, steps)
            step, replica = divmod(within, options.replicas)
            if within == 0:
                self._seed_update(update_seeds[iteration] if update_seeds else None)
                engine.begin()
            asked = clock()
            if not self._in_step or replica == 0:
                calls = [
                    self._prepare(engine, feed, position + number, factor, seeds, histories)
                    for number in range(options.replicas if self._in_step else 1)
                ]
                ready = clock()
                gather = None if self._group is None else self._group.gather
                made = run_in_step(calls, self.program.name, gather) if self._in_step else [calls[0]()]
                done = clock()
            values = made[replica] if self._in_step else made[0]
            self._write_back(results, values, replica)
            engine.take_gradients(replica, values)
            if self.loss_scale is not None:
                for index in results.statistics:
                    self.loss_scale.add(values[index])
            for index, leaf in results.changed:
                changed.setdefault(leaf, []).append(values[index])
            for index, tensor in results.tapped:
                taps.add(tensor, values[index], iteration, step, replica)
            if options.gradient_accumulation > 1:  # an update comes after the last micro-batch, and is not yet seen
                self._tap_state(taps, iteration, step, replica)
            outputs = [values[index] for index in results.output_positions]
            stored = collector.take(position, factor, outputs)
            times.extend(MicroBatchTimes(asked, ready, done, clock(), kept) for kept in stored)
            if results.carried:  # one that is not yet the last is overwritten: sets differ, steps do not
                carried[self._sets[replica]] = values
            last_iteration, last_within = divmod(position + factor - 1, steps)
            if last_within == steps - 1:
                if self._group is not None and options.training:
                    self._group.sum_gradients(engine.list_gradients())
                engine.finish()
                self._write_carried(results, carried)
                self._follow_gradients()
                for history in histories.values():
                    history.keep()
                self._tap_updates(taps, last_iteration)
                if options.gradient_accumulation == 1:
                    for number in range(options.replicas):
                        self._tap_state(taps, last_iteration, 0, number)
        joined = {leaf: join_parts(parts) for leaf, parts in changed.items()}
        return RunResult(collector.combine(), joined, taps.combine(), tuple(times))

    def _begin_histories(self, engine: Engine) -> dict[ReplicaSet, WeightHistory]:
        """Of weights that stages of a continuous pipeline read late."""
        if not self.options.continuous:
            return {}
        arguments = engine.function_of(0).arguments
        histories = {
            replica_set: WeightHistory(replica_set.memory.parameters, arguments) for replica_set in self._sets.sets
        }
        for history in histories.values():
            history.begin()
        return histories

    def _meet_instances(self) -> None:
        """Before a call: all instances have the weights and the state that one of them was given."""
        if self._group is None:
            self._group = join_instances(self.options.instances)
        if not self.options.training:  # each instance reads weights of its own
            return
        source = self._group.find_source(self._has_news)
        if source is not None:
            with torch.no_grad():
                self._group.share(self._sets.list_tensors(), source)
        self._has_news = False

    def _draw_seeds(self, options: RunOptions) -> torch.Tensor:
        """Of this instance's micro-batches. All instances draw for all, so that equal streams stay equal."""
        if self._group is None:
            return self._stream.draw_seeds(options.micro_batches)
        return self._group.take_own(
            self._stream.draw_seeds(options.micro_batches * options.instances), options.replicas
        )

    def _draw_update_seeds(self, updates: int) -> list[int]:
        """All instances round an update alike."""
        if not updates:
            return []
        seeds = self._stream.draw_seeds(updates)
        if self._group is not None:
            self._group.share([seeds], 0)
        return seeds.tolist()

    def _seed_update(self, seed: int | None) -> None:
        """All replicas round an update alike, so that their weights stay the same."""
        if seed is not None:
            for replica_set in self._sets.sets:
                replica_set.memory.update_seed.fill_(seed)

    def _follow_gradients(self) -> None:
        if self.loss_scale is not None and self._group is not None:
            self.loss_scale.gather(self._group)
        if self.loss_scale is not None and self.loss_scale.finish_update():
            for replica_set in self._sets.sets:
                replica_set.memory.hyper[LOSS_SCALING].fill_(self.loss_scale.value)

    def _find_results(self, function: MicroFunction) -> ResultPlaces:
        if self._results is None or self._results[0] is not function:
            self._results = (function, ResultPlaces(function, self.program))
        return self._results[1]

    def _tap_updates(self, taps: TapCollector, iteration: int) -> None:
        for name in taps.updated_parameters:
            for replica in range(self.options.replicas):
                value = self._sets[replica].memory.parameters[name].clone()
                taps.add(UPDATED + name, value, iteration, self.options.gradient_accumulation - 1, replica)

    def _tap_state(self, taps: TapCollector, iteration: int, step: int, replica: int) -> None:
        for name in taps.states:
            value = self._sets[replica].memory.state[name.removeprefix(STATE)].clone()
            taps.add(name, value, iteration, step, replica)

    def _prepare(
        self,
        engine: Engine,
        feed: Feed,
        position: int,
        factor: int,
        seeds: torch.Tensor | None,
        histories: Mapping[ReplicaSet, WeightHistory],
    ) -> Callable[[], Sequence[torch.Tensor]]:
        """What runs the micro-batches from a position on, with its inputs at hand."""
        replica = position % self.options.replicas
        function = engine.function_of(replica)
        inputs = feed.take(position, factor)
        arguments = self._list_arguments(function, inputs, position, replica, factor, seeds, histories)
        return lambda: function.call(*arguments)

    def _list_arguments(
        self,
        function: MicroFunction,
        inputs: Mapping[int, torch.Tensor],
        position: int,
        replica: int,
        factor: int,
        seeds: torch.Tensor | None,
        histories: Mapping[ReplicaSet, WeightHistory],
    ) -> list[torch.Tensor]:
        buffers = self._sets[replica].memory.buffers[replica]
        arguments = []
        for entry in function.arguments:
            if entry.kind is InputKind.INPUT:
                arguments.append(inputs[entry.index])
            elif entry.kind is InputKind.SEED:
                assert seeds is not None
                arguments.append(seeds[position] if factor == 1 else seeds[position : position + factor])
            elif entry.kind is InputKind.DELAYED:
                arguments.append(histories[self._sets[replica]].read(entry.name, entry.index))
            else:
                arguments.append(buffers[entry.name])
        return arguments

    def _write_back(self, results: ResultPlaces, values: Sequence[torch.Tensor], replica: int) -> None:
        if results.written:
            memory = self._sets[replica].memory
            targets = [
                memory.buffers[replica][name] if kind is OutputKind.BUFFER else memory.parameters[name]
                for kind, name in results.targets
            ]
            torch._foreach_copy_(targets, [values[index] for index in results.written])

    def _write_carried(self, results: ResultPlaces, values_of: Mapping[ReplicaSet, Sequence[torch.Tensor]]) -> None:
        """What the last micro-batch of an update found for parameters that the optimizer does not touch."""
        for replica_set, values in values_of.items():
            for index, name in results.carried:
                replica_set.memory.parameters[name].copy_(values[index])


def _check_options(program: Program, options: RunOptions) -> None:
    if options.training != program.training:
        kinds = {True: "training", False: "inference"}
        raise OptionError(
            f"{program.name} was captured for {kinds[program.training]}, but the options ask for "
            f"{kinds[options.training]}: capture it again with the same setting of training."
        )
    check_written_buffers(program, options)
    check_choices(program, options)
