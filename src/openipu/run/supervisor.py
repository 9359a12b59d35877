"""The engine of an executable, which is built again when C++ kernels arrive.

In: a program on its sets of replicas, options, and who provides kernels. Out: the engine for each run. It
starts with PyTorch's operators and the kernels that are in the cache; the engine `auto` has the others compiled in the
background, `kernels` before the first run.
"""

from __future__ import annotations

import logging
from functools import partial

from openipu.graph import EngineMode, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.passes import apply_passes
from openipu.run.engine.batching_choice import apply_batching, choose_batching
from openipu.run.engine.engine import Engine, FastEngine
from openipu.run.engine.kernel_choice import list_inference_kernels, list_kernels
from openipu.run.engine.micro import draft_micro
from openipu.run.engine.pass_list import BATCH_MICRO_BATCHES, BATCHED, GROUP_UPDATES
from openipu.run.engine.patience import NEVER, choose_patience
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.engine.setting import Setting
from openipu.run.kernels import Kernel, KernelLibrary, KernelProvider
from openipu.run.memory.host_memory import release_pages
from openipu.run.reference import ReferenceEngine
from openipu.run.update.rounded_rules import plan_captured_update, plan_rounded_update, rounds_update
from openipu.run.update.rules import plan_update
from openipu.trace import COMPILE, mark_moment, span

_logger = logging.getLogger("openipu")


class EngineSupervisor:
    """Builds the engine of one executable, and builds it again when kernels arrive."""

    def __init__(self, program: Program, sets: ReplicaSets, options: RunOptions, provider: KernelProvider) -> None:
        self._program = program
        self._sets = sets
        self._options = options
        self._provider = provider
        # Taps and checks look at single operators, sets of replicas have memories of their own, and when kernels are
        # compiled depends on how busy the machine is.
        plain = bool(options.taps) or options.floating_point_exceptions or len(sets.sets) > 1 or options.deterministic
        self._refers = options.engine is EngineMode.REFERENCE
        plain |= self._refers
        self._mode = EngineMode.OPERATORS if plain else options.engine
        self._factor: int | None = None
        self._kernels: tuple[Kernel, ...] = ()  # that this program could use
        self._library = KernelLibrary()  # those of them that the engine was built with
        self._adopted: KernelLibrary | None = None  # of another engine of this program, and no others
        self._patience = NEVER  # seconds of steps before they are compiled
        self._spent_seconds = 0.0
        self._waits_for_kernels = False  # the engine was built without some that may arrive
        self.engine: Engine | None = None

    @property
    def waits(self) -> bool:
        """Whether `start` may wait for a compiler."""
        return self._mode is EngineMode.KERNELS

    @property
    def mode(self) -> EngineMode:
        """`KERNELS` once all kernels that the program could use are in place; until then `OPERATORS`."""
        if self._refers:
            return EngineMode.REFERENCE
        used = bool(self._kernels) and len(self._library) == len(self._kernels)
        return EngineMode.KERNELS if self.engine is not None and used else EngineMode.OPERATORS

    def start(self) -> Engine:
        """The engine, which the first call builds."""
        if self.engine is None and self._refers:
            self.use_reference()
        if self.engine is None:
            self._find_kernels()
            self.engine = self._build_engine()
            release_pages()
        return self.engine

    def rebuild(self) -> None:
        """After state was loaded: bind the functions anew."""
        if self.engine is not None and not self._refers:
            self.engine = self._build_engine()

    def use_reference(self) -> None:
        """Run operator by operator from now on."""
        self._refers, self._waits_for_kernels = True, False
        for replica_set in self._sets.sets:
            replica_set.updater = replica_set.function = None
        self.engine = ReferenceEngine(self._program, self._sets, self._options)

    def adopt_kernels(self, other: EngineSupervisor) -> None:
        """Before the first run: use the kernels that another engine of this program uses, and no others."""
        self._adopted = other._library

    def note_run(self, seconds: float) -> None:
        """After each run: have kernels compiled once that is worth it, and use them once all of them are there."""
        if not self._waits_for_kernels:
            return
        self._spent_seconds += seconds
        if self._spent_seconds > self._patience:
            self._patience = NEVER
            self._provider.request(self._kernels)
            mark_moment(COMPILE, "C++ kernels: begun in another process")
        library = self._provider.poll()
        if self._list_unfinished(library):
            return
        self._waits_for_kernels = False  # each has arrived, or has failed
        if any(kernel in library and kernel not in self._library for kernel in self._kernels):
            self.engine = self._build_engine()
            release_pages()
            _logger.info("%s uses C++ kernels from here on.", self._program.name)
            mark_moment(COMPILE, "C++ kernels: taken over")

    def _list_unfinished(self, library: KernelLibrary) -> list[Kernel]:
        """Kernels that may still arrive."""
        missing = [kernel for kernel in self._kernels if kernel not in library]
        return [kernel for kernel in missing if self._provider.explain_failure(kernel) is None]

    def _find_kernels(self) -> None:
        """Which kernels this program could use; compile them if they are to be waited for."""
        if self._adopted is not None:
            return
        factor = self._choose_batching()
        inference: tuple[Kernel, ...] = ()
        if self._mode is not EngineMode.OPERATORS and not self._options.training and self._options.replicas == 1:
            inference = list_inference_kernels(self._draft(factor, KernelLibrary()))
        self._kernels = tuple(dict.fromkeys((*inference, *self._kernels)))
        if self.waits and self._kernels:
            with span(COMPILE, "C++ kernels"):
                self._provider.obtain(self._kernels)
        elif self._mode is EngineMode.AUTO and self._kernels:
            self._patience = choose_patience(large_gain=bool(inference) or self._options.stochastic_rounding)

    def _build_engine(self) -> Engine:
        plan = None
        if self._program.update is not None and GROUP_UPDATES in self._options.without_rules:
            plan = plan_captured_update(self._program, self._options)
        elif rounds_update(self._program, self._options):
            plan = plan_rounded_update(self._program, self._options)
        elif self._program.update is not None:
            plan = plan_update(self._program)
        factor = self._choose_batching()
        if self._adopted is not None:
            self._library, self._kernels = self._adopted, tuple(self._adopted)
        else:
            self._library = self._provider.load(self._kernels).select(self._kernels)
        self._waits_for_kernels = bool(self._list_unfinished(self._library))
        make_draft = partial(self._draft, factor, self._library)
        return FastEngine(self._program, self._sets, self._options, plan, make_draft, factor, self._library)

    def _choose_batching(self) -> int:
        if self._factor is None:
            draft = draft_micro(self._program, self._options)
            self._kernels = list_kernels(draft.graph, self._options)
            folds = BATCH_MICRO_BATCHES not in self._options.without_rules
            wished = choose_batching(self._program, draft, self._options) if folds else 1
            self._factor = wished if apply_batching(draft, wished) is not None else 1
        return self._factor

    def _draft(self, factor: int, library: KernelLibrary) -> Draft:
        draft = draft_micro(self._program, self._options)
        batched = apply_batching(draft, factor)
        assert batched is not None
        setting = Setting(self._program, self._options, memory=self._sets.first.memory, library=library)
        apply_passes(BATCHED, batched, setting, self._options.without_rules)
        return batched
