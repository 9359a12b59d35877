"""A program that runs on this host.

In: a `Program`, `RunOptions`, weights and hyper-parameters, then the inputs of one call after another.
Out: a `RunResult` for each call. The device's memory is the executable's own: the host's tensors change only in
`read_weights`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import perf_counter as clock
from typing import Any, Protocol

import torch

from openipu.activity import is_watched, note_run, take_number
from openipu.errors import OptionError
from openipu.graph import OWNERLESS, EngineMode, Program, RunOptions, meets_replicas
from openipu.graph.collection import pause_collection
from openipu.run.engine.engine import Engine
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.engine.snapshot import Snapshot, load_snapshot, take_snapshot
from openipu.run.feeds import CallReader, Feed, Source
from openipu.run.hooks import list_hooks
from openipu.run.kernels import KernelProvider, find_provider
from openipu.run.loop import Loop
from openipu.run.membership import Membership
from openipu.run.memory.host_memory import keep_pages
from openipu.run.memory.written_buffers import check_written_buffers
from openipu.run.outputs import check_choices
from openipu.run.random_stream import RandomStream
from openipu.run.repeatable import Repeatable
from openipu.run.results import RunResult
from openipu.run.rewrites.semantics.loss_scale import LossScale
from openipu.run.supervisor import EngineSupervisor


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
        self._memory = self._sets.first.memory
        self._stream = RandomStream(options.random_seed)
        control = options.loss_scale_control
        self.loss_scale = LossScale(program, control) if control is not None else None
        shared = options.replicas * options.instances > 1
        in_step = shared and any(meets_replicas(node) for node in program.micro.module.graph.nodes)
        self._membership = Membership(options, self._sets, in_step)
        self._supervisor = EngineSupervisor(program, self._sets, options, kernels or find_provider())
        self.check: CallCheck | None = None  # what compares calls with those of another engine
        self._repeatable = Repeatable(program.name) if options.deterministic else None
        self._reader = CallReader(program, options, None if self._repeatable is None else self._repeatable.align)
        hooks = list_hooks(program, options, self._sets, self._stream, self._membership, self.loss_scale)
        self._loop = Loop(program, options, self._sets, self._stream, self._membership, hooks, in_step)
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
        return {name: float(value) for name, value in self._memory.hyper.items()}

    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Copy weights from the host to the device, and buffers to every replica."""
        self._sets.load_weights(parameters, buffers)
        self._membership.has_news = True

    def read_weights(
        self, into_parameters: Mapping[str, torch.Tensor], into_buffers: Mapping[str, torch.Tensor]
    ) -> None:
        """Copy weights, and the buffers of replica 0, from the device into the host's tensors."""
        self._sets.read_weights(into_parameters, into_buffers)

    def load_buffers(self, buffers: Mapping[str, torch.Tensor], replica: int | None = None) -> None:
        """Copy some buffers from the host to one replica, or to every one. All others stay as each replica has them."""
        for replica_set in self._sets.sets if replica is None else [self._sets[replica]]:
            replica_set.memory.load_buffers(buffers, replica)
        self._membership.has_news = True

    def copy_buffers(self, names: Collection[str], replica: int) -> dict[str, torch.Tensor]:
        """Copies of some buffers as one replica has them, by name."""
        held = self._sets[replica].memory.buffers[replica]
        return {name: held[name].clone() for name in names if name in held}

    def load_parameters(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Copy some parameters from the host to every replica. All others stay, and so do buffers."""
        for replica_set in self._sets.sets:
            replica_set.memory.load_parameters(parameters)
        self._membership.has_news = True

    def copy_weights(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Copies of some parameters, and of some buffers of replica 0, by name."""
        return self._memory.copy_weights(names)

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
        self._membership.has_news = True

    def compile(self) -> EngineMode:
        """Make everything ready now instead of at the first run; says how it will run."""
        self._supervisor.start()
        return self._supervisor.mode

    def run(self, leaves: Sequence[Any]) -> RunResult:
        """Run one call on the flattened (args, kwargs) of all its micro-batches."""
        self._memory.check_ready()
        if self.check is not None:
            return self.check.run(self, leaves)
        return self._start(self._reader.read(leaves))

    def run_once(self, leaves: Sequence[Any]) -> RunResult:
        """One call by this executable's own engine, whatever checks its calls."""
        return self._start(self._reader.read(leaves))

    def stream(self, source: Source) -> RunResult:
        """Run one call on micro-batches that arrive one after the other."""
        self._memory.check_ready()
        if self.check is not None:
            self.check.skip(self)
        return self._start(self._reader.stream(source))

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
        self._membership.has_news = True

    def _start(self, feed: Feed) -> RunResult:
        engine = self._supervisor.start()
        if self._membership.shares:
            self._membership.meet()
        started = clock()
        if self._repeatable is None:
            result = self._loop.run(engine, feed)
        else:
            with self._repeatable.hold():
                result = self._loop.run(engine, feed)
        seconds = clock() - started
        self._supervisor.note_run(seconds)
        if is_watched():
            note_run(self.number, self.program.name, seconds)
        return result


def _check_options(program: Program, options: RunOptions) -> None:
    if options.training != program.training:
        kinds = {True: "training", False: "inference"}
        raise OptionError(
            f"{program.name} was captured for {kinds[program.training]}, but the options ask for "
            f"{kinds[options.training]}: capture it again with the same setting of training."
        )
    check_written_buffers(program, options)
    check_choices(program, options)
