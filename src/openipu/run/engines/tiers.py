"""Which engine runs a program, and when it is exchanged.

In: a program on its lanes, options, the program's key in the cache. Out: the engine to use for each run. The instant
tier answers first. `auto` compiles in the background once a run has gone on for so long that this should pay, tries the
compiled engine when it is there, and keeps the quicker one; the verdict is kept for the next process.
"""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Callable
from functools import partial

import torch
from torch import fx

from openipu.errors import InputError
from openipu.graph import EngineMode, Program, RunOptions, describe_options
from openipu.run.drafts.draft import Draft
from openipu.run.engines.compile_choice import (
    NEVER,
    choose_dropout_patience,
    choose_kernel_patience,
    choose_least_patience,
    choose_patience,
    estimate_kernel_seconds,
    estimate_seconds,
)
from openipu.run.engines.engine import CompiledEngine, Engine, InstantEngine, draft_units
from openipu.run.engines.fold_choice import apply_fold, choose_fold
from openipu.run.engines.micro import draft_micro, weigh_micro_batch
from openipu.run.engines.pass_list import FOLDED, Setting, apply_passes
from openipu.run.half.rounded_products import has_chunks, has_half_products
from openipu.run.images.joined_norms import find_norms
from openipu.run.images.layout import find_tiled
from openipu.run.images.norms import has_norms
from openipu.run.images.tiled_convolutions import has_tiles
from openipu.run.memory.host_memory import release_pages
from openipu.run.memory.lanes import Lanes
from openipu.run.native import (
    NativeBuild,
    NativeJob,
    NativeProgram,
    NotCompiledError,
    find_native,
    load_kernels,
    make_native_key,
    prepare_kernels,
    take_over_kernels,
    write_kernel_job,
)
from openipu.run.passes.native_dropout import draws_masks, has_dropout
from openipu.run.passes.native_kernels import NativeKernels, NativeParts, list_native_parts
from openipu.run.passes.native_products import find_products, has_products
from openipu.run.update.rounded_rules import plan_rounded_update, rounds_update
from openipu.run.update.rules import plan_update
from openipu.trace import COMPILE, mark_moment, span

_TRIED_RUNS = 8  # of each engine, for the comparison: so many at least
_TRIED_SECONDS = 0.25  # and for so long, because a few short runs say little
_MOST_TRIED_RUNS = 256
_CLOSE_SPEED = 1.2  # engines that differ by less are compared twice
_JUDGED_SPEED = 1.0  # the compiled engine stays if its best time is at most so much of the instant one's
_VERDICT = "slower than instant"

# Options that no compiled graph depends on: which results come back, what is planned, and how a run begins.
_NOT_IN_CODE = frozenset(
    {
        *("engine", "random_seed", "deterministic"),
        *("output_mode", "output_period", "output_choices"),
        *("available_memory_proportion", "memory_proportions", "io_tiles", "overlapped_io"),
        *("strategy", "recompute", "locations"),
    }
)

_logger = logging.getLogger("openipu")


class Tiers:
    """The engines of one executable."""

    def __init__(self, program: Program, lanes: Lanes, options: RunOptions, identity: str | None) -> None:
        self._program = program
        self._lanes = lanes
        self._options = options
        self._key = None if identity is None else make_program_key(identity, options)
        # What looks inside the program needs its single operators; lanes have memories of their own; and when native
        # code is there depends on how busy the machine is.
        single = bool(options.taps) or options.floating_point_exceptions or len(lanes.lanes) > 1
        single |= options.deterministic
        self._wanted = EngineMode.OPERATORS if single else options.engine
        self._fold: int | None = None
        self._native: NativeProgram | None = None
        self._build: NativeBuild | None = None
        self._patience = choose_least_patience() if self._wanted is EngineMode.AUTO else NEVER
        self._weighed = False  # the program's size, which takes a look at all of its nodes
        choose = choose_kernel_patience if options.stochastic_rounding else choose_dropout_patience
        self._kernels_patience = choose() if self._wanted is EngineMode.AUTO else NEVER
        # Whether each kind of native code is there that this program could use.
        self._usable: tuple[Callable[[], bool], ...] = ()
        self._wants_kernels = options.stochastic_rounding  # could use any, or rounds by chance,
        self._lacks_kernels = False  # and an instant engine from before there was any
        self._parts = NativeParts()  # what is compiled instead of the program
        self._spent_seconds = 0.0
        self._times: deque[float] = deque(maxlen=_MOST_TRIED_RUNS)
        self._instant_seconds: float | None = None  # per run, before the compiler took part of the machine
        self._compiled_seconds: float | None = None  # once the instant engine runs again
        self.engine: Engine | None = None

    @property
    def mode(self) -> EngineMode:
        """The tier that runs the program now, or will."""
        if self.engine is not None:
            return self.engine.mode
        return EngineMode.OPERATORS if self._wanted is EngineMode.AUTO else self._wanted

    def start(self) -> Engine:
        """The first engine: compiled if that is asked for, or there from before; else instant."""
        if self.engine is None:
            if self._wanted is not EngineMode.OPERATORS:
                self._look_for_parts()
            if self._wanted is EngineMode.OPERATORS or not self._start_compiled():
                self.engine = self._build_instant()
            release_pages()
        assert self.engine is not None
        return self.engine

    def rebuild(self) -> None:
        """After state was loaded: bind the functions anew."""
        if self.engine is None:
            return
        if self.engine.mode is EngineMode.OPERATORS or self._native is None or not self._bind_again(self._native):
            self.engine = self._build_instant()

    def note_run(self, seconds: float) -> None:
        """After each run: start the compiler, take over what it made, or take it back."""
        self._spent_seconds += seconds
        if self._wants_kernels:
            self._follow_kernels()
        if self._wanted is not EngineMode.AUTO or self._patience == NEVER:
            return
        self._times.append(seconds)
        if self._native is not None:
            self._judge()
        elif self._build is not None:
            if self._build.done:
                self._take_over(self._build)
        elif self._spent_seconds > self._patience and self._has_tried() and self._should_pay():
            self._instant_seconds = min(self._times)
            self._compile_in_background()
            release_pages()

    def _should_pay(self) -> bool:
        """Whether the steps so far have been long enough for a program of this size."""
        if not self._weighed:
            self._weighed = True
            if not self._parts:
                self._patience = choose_patience(self._program)
        return self._spent_seconds > self._patience

    def _follow_kernels(self) -> None:
        """Have the functions that programs share compiled once that pays, and use them."""
        instant = self.mode is EngineMode.OPERATORS
        if instant and self._spent_seconds > self._kernels_patience:
            self._kernels_patience = NEVER
            prepare_kernels(build=True)
        take_over_kernels()
        if instant and self._lacks_kernels and not self._misses_kernels():
            self.engine = self._build_instant()

    def _misses_kernels(self) -> bool:
        """Whether this program could use functions that are not there yet."""
        return not all(is_there() for is_there in self._usable)

    def _list_usable(self, graph: fx.Graph) -> tuple[Callable[[], bool], ...]:
        """Of dropouts, large gradients of weights, 3 x 3 filters, norms of images and products with half partials."""
        options = self._options
        if options.floating_point_exceptions:
            return ()
        found = {has_dropout: draws_masks(graph)}
        if not options.deterministic:
            found[has_products] = bool(find_products(graph))
            found[has_tiles] = find_tiled(graph)
            found[has_norms] = options.training and find_norms(graph)
            found[has_half_products] = options.half_partials and has_chunks(graph)
        return tuple(is_there for is_there, used in found.items() if used)

    def _look_for_parts(self) -> None:
        """Whether native code for single operators is worth more than that for the program: packed weights are outside
        of it, and so are recurrent layers."""
        if self._options.training or self._options.replicas > 1:
            return
        self._parts = list_native_parts(self._draft(self._choose_fold()))
        if self._parts:
            self._key = write_kernel_job(self._parts).key
            self._patience = min(self._patience, choose_kernel_patience() if self._wanted is EngineMode.AUTO else NEVER)

    def _start_compiled(self) -> bool:
        native = find_native(self._key) if self._key is not None else None
        if native is None and self._wanted is EngineMode.AUTO:
            return False
        if native is not None and self._wanted is EngineMode.AUTO:
            self._patience = NEVER  # judged before
            if native.entry.description.get(_VERDICT):
                return False
        try:
            if native is None:
                job = self._write_job()
                with span(COMPILE, "native code"):
                    native = find_native(job.key) or NativeBuild(job, background=False).finish()
            self._bind_native(native)
        except Exception as error:  # whatever Inductor raises, the instant tier gives the same results
            _warn_not_compiled(self._program.name, error)
            self._wanted = EngineMode.OPERATORS
            return False
        _logger.info("%s starts in the compiled tier.", self._program.name)
        return True

    def _bind_native(self, native: NativeProgram) -> None:
        if self._parts:
            self.engine, self._native = self._build_instant(load_kernels(native, self._parts)), native
            return
        with torch.no_grad():
            self.engine = CompiledEngine(native.functions, self._lanes.first.memory, native.fold)
        self._native = native
        for lane in self._lanes.lanes:  # what the instant engine needed is free
            lane.updater = lane.function = None

    def _bind_again(self, native: NativeProgram) -> bool:
        """Let native code run on state that may have been loaded since; says whether it can."""
        try:
            self._bind_native(native)
        except InputError as error:  # parameters with step counts of their own
            _logger.warning("%s goes on in the instant tier. %s", self._program.name, error)
            self._native, self._patience = None, NEVER
            return False
        return True

    def _write_job(self) -> NativeJob:
        if self._parts:
            return write_kernel_job(self._parts)
        fold = self._choose_fold()
        calls = self._options.gradient_accumulation * self._options.replicas // fold
        if self._options.training and self._options.instances > 1:
            calls = max(calls, 2)  # gradients leave the graph before the update
        micro = self._draft(fold)
        units = draft_units(self._program, self._options, micro, weigh_micro_batch(self._options), max(calls, 1))
        return NativeJob.write(units, self._program.name, fold, self._key)

    def _compile_in_background(self) -> None:
        try:
            job = self._write_job()
            self._build = NativeBuild(job, background=True)
            _logger.info(
                "%s is being compiled in the background, at %s: its steps have taken %.0f s, %s each, and compiling "
                "needs some %.0f s of a free core.",
                self._program.name,
                self._build.process.priority,
                self._spent_seconds,
                _format_step(self._instant_seconds),
                estimate_kernel_seconds() if self._parts else estimate_seconds(self._program),
            )
            mark_moment(COMPILE, "native code: begun in another process")
        except (NotCompiledError, OSError) as error:
            _logger.info("%s stays in the instant tier, and is not compiled: %s", self._program.name, error)
            self._patience = NEVER

    def _take_over(self, build: NativeBuild) -> None:
        self._build = None
        try:
            self._bind_native(build.finish())
        except Exception as error:
            _logger.info(
                "%s stays in the instant tier: compiling it ended after %.0f s without a result (%s).",
                self._program.name,
                build.seconds,
                error,
            )
            self._patience = NEVER
            return
        _logger.info(
            "%s has been compiled, in %.0f s, and is tried in the compiled tier.", self._program.name, build.seconds
        )
        mark_moment(COMPILE, "native code: taken over")
        self._times.clear()

    def _has_tried(self) -> bool:
        """Whether the runs so far are enough to tell how quick an engine is."""
        count = len(self._times)
        return count >= _TRIED_RUNS and (count == _MOST_TRIED_RUNS or sum(self._times) >= _TRIED_SECONDS)

    def _judge(self) -> None:
        """Compare the engines, each by its best run: other programs of this machine only ever add to a time. Where they
        are close, the instant one runs again: the machine may have been slower, or quicker, before."""
        if not self._has_tried():
            return
        best = min(self._times)
        assert self._instant_seconds is not None
        if self._compiled_seconds is not None:
            self._decide(best, self._compiled_seconds)
        elif 1 / _CLOSE_SPEED < self._instant_seconds / best < _CLOSE_SPEED:
            self._compiled_seconds = best
            self._times.clear()
            _logger.info("%s runs in the instant tier for another comparison: the tiers are close.", self._program.name)
            self.engine = self._build_instant()
        else:
            self._decide(self._instant_seconds, best)

    def _decide(self, instant: float, compiled: float) -> None:
        self._patience = NEVER
        assert self._native is not None
        if compiled <= instant * _JUDGED_SPEED:
            if self.mode is EngineMode.OPERATORS and not self._bind_again(self._native):
                return
            _logger.info(
                "%s changes to the compiled tier: a step takes %s instead of %s (%.2fx).",
                self._program.name,
                _format_step(compiled),
                _format_step(instant),
                instant / compiled,
            )
            return
        _logger.info(
            "%s stays in the instant tier, which is quicker: a step takes %s, and %s compiled.",
            self._program.name,
            _format_step(instant),
            _format_step(compiled),
        )
        self._native.describe({_VERDICT: True})
        self._native = None
        if self.mode is EngineMode.KERNELS:
            self.engine = self._build_instant()
        release_pages()  # of what the compiled tier used

    def _build_instant(self, kernels: NativeKernels | None = None) -> InstantEngine:
        plan = None
        if rounds_update(self._program, self._options):
            plan = plan_rounded_update(self._program, self._options)
        elif self._program.update is not None:
            plan = plan_update(self._program)
        fold = self._choose_fold()
        if self._wants_kernels:
            prepare_kernels(build=False)
        self._lacks_kernels = self._misses_kernels()
        mode = EngineMode.KERNELS if kernels else EngineMode.OPERATORS
        make_draft = partial(self._draft, fold, kernels)
        return InstantEngine(self._program, self._lanes, self._options, plan, make_draft, fold, mode)

    def _choose_fold(self) -> int:
        if self._fold is None:
            draft = draft_micro(self._program, self._options)
            self._usable = self._list_usable(draft.graph)
            self._wants_kernels = self._wants_kernels or bool(self._usable)
            wished = choose_fold(self._program, draft, self._options)
            self._fold = wished if apply_fold(draft, wished) is not None else 1
        return self._fold

    def _draft(self, fold: int, kernels: NativeKernels | None = None) -> Draft:
        draft = draft_micro(self._program, self._options)
        folded = apply_fold(draft, fold)
        assert folded is not None
        memory = self._lanes.first.memory
        setting = Setting(self._program, self._options, memory=memory, kernels=kernels or NativeKernels())
        apply_passes(FOLDED, folded, setting)
        return folded


def make_program_key(identity: str, options: RunOptions) -> str:
    """The key of native code for a program with these options: all that are not known to leave the code as it is."""
    without = _NOT_IN_CODE | ({"device_iterations"} if options.training else set())
    return make_native_key({"program": identity, "options": describe_options(options, without=without)})


def _format_step(seconds: float | None) -> str:
    return "some time" if seconds is None else f"{1e3 * seconds:,.2f} ms"


def _warn_not_compiled(name: str, error: Exception) -> None:
    reason = (str(error).strip().splitlines() or ["no message"])[0]
    warnings.warn(
        f"{name} could not be compiled and runs in the instant tier instead ({reason}). "
        "Results are the same; only the speed differs. Check that a C++ compiler is installed, or choose the "
        "instant tier.",
        UserWarning,
        stacklevel=6,
    )
