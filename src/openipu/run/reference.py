"""The reference engine runs a program as it was recorded, operator by operator: it defines what a program means.

In: a program, its memory, options. Out: an `Engine` that every other engine can be compared with. Operators are
PyTorch's own, operands are dense, results are in fresh memory, and no rule of `engine/pass_list.py` has touched the
graph. What is applied are the definitions that a captured graph leaves open:

- what a call returns: taps, gradients that an update reads, the count of small gradients for the loss scale;
- weights of earlier updates, in a pipeline that updates after each micro-batch (`delay_weights`);
- random numbers as functions of the micro-batch's seed (`sample_from_seed`);
- half precision: products add up in float32 and are rounded once (`widen_operators`); half partials and overflow;
- the check for infinities and NaN, where the options ask for it (`check_arithmetic`);
- gradients: each micro-batch has the weight `weigh_micro_batch`, in the accumulators' own format.

With stochastic rounding, the random bits of a rounding follow from its place in the simplified graph. Only then the
graph goes through `simplify` and `prune_rows` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openipu.graph import (
    BranchCall,
    Graph,
    GraphInput,
    InputKind,
    LoopCall,
    OutputKind,
    Program,
    RunOptions,
)
from openipu.run.drafts.aliasing import draws_random_numbers
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.drafts.random_numbers import sample_from_seed
from openipu.run.engine.micro import MicroFunction, weigh_micro_batch
from openipu.run.engine.pass_list import count_gradients, keep_results
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.half.operators import WIDENED
from openipu.run.rewrites.half.rounding import apply_number_options
from openipu.run.rewrites.half.widen_products import widen_operators
from openipu.run.rewrites.pruning import prune_rows
from openipu.run.rewrites.semantics.delayed_weights import delay_weights
from openipu.run.rewrites.semantics.float_exceptions import UpdateWatch, check_arithmetic
from openipu.run.rewrites.simplify import simplify_graph
from openipu.run.taps import add_taps
from openipu.run.update.rounded_rules import rounds_update
from openipu.run.update.stacked_scalars import separate_scalars

Change = Callable[[torch.Tensor], torch.Tensor]  # of each result, for runs that measure the effect of rounding

_HELD = frozenset({InputKind.PARAMETER, InputKind.HYPER, InputKind.STATE})


def draft_reference(program: Program, options: RunOptions) -> Draft:
    """One micro-batch, as recorded."""
    draft = draft_graph(program.micro, program.constants)
    add_taps(draft, program, options.taps)
    keep_results(draft, program)
    if options.loss_scale_control is not None:
        count_gradients(draft, options)
    if options.continuous:
        delay_weights(draft)
    if options.stochastic_rounding:
        simplify_graph(draft)
        if not options.floating_point_exceptions:
            prune_rows(draft)
    else:
        sample_from_seed(draft)
        widen_operators(draft, WIDENED)
    apply_number_options(draft, options)
    if options.floating_point_exceptions:
        check_arithmetic(draft)
    return draft


def draft_reference_update(program: Program, options: RunOptions) -> Draft:
    """The optimizer's update of all parameters, as recorded."""
    assert program.update is not None
    draft = draft_graph(program.update, program.constants)
    if rounds_update(program, options):
        separate_scalars(draft)
        simplify_graph(draft)
        apply_number_options(draft, options, update=True)
    else:
        widen_operators(draft, WIDENED)
    return draft


class ReferenceEngine:
    """Runs micro-batches and updates on the memory of an executable, operator by operator."""

    factor = 1

    def __init__(self, program: Program, sets: ReplicaSets, options: RunOptions) -> None:
        self.change: Change | None = None
        self._sets = sets
        self._scale = weigh_micro_batch(options)
        draft = draft_reference(program, options)
        run = _Runner(draft)
        random = any(draws_random_numbers(node) for node in draft.graph.nodes)
        asked = tuple(entry for entry in draft.inputs if entry.kind not in (*_HELD, InputKind.CONSTANT))
        self._functions = {
            replica_set: MicroFunction(self._bind(run, asked, replica_set.memory), asked, draft.outputs, random)
            for replica_set in sets.sets
        }
        self._gradients = [
            (index, entry.name) for index, entry in enumerate(draft.outputs) if entry.kind is OutputKind.GRADIENT
        ]
        self._update = None if program.update is None else _Runner(draft_reference_update(program, options))
        self._accumulators: dict[Any, dict[str, torch.Tensor]] = {}
        if program.update is not None:
            entries = program.update.inputs_of(InputKind.GRADIENT)
            for replica_set in sets.sets:
                self._accumulators[replica_set] = {e.name: torch.zeros(e.shape, dtype=e.dtype) for e in entries}
        checked = program.update is not None and options.floating_point_exceptions
        self._watches = [
            UpdateWatch(replica_set.memory.parameters, replica_set.memory.state) for replica_set in sets.sets if checked
        ]

    def function_of(self, replica: int) -> MicroFunction:
        return self._functions[self._sets[replica]]

    def begin(self) -> None:
        for watch in self._watches:
            watch.begin()
        for accumulators in self._accumulators.values():
            for accumulator in accumulators.values():
                accumulator.zero_()

    def take_gradients(self, replica: int, values: Sequence[torch.Tensor]) -> None:
        accumulators = self._accumulators.get(self._sets[replica], {})
        for index, name in self._gradients:
            accumulators[name].add_(values[index], alpha=self._scale)
            if self.change is not None:  # its format may be half, where every sum is rounded
                accumulators[name].copy_(self.change(accumulators[name]))

    def list_gradients(self) -> Mapping[str, torch.Tensor]:
        return {
            name if number == 0 else f"{name}:{number}": tensor
            for number, accumulators in enumerate(self._accumulators.values())
            for name, tensor in accumulators.items()
        }

    def finish(self) -> None:
        if self._update is None:
            return
        self._sets.reduce_gradients(list(self._accumulators.values()))
        for replica_set, gradients in self._accumulators.items():
            memory = replica_set.memory
            inputs = {
                entry.node: gradients[entry.name]
                if entry.kind is InputKind.GRADIENT
                else memory.update_seed
                if entry.kind is InputKind.SEED
                else _read_held(entry, memory)
                for entry in self._update.draft.inputs
                if entry.kind is not InputKind.CONSTANT
            }
            values = self._update.run(inputs, self.change)
            for entry, value in zip(self._update.draft.outputs, values, strict=True):
                held = memory.state if entry.kind is OutputKind.STATE else memory.parameters
                held[entry.name].copy_(value)
        for watch in self._watches:
            watch.finish()

    def _bind(
        self, runner: _Runner, asked: Sequence[GraphInput], memory: DeviceMemory
    ) -> Callable[..., list[torch.Tensor]]:
        held = [entry for entry in runner.draft.inputs if entry.kind in _HELD]

        def call(*arguments: torch.Tensor) -> list[torch.Tensor]:
            inputs = {entry.node: value for entry, value in zip(asked, arguments, strict=True)}
            inputs |= {entry.node: _read_held(entry, memory) for entry in held}
            return runner.run(inputs, self.change)

        return call


def _read_held(entry: GraphInput, memory: DeviceMemory) -> torch.Tensor:
    """What the device holds, in the format in which the graph reads it."""
    if entry.kind is InputKind.PARAMETER:
        return memory.parameters[entry.name].to(entry.dtype)
    return memory.state[entry.name] if entry.kind is InputKind.STATE else memory.hyper[entry.name]


class _Runner:
    """Runs a draft, and the bodies of its loops and branches."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._bodies: dict[Graph, _Runner] = {}
        self._last_reads: dict[fx.Node, list[fx.Node]] = {}
        seen: set[fx.Node] = set()
        for node in reversed(draft.graph.nodes):
            self._last_reads[node] = [value for value in node.all_input_nodes if value not in seen]
            seen.update(node.all_input_nodes)
            for body in node.target.bodies if isinstance(node.target, LoopCall | BranchCall) else ():
                inner = draft_graph(body, {})
                widen_operators(inner, WIDENED)
                self._bodies[body] = _Runner(inner)

    def run(self, inputs: Mapping[str, Any], change: Change | None = None) -> list[torch.Tensor]:
        """The results in memory of their own. `inputs` are by name of the placeholder."""
        values: dict[fx.Node, Any] = {}
        known = {**self.draft.bound, **inputs}
        for node in self.draft.graph.nodes:
            if node.op == "placeholder":
                values[node] = known[node.name]
                continue
            if node.op == "output":
                break
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: _make_dense(values[source]))
            result = self._call(node.target, args, kwargs, change)
            if change is not None and isinstance(result, torch.Tensor) and result.is_floating_point():
                result = change(result)
            values[node] = result
            for dead in self._last_reads[node]:
                del values[dead]
        return [values[node].clone(memory_format=torch.contiguous_format) for node in self.draft.results]

    def _call(self, target: Any, args: Any, kwargs: Any, change: Change | None) -> Any:
        if isinstance(target, LoopCall):
            carried, fixed = list(args[: target.carried]), args[target.carried :]
            for _ in range(target.count):
                carried = self._run_body(target.body, [*carried, *fixed], change)
            return carried
        if isinstance(target, BranchCall):
            count = len(target.chosen.inputs)
            if bool(args[0]):
                return self._run_body(target.chosen, args[1 : 1 + count], change)
            return self._run_body(target.otherwise, args[1 + count :], change)
        return target(*args, **kwargs)

    def _run_body(self, body: Graph, tensors: Sequence[torch.Tensor], change: Change | None) -> list[torch.Tensor]:
        runner = self._bodies[body]
        asked = [entry for entry in runner.draft.inputs if entry.node not in runner.draft.bound]
        return runner.run({entry.node: value for entry, value in zip(asked, tensors, strict=True)}, change)


def _make_dense(value: Any) -> Any:
    """An operand that starts its memory and has no gaps, as kernels may expect it."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    if value.is_contiguous() and value.storage_offset() == 0:
        return value
    return value.clone(memory_format=torch.contiguous_format)
