"""Applies settings to a program and plans it again.

In: a `Subject`, settings. Out: the plan that they lead to. The program's notes are as before afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from torch import fx

from openipu.explore.auto import Limits, Split, split_program
from openipu.explore.auto.segments import find_chain
from openipu.explore.levers.types import LeverKind, Setting
from openipu.graph import (
    NOTE,
    InputKind,
    Note,
    Phase,
    Program,
    Recompute,
    RunOptions,
    TensorLocation,
    TensorRole,
    note_of,
)
from openipu.machine import System
from openipu.ops import Trait, has_trait
from openipu.plan import KnownProgram, Plan, plan_program
from openipu.plan.lowering.recompute import CHECKPOINT
from openipu.plan.price import SERIALIZATION

_ROLES = {
    LeverKind.SHARED_STATE: TensorRole.OPTIMIZER,
    LeverKind.STATE_OFF_CHIP: TensorRole.OPTIMIZER,
    LeverKind.ACTIVATIONS_OFF_CHIP: TensorRole.ACTIVATION,
    LeverKind.WEIGHTS_OFF_CHIP: TensorRole.WEIGHT,
}
_SPLIT_PLANS = 6
_ROUNDS_PER_IPU = 16


@dataclass(frozen=True, slots=True)
class Variant:
    """What takes capturing the model again: another micro-batch, half precision."""

    micro_batch: int
    half: bool = False


Recapture = Callable[[Variant], Program]


@dataclass(eq=False)
class Subject:
    """A program that does not fit, and what it takes to plan it otherwise."""

    program: Program
    system: System
    options: RunOptions
    plan: Plan
    recapture: Recapture | None = None  # None: micro-batch and number format are what they are
    captured: dict[Variant, Program] = field(default_factory=dict)
    known: dict[int, KnownProgram] = field(default_factory=dict)  # by id: programs above stay
    plans_made: int = 0

    def find_program(self, variant: Variant) -> Program:
        """One variant of the program, captured at most once."""
        if variant == Variant(self.plan.micro_batch) or self.recapture is None:
            return self.program
        if variant not in self.captured:
            self.captured[variant] = self.recapture(variant)
        return self.captured[variant]

    def find_known(self, program: Program) -> KnownProgram:
        """What the plans of one variant have in common."""
        return self.known.setdefault(id(program), KnownProgram())


def plan_again(subject: Subject, settings: Sequence[Setting]) -> tuple[Plan, tuple[Setting, ...]]:
    """The plan with these settings, and the settings with what they turned out to imply."""
    options, micro_batch, half, ipus = subject.options, subject.plan.micro_batch, False, 0
    for setting in settings:
        if setting.kind is LeverKind.MICRO_BATCH:
            assert isinstance(setting.value, int)
            options = _keep_samples(options, micro_batch, setting.value)
            micro_batch = setting.value
        elif setting.kind is LeverKind.MORE_IPUS:
            assert isinstance(setting.value, int)
            ipus = setting.value
        elif setting.kind is LeverKind.HALF_PRECISION:
            half = True
        else:
            options = change_options(options, setting, subject.plan)
    program = subject.find_program(Variant(micro_batch, half))
    with ExitStack() as stack:
        for setting in settings:
            stack.enter_context(_mark_nodes(program, setting, subject.plan))
        if not ipus:
            plan = plan_program(program, subject.system, options, known=subject.find_known(program))
            subject.plans_made += 1
        else:
            split = _split(program, subject.system, options, ipus)
            plan = split.plan
            subject.plans_made += split.plans_made
    return plan, tuple(_complete(setting, plan.options, subject.options) for setting in settings)


def change_options(options: RunOptions, setting: Setting, plan: Plan) -> RunOptions:
    """One setting of the run options."""
    kind = setting.kind
    if kind is LeverKind.MEMORY_PROPORTION:
        assert isinstance(setting.value, float)
        return replace(options, available_memory_proportion=setting.value, memory_proportions=())
    if kind is LeverKind.HALF_PARTIALS:
        return replace(options, half_partials=True)
    if kind is LeverKind.RECOMPUTE:
        return replace(options, recompute=Recompute.STANDARD)
    if kind is LeverKind.CHECKPOINTS:
        return replace(options, recompute=Recompute.ALL if plan.pipeline is None else Recompute.PIPELINE)
    if kind in _ROLES:
        before = options.location_of(_ROLES[kind])
        if kind is LeverKind.SHARED_STATE:
            after = replace(before, replicated_sharding=True)
        else:
            after = replace(before, on_chip=False)
        locations: dict[TensorRole, TensorLocation] = {**dict(options.locations), _ROLES[kind]: after}
        return replace(options, locations=tuple(locations.items()))
    return options


def _keep_samples(options: RunOptions, before: int, after: int) -> RunOptions:
    """A smaller micro-batch is accumulated more often, so that an update sees as many samples."""
    if not options.training or before % after:
        return options
    return replace(options, gradient_accumulation=options.gradient_accumulation * (before // after))


def _split(program: Program, system: System, options: RunOptions, ipus: int) -> Split:
    rounds = options.gradient_accumulation if options.training else options.device_iterations
    if rounds < 2 * ipus + 1:  # too few to keep so many stages busy
        rounds = _ROUNDS_PER_IPU * ipus
    sizes = [entry.shape[0] for entry in program.micro.inputs_of(InputKind.INPUT) if entry.shape]
    samples = rounds * options.replicas * (sizes[0] if sizes else 1)
    limits = Limits(ipus_per_replica=ipus, replicas=options.replicas, samples=samples)
    return split_program(
        program,
        system,
        options,
        limits=limits,
        proportions=(options.available_memory_proportion,),
        most_plans=_SPLIT_PLANS,
    )


def _complete(setting: Setting, options: RunOptions, before: RunOptions) -> Setting:
    """Say how many micro-batches make a call, where a setting changed that."""
    if setting.kind not in (LeverKind.MORE_IPUS, LeverKind.MICRO_BATCH):
        return setting
    name = "gradient_accumulation" if options.training else "device_iterations"
    rounds = getattr(options, name)
    return replace(setting, rounds=rounds if rounds != getattr(before, name) else None)


@contextmanager
def _mark_nodes(program: Program, setting: Setting, plan: Plan) -> Iterator[None]:
    """While this lasts, nodes carry the marks that a setting asks for."""
    marks: dict[fx.Node, dict[str, object]] = {}
    if setting.kind is LeverKind.SERIALISED_PRODUCTS:
        marks = {node: {SERIALIZATION: ("output_channels", setting.value)} for node in _list_products(program, plan)}
    elif setting.kind is LeverKind.CHECKPOINTS:
        marks = {node: {CHECKPOINT: True} for node in _list_boundaries(program)}
    before: dict[fx.Node, Note] = {}
    for node, attributes in marks.items():
        note = before[node] = note_of(node)
        node.meta[NOTE] = replace(note, attributes={**note.attributes, **attributes})
    try:
        yield
    finally:
        for node, note in before.items():
            node.meta[NOTE] = note


def _list_products(program: Program, plan: Plan) -> list[fx.Node]:
    """The products with the largest temporaries, by name: they are the same whatever the micro-batch."""
    scratch = {op.name: op.scratch_bytes_per_tile for op in plan.ops if has_trait(op.op, Trait.SERIALISABLE)}
    largest = max(scratch.values(), default=0)
    nodes = program.micro.module.graph.nodes
    return [node for node in nodes if scratch.get(node.name, 0) * 4 >= largest > 0]


def _list_boundaries(program: Program) -> list[fx.Node]:
    """Forward results that pass from one layer to the next."""
    chain = find_chain(program, most_stages=64)
    found = []
    for node, segment in chain.segment_of.items():
        if note_of(node).phase is Phase.FORWARD:
            readers = [user for user in node.users if user in chain.segment_of]
            if any(note_of(user).phase is Phase.FORWARD and chain.segment_of[user] != segment for user in readers):
                found.append(node)
    return found
