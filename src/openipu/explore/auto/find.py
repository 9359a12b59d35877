"""The two doors of the automatic split: a planning job, whose micro-batch may change, and a captured program.

In: a `PlanningJob` or a `Program` with its options, and a system. Out: a `Split` that was planned in full.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from openipu.errors import OptionError
from openipu.explore.auto.finder import Bar, Finder
from openipu.explore.auto.placing import write_layout
from openipu.explore.auto.schemes import Limits, list_schemes
from openipu.explore.auto.segments import find_chain
from openipu.explore.auto.types import Split
from openipu.graph import InputKind, Program, RunOptions
from openipu.graph.collection import pause_collection
from openipu.graph.copying import copy_program
from openipu.jobs import PlanningJob, capture_job
from openipu.machine import System
from openipu.plan import KnownProgram
from openipu.session import choose_system

PROPORTIONS = (0.6, 0.3, 0.2, 0.15, 0.1)
_MOST_PLANS = 400  # of one micro-batch
_MOST_NODES = 450_000  # planned for one micro-batch: less than half a minute, however large a program is
_MOST_NODES_AGAIN = 300_000  # planned in all when a further micro-batch is begun
_FEWEST_PLANS = 4  # of one micro-batch, even so


@pause_collection()  # plans stay, and Python would walk over them again and again
def find_split(
    job: PlanningJob,
    system: System | str | None = None,
    *,
    ipus_per_replica: int | None = None,
    replicas: int | None = None,
    samples: int | None = None,
    micro_batches: Sequence[int] | None = None,
    proportions: Sequence[float] = PROPORTIONS,
    head_on_first_ipu: bool | None = None,
    seconds: float | None = None,
) -> Split:
    """The fastest split of a job over the IPUs of a system that fits; weights are not needed.

    The search chooses the pipeline stages, what backward computes again, the available-memory proportion of each IPU,
    where optimizer state is kept, the number of replicas and the micro-batch. Arguments that are given are kept:

    - `ipus_per_replica`, `replicas`: how the IPUs are used. Else all IPUs, in replicas of a power of two.
    - `samples`: samples between two updates (inference: in one call), over all replicas. Else the job's own, from its
      micro-batch, accumulation and replicas; a job that says nothing gets 16 micro-batches for each IPU.
    - `micro_batches`: sizes to choose from. Else the job's own, and larger ones as long as they are faster, or smaller
      ones until one fits. Every tensor of the job is cut along its first dimension.
    - `proportions`: available-memory proportions to choose from.
    - `head_on_first_ipu`: True puts the last stage back on IPU 0, as models with a shared embedding do; False never
      does. Else whatever is faster.
    - `seconds`: after this long the best split so far is taken, and `Split.timed_out` is True. Where none fits yet, the
      search goes on. Without it a number of plans bounds the search, so that every machine finds the same split.

    `Split.fits` is False only where nothing was found that fits. `Split.complete` then says that nothing can:
    `Split.shortage` is the proof, or None where every layout was planned.
    For an IPUConfig: `split.count_layers("bert.encoder.layer")` is `layers_per_ipu`, `split.memory_proportions` is
    `matmul_proportion`, and `split.recompute`, `split.checkpoint_every_layer`, `split.state_off_chip` are its switches.
    """
    chosen = choose_system(system)
    limits = Limits(ipus_per_replica, replicas, samples, head_on_first_ipu)
    if limits.samples is None and job.options is not None and job.options.micro_batches > 1:
        limits = dataclasses.replace(limits, samples=_read_micro_batch(job) * _count_rounds(job.options))
    search = _JobSearch(job, chosen, limits, proportions, seconds)
    if micro_batches is not None:
        for size in micro_batches:
            search.try_size(size)
    else:
        search.climb()
    return search.finish()


@pause_collection()
def split_program(
    program: Program,
    system: System,
    options: RunOptions,
    *,
    limits: Limits | None = None,
    proportions: Sequence[float] = PROPORTIONS,
    seconds: float | None = None,
    most_plans: int | None = None,
) -> Split:
    """The fastest split of a captured program; its micro-batch is what it was captured with."""
    most = _count_affordable(program) if most_plans is None else most_plans
    found = _make_finder(program, system, options, limits or Limits(), proportions, seconds, most).run()
    assert found is not None, "only a bar makes a search end without a split"
    return found


def _make_finder(
    program: Program,
    system: System,
    options: RunOptions,
    limits: Limits,
    proportions: Sequence[float],
    seconds: float | None,
    most_plans: int,
    bar: Bar | None = None,
    known: KnownProgram | None = None,
) -> Finder:
    micro_batch = next((entry.shape[0] for entry in program.micro.inputs_of(InputKind.INPUT) if entry.shape), 1)
    chain = find_chain(program, most_stages=limits.ipus_per_replica or system.ipus)
    schemes = list_schemes(program, system, options, micro_batch, len(chain.segments), limits)
    if not schemes:
        raise OptionError(
            f"{program.name} has no split on {system.name}: {len(chain.segments)} parts and "
            f"{limits.samples or 'the given'} samples in micro-batches of {micro_batch} allow none. Ask for more "
            "samples between updates (gradient accumulation), or for fewer IPUs in a replica."
        )
    return Finder(program, chain, system, options, schemes, proportions, seconds, most_plans, bar, known)


def _count_affordable(program: Program, nodes_before: int = 0) -> int:
    """How many plans of a program are a matter of seconds: by its size and not by the clock, so that every machine
    finds the same split."""
    most_nodes = _MOST_NODES_AGAIN - nodes_before if nodes_before else _MOST_NODES
    return max(_FEWEST_PLANS, min(_MOST_PLANS, most_nodes // _count_nodes(program)))


def _count_nodes(program: Program) -> int:
    graphs = [graph for graph in (program.micro, program.update) if graph is not None]
    return max(1, sum(len(graph.module.graph.nodes) for graph in graphs))


def apply_split(program: Program, split: Split) -> tuple[Program, RunOptions]:
    """A program that was captured alike, placed in the stages of a split, and the split's options."""
    program = copy_program(program)
    chain = find_chain(program, split.most_stages)
    if chain.segments != split.segments:
        raise OptionError(
            f"The split was found for another program than {program.name}: the modules differ. Search again."
        )
    write_layout(program, chain, split.layout)
    return program, split.options


def scale_job(job: PlanningJob, micro_batch: int) -> PlanningJob:
    """The same job with another micro-batch: every tensor's first dimension changes in proportion."""
    own = _read_micro_batch(job)
    if micro_batch == own:
        return job

    def scale(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.dim():
            return leaf
        rows, rest = divmod(leaf.shape[0] * micro_batch, own)
        if rest:
            raise OptionError(
                f"{job.title}: an input of {leaf.shape[0]} rows cannot be made for a micro-batch of {micro_batch}."
            )
        return torch.empty((rows, *leaf.shape[1:]), dtype=leaf.dtype, device="meta")

    args, kwargs = pytree.tree_map(scale, (job.positional, dict(job.kwargs)))
    return dataclasses.replace(job, args=args, kwargs=kwargs)


class _JobSearch:
    """Tries micro-batches of one job and keeps the best split."""

    def __init__(
        self, job: PlanningJob, system: System, limits: Limits, proportions: Sequence[float], seconds: float | None
    ) -> None:
        self.job, self.system, self.limits, self.proportions = job, system, limits, proportions
        self.options = job.options or RunOptions(training=job.training)
        self.started, self.seconds = time.perf_counter(), seconds
        self.best: Split | None = None
        self.program: Program | None = None  # of the last micro-batch
        self.known = KnownProgram()
        self.plans_made = self.nodes_planned = 0
        self.optimism = 0.0
        self.timed_out = False
        self.refused: OptionError | None = None
        self.unproven = False  # with some micro-batch that was tried, something might fit

    def climb(self) -> None:
        """The job's own size, then larger ones while that is faster; else smaller ones until one fits and is best."""
        own = _read_micro_batch(self.job)
        self.try_size(own)
        size = 2 * own
        while self._has_fit() and self.try_size(size):
            size *= 2
        if size > 2 * own:
            return  # a larger one was better: a smaller one is not
        size = own // 2
        while size >= 1 and not self._is_hopeless() and (self.try_size(size) or not self._has_fit()):
            size //= 2

    def try_size(self, micro_batch: int) -> bool:
        """Search with one micro-batch; says whether that was the best so far."""
        left = None if self.seconds is None else self.seconds - (time.perf_counter() - self.started)
        if left is not None and left <= 0 and self._has_fit():
            self.timed_out = True
            return False
        try:
            program = self.program = capture_job(scale_job(self.job, micro_batch), self.program)
            most = _count_affordable(program, self.nodes_planned)
            bar = self._set_bar()
            finder = _make_finder(
                program, self.system, self.options, self.limits, self.proportions, left, most, bar, self.known
            )
            found = finder.run()
        except OptionError as error:  # this size does not divide the samples, or leaves no stage anything to do
            self.refused = self.refused or error
            return False
        self.plans_made += finder.plans_made
        self.nodes_planned += finder.plans_made * _count_nodes(program)
        self.optimism = max(self.optimism, finder.fastest_ratio)
        if found is None:
            return False
        self.unproven |= not found.complete
        self.timed_out |= found.timed_out
        if self.best is not None and _rank(found) <= _rank(self.best):
            return False
        self.best = found
        return True

    def _set_bar(self) -> Bar | None:
        """What the best so far comes to: of another micro-batch only what beats it is of interest."""
        if self.best is None or not self.best.fits:
            return None
        return Bar(self.best.samples_per_second, self.optimism)

    def _is_hopeless(self) -> bool:
        """Variables alone are too large: no micro-batch helps."""
        shortage = self.best.shortage if self.best is not None else None
        return shortage is not None and shortage.any_micro_batch

    def finish(self) -> Split:
        """The best split, with the effort of all."""
        if self.best is None:
            assert self.refused is not None, "at least one micro-batch is tried"
            raise self.refused
        return dataclasses.replace(
            self.best,
            plans_made=self.plans_made,
            seconds=time.perf_counter() - self.started,
            timed_out=self.timed_out,
            complete=self.best.complete and not self.unproven,
            shortage=None if self.unproven else self.best.shortage,
        )

    def _has_fit(self) -> bool:
        return self.best is not None and self.best.fits


def _rank(split: Split) -> tuple[bool, float]:
    return split.fits, split.samples_per_second if split.fits else -float(split.plan.fit.peak_bytes)


def _read_micro_batch(job: PlanningJob) -> int:
    leaves, _ = pytree.tree_flatten((job.positional, dict(job.kwargs)))
    sizes = [int(leaf.shape[0]) for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    return sizes[0] if sizes else 1


def _count_rounds(options: RunOptions) -> int:
    rounds = options.gradient_accumulation if options.training else options.device_iterations
    return rounds * options.replicas
