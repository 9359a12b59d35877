"""The engine of an executable, which is built again when C++ kernels arrive.

In: a program on its lanes, and options. Out: the engine for each run. It starts with PyTorch's operators and what the
cache has; the engine `auto` then compiles kernels in the background, `kernels` before the first run.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from torch import fx

from openipu.graph import EngineMode, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.engines.engine import Engine, FastEngine
from openipu.run.engines.fold_choice import apply_fold, choose_fold
from openipu.run.engines.lanes import Lanes
from openipu.run.engines.micro import draft_micro
from openipu.run.engines.pass_list import FOLD_MICRO_BATCHES, FOLDED, GROUP_UPDATES, Setting, apply_passes
from openipu.run.engines.patience import NEVER, choose_patience
from openipu.run.half.rounded_products import has_chunks, has_half_products
from openipu.run.images.joined_norms import find_norms
from openipu.run.images.layout import find_tiled
from openipu.run.images.norms import has_norms
from openipu.run.images.tiled_convolutions import has_tiles
from openipu.run.memory.host_memory import release_pages
from openipu.run.native import (
    NativeBuild,
    NativeProgram,
    find_native,
    load_kernels,
    prepare_kernels,
    take_over_kernels,
    write_kernel_job,
)
from openipu.run.passes.native_dropout import draws_masks, has_dropout
from openipu.run.passes.native_kernels import NativeKernels, NativeParts, list_native_parts
from openipu.run.passes.native_products import find_products, has_products
from openipu.run.reference import ReferenceEngine
from openipu.run.update.rounded_rules import plan_captured_update, plan_rounded_update, rounds_update
from openipu.run.update.rules import plan_update
from openipu.trace import COMPILE, mark_moment, span

_logger = logging.getLogger("openipu")


class KernelState(Enum):
    """How far the kernels of one program are."""

    NONE = auto()  # it uses none
    WANTED = auto()
    COMPILING = auto()
    READY = auto()
    FAILED = auto()


class EngineSupervisor:
    """Builds the engine of one executable, and builds it again when kernels arrive."""

    def __init__(self, program: Program, lanes: Lanes, options: RunOptions) -> None:
        self._program = program
        self._lanes = lanes
        self._options = options
        # Taps and checks look at single operators, lanes have memories of their own, and when kernels are compiled
        # depends on how busy the machine is.
        plain = bool(options.taps) or options.floating_point_exceptions or len(lanes.lanes) > 1 or options.deterministic
        self._refers = options.engine is EngineMode.REFERENCE
        plain |= self._refers
        self._wanted = EngineMode.OPERATORS if plain else options.engine
        background = self._wanted is EngineMode.AUTO
        self._fold: int | None = None
        # Kernels of this program.
        self._state = KernelState.NONE
        self._parts = NativeParts()
        self._patience = choose_patience(large_gain=True) if background else NEVER
        self._build: NativeBuild | None = None
        self._native: NativeProgram | None = None  # not evicted from the cache while it is held
        self._kernels = NativeKernels()
        # Kernels that all programs share: whether each kind that this program could use is available.
        self._usable: tuple[Callable[[], bool], ...] = ()
        self._follows_shared = options.stochastic_rounding
        self._lacks_shared = False  # the engine was built without some
        self._shared_patience = choose_patience(large_gain=options.stochastic_rounding) if background else NEVER
        self._spent_seconds = 0.0
        self.engine: Engine | None = None

    @property
    def waits(self) -> bool:
        """Whether `start` may wait for a compiler."""
        return self._wanted is EngineMode.KERNELS

    @property
    def mode(self) -> EngineMode:
        """`KERNELS` once all kernels that the program uses are in place; until then `OPERATORS`."""
        if self._refers:
            return EngineMode.REFERENCE
        used = self._state is KernelState.READY or (bool(self._usable) and not self._lacks_shared)
        return EngineMode.KERNELS if self.engine is not None and used else EngineMode.OPERATORS

    def start(self) -> Engine:
        """The engine, which the first call builds."""
        if self.engine is None and self._refers:
            self.use_reference()
        if self.engine is None:
            self._look_for_kernels()
            self.engine = self._build_engine()
            release_pages()
        return self.engine

    def rebuild(self) -> None:
        """After state was loaded: bind the functions anew."""
        if self.engine is not None and not self._refers:
            self.engine = self._build_engine()

    def use_reference(self) -> None:
        """Run operator by operator from now on."""
        self._refers = True
        for lane in self._lanes.lanes:
            lane.updater = lane.function = None
        self.engine = ReferenceEngine(self._program, self._lanes, self._options)

    def adopt_kernels(self, other: EngineSupervisor) -> None:
        """Before the first run: use the kernels that another engine of this program uses, and no others."""
        self._kernels, self._native, self._parts = other._kernels, other._native, other._parts

    def note_run(self, seconds: float) -> None:
        """After each run: have kernels compiled once that is worth it, and use them once they are available."""
        if self._refers:
            return
        self._spent_seconds += seconds
        if self._follows_shared:
            self._follow_shared()
        if self._state is KernelState.WANTED and self._spent_seconds > self._patience:
            self._compile_in_background()
        elif self._build is not None and self._build.done:
            self._take_over(self._build)

    def _look_for_kernels(self) -> None:
        """Load the program's own kernels from the cache; compile them first if they are to be waited for."""
        if self._wanted is EngineMode.OPERATORS or self._options.training or self._options.replicas > 1:
            return
        self._parts = list_native_parts(self._draft(self._choose_fold(), NativeKernels()))
        if not self._parts:
            return
        self._state = KernelState.WANTED
        job = write_kernel_job(self._parts)
        try:
            native = find_native(job.key)
            if native is None and self.waits:
                with span(COMPILE, "C++ kernels"):
                    native = NativeBuild(job, background=False).finish()
            if native is not None:
                self._use(native)
        except Exception as error:  # whatever a compiler or a loader raises, operators give the same results
            self._state = KernelState.FAILED
            _warn_not_compiled(self._program.name, error)

    def _use(self, native: NativeProgram) -> None:
        self._kernels, self._native = load_kernels(native, self._parts), native
        self._state = KernelState.READY

    def _compile_in_background(self) -> None:
        try:
            self._build = NativeBuild(write_kernel_job(self._parts), background=True)
        except Exception as error:
            self._give_up(error)
            return
        self._state = KernelState.COMPILING
        _logger.info(
            "C++ kernels for %s are being compiled in the background, at %s.",
            self._program.name,
            self._build.process.priority,
        )
        mark_moment(COMPILE, "C++ kernels: begun in another process")
        release_pages()

    def _take_over(self, build: NativeBuild) -> None:
        self._build = None
        try:
            self._use(build.finish())
        except Exception as error:
            self._give_up(error)
            return
        self.engine = self._build_engine()
        _logger.info("%s uses C++ kernels from here on, compiled in %.0f s.", self._program.name, build.seconds)
        mark_moment(COMPILE, "C++ kernels: taken over")

    def _give_up(self, error: Exception) -> None:
        self._state = KernelState.FAILED
        _logger.info("%s goes on without C++ kernels: %s", self._program.name, error)

    def _follow_shared(self) -> None:
        """Have the kernels that programs share compiled once that is worth it, and use them."""
        if self._spent_seconds > self._shared_patience:
            self._shared_patience = NEVER
            prepare_kernels(build=True)
        take_over_kernels()
        if self._lacks_shared and not self._misses_shared():
            self.engine = self._build_engine()

    def _misses_shared(self) -> bool:
        return not all(is_available() for is_available in self._usable)

    def _list_usable(self, graph: fx.Graph) -> tuple[Callable[[], bool], ...]:
        """For dropouts, large gradients of weights, 3 x 3 filters, norms of images and products with half partials."""
        options = self._options
        if options.floating_point_exceptions:
            return ()
        found = {has_dropout: draws_masks(graph)}
        if not options.deterministic:
            found[has_products] = bool(find_products(graph))
            found[has_tiles] = find_tiled(graph)
            found[has_norms] = options.training and find_norms(graph)
            found[has_half_products] = options.half_partials and has_chunks(graph)
        return tuple(is_available for is_available, used in found.items() if used)

    def _build_engine(self) -> Engine:
        plan = None
        if self._program.update is not None and GROUP_UPDATES in self._options.without_rules:
            plan = plan_captured_update(self._program, self._options)
        elif rounds_update(self._program, self._options):
            plan = plan_rounded_update(self._program, self._options)
        elif self._program.update is not None:
            plan = plan_update(self._program)
        fold = self._choose_fold()
        if self._follows_shared:
            prepare_kernels(build=self.waits)
            take_over_kernels(wait=self.waits)
        self._lacks_shared = self._misses_shared()
        make_draft = partial(self._draft, fold, self._kernels)
        return FastEngine(self._program, self._lanes, self._options, plan, make_draft, fold)

    def _choose_fold(self) -> int:
        if self._fold is None:
            draft = draft_micro(self._program, self._options)
            self._usable = self._list_usable(draft.graph)
            self._follows_shared = self._follows_shared or bool(self._usable)
            folds = FOLD_MICRO_BATCHES not in self._options.without_rules
            wished = choose_fold(self._program, draft, self._options) if folds else 1
            self._fold = wished if apply_fold(draft, wished) is not None else 1
        return self._fold

    def _draft(self, fold: int, kernels: NativeKernels) -> Draft:
        draft = draft_micro(self._program, self._options)
        folded = apply_fold(draft, fold)
        assert folded is not None
        setting = Setting(self._program, self._options, memory=self._lanes.first.memory, kernels=kernels)
        apply_passes(FOLDED, folded, setting)
        return folded


def _warn_not_compiled(name: str, error: Exception) -> None:
    reason = (str(error).strip().splitlines() or ["no message"])[0]
    warnings.warn(
        f"The C++ kernels of {name} could not be compiled; it runs with PyTorch's operators instead ({reason}). "
        "Results are the same; only the speed differs. Check that a C++ compiler is installed, or choose the "
        "engine `operators`.",
        UserWarning,
        stacklevel=6,
    )
