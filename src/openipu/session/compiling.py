"""The one door for front ends: compile, plan, keep what was compiled.

In: a user's model with example inputs, `RunOptions`, an optimizer's structure, a system.
Out: a `Compiled`: the captured `Program`, its `Plan`, and an `Executable` that runs it on this host.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from openipu.activity import Compilation, is_watched
from openipu.capture import capture_program
from openipu.errors import OptionError
from openipu.graph import ENGINE_ALIASES, EngineMode, OptimizerSpec, Program, RunOptions
from openipu.history import history
from openipu.machine import System, resolve_system
from openipu.overrides import VERIFY_VARIABLE, read_overrides, read_verified_calls
from openipu.plan import Plan, plan_program
from openipu.plan.deferred import replace_options
from openipu.run import Executable, split_micro_batch, verify_calls
from openipu.session.cache import check_inputs, key_program, plan_once
from openipu.session.compile_log import log_compilation
from openipu.store import Store, choose_directory, open_store
from openipu.trace import CAPTURE, COMPILE, PLAN, span
from openipu.tracking import describe_plan

if TYPE_CHECKING:
    from openipu.report import AdviceRecord

Progress = Callable[[int], None]  # percent done

ENGINE_VARIABLE = "OPENIPU_ENGINE"
FORMER_VARIABLE = "OPENIPU_TIER"  # of earlier versions
DETERMINISTIC_VARIABLE = "OPENIPU_DETERMINISTIC"
QUICK_SECONDS = 0.25  # plans that take less stay out of the user's own cache

_logger = logging.getLogger("openipu")
_naming = threading.Lock()
_named: dict[Path, int] = {}  # directories of profiles -> the thread that writes there, or wrote


@dataclass(frozen=True, slots=True)
class Advised:
    """What a front end says about a program that does not fit."""

    text: str  # for the warning
    record: AdviceRecord | None = None  # for the report, where levers were planned


@dataclass(frozen=True, eq=False, kw_only=True)
class FrontEnd:
    """What a front end adds to a compilation: three steps in this order, before planning, and its own words after."""

    place: Callable[[Program, RunOptions], tuple[Program, RunOptions]] | None = None  # a new program, and its options
    check: Callable[[Program, RunOptions], None] | None = None  # refuse what the front end's IPU could not run
    reserve: Callable[[Program], None] | None = None  # take IPUs for it
    advise: Callable[[Program, Plan], Advised] | None = None  # what to do about a program that does not fit


@dataclass(eq=False)
class Compiled:
    """One program, ready to run."""

    program: Program
    plan: Plan
    executable: Executable
    compilation_seconds: float  # capture, planning, profile and executable
    profile_directory: Path | None = None

    @property
    def name(self) -> str:
        return self.program.name


def plan_model(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    options: RunOptions,
    optimizer: OptimizerSpec | None = None,
    system: System | str | None = None,
    name: str = "",
    progress: Progress | None = None,
    front_end: FrontEnd = FrontEnd(),  # noqa: B008 (frozen)
    program: Program | None = None,
    store: Store | None = None,
) -> tuple[Program, Plan]:
    """Capture and plan, without weights and without running. Inputs are one call's worth, as for `compile_model`.

    A `program` that was read from a file is taken as it is, and nothing is captured. A plan that the `store` has is not
    made again.
    """
    report = progress or (lambda percent: None)
    report(5)
    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    micro = [split_micro_batch(leaf, options) for leaf in flat]
    if program is None:
        micro_args, micro_kwargs = pytree.tree_unflatten(micro, spec)
        with span(CAPTURE, "capture"):
            program = capture_program(
                model,
                micro_args,
                micro_kwargs,
                training=options.training,
                optimizer=optimizer,
                name=name or type(model).__name__,
            )
    else:
        check_inputs(program, micro)
        program = dataclasses.replace(program, name=name or program.name)
    report(45)
    return plan_captured(program, options=options, system=system, progress=report, front_end=front_end, store=store)


def plan_captured(
    program: Program,
    *,
    options: RunOptions,
    system: System | str | None = None,
    progress: Progress | None = None,
    front_end: FrontEnd = FrontEnd(),  # noqa: B008 (frozen)
    store: Store | None = None,
) -> tuple[Program, Plan]:
    """Place, check, reserve and plan a captured program. What comes back is the program as it was placed."""
    report = progress or (lambda percent: None)
    if front_end.place is not None:
        program, options = front_end.place(program, options)
    if front_end.check is not None:
        front_end.check(program, options)
    if front_end.reserve is not None:
        front_end.reserve(program)
    chosen = choose_system(system)

    def show(share: float) -> None:
        report(45 + int(50 * share))

    with span(PLAN, "plan"):
        if store is None:
            return program, plan_program(program, chosen, options, progress=show)
        least = 0.0 if store.directory != choose_directory() else QUICK_SECONDS
        key = key_program(program, chosen, options)
        return program, plan_once(store, key, program, chosen, options, progress=show, least_seconds=least)


def compile_model(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    options: RunOptions,
    optimizer: OptimizerSpec | None = None,
    system: System | str | None = None,
    name: str = "",
    profile_directory: Path | None = None,
    show_progress: bool | Progress = True,  # a bar, or a function that is told the percentage
    front_end: FrontEnd = FrontEnd(),  # noqa: B008 (frozen)
    cache_directory: Path | None = None,
    program: Program | None = None,
) -> Compiled:
    """Capture, plan and make executable. Weights are not copied: the front end loads them."""

    def plan(store: Store, progress: Progress) -> tuple[Program, Plan]:
        return plan_model(
            model,
            args,
            kwargs,
            options=options,
            optimizer=optimizer,
            system=system,
            name=name,
            progress=progress,
            front_end=front_end,
            program=program,
            store=store,
        )

    title = name or type(model).__name__
    return _compile(plan, title, profile_directory, show_progress, cache_directory, front_end)


def compile_program(
    program: Program,
    *,
    options: RunOptions,
    system: System | str | None = None,
    profile_directory: Path | None = None,
    show_progress: bool | Progress = True,  # a bar, or a function that is told the percentage
    front_end: FrontEnd = FrontEnd(),  # noqa: B008 (frozen)
    cache_directory: Path | None = None,
) -> Compiled:
    """As `compile_model`, for a program that was captured already, by whatever front end."""

    def plan(store: Store, progress: Progress) -> tuple[Program, Plan]:
        return plan_captured(
            program, options=options, system=system, progress=progress, front_end=front_end, store=store
        )

    return _compile(plan, program.name, profile_directory, show_progress, cache_directory, front_end)


def _compile(
    make_plan: Callable[[Store, Progress], tuple[Program, Plan]],
    title: str,
    profile_directory: Path | None,
    show_progress: bool | Progress,
    cache_directory: Path | None,
    front_end: FrontEnd,
) -> Compiled:
    started = time.perf_counter()
    store = open_store(cache_directory)
    with _progress_bar(show_progress) as bar, span(COMPILE, f"compile {title}"), Compilation(title) as compilation:

        def progress(percent: int) -> None:
            bar(percent)
            compilation.advance(percent)

        program, plan = make_plan(store, progress)
        plan = replace_options(plan, choose_verification(choose_engine(choose_determinism(plan.options))))
        directory = profile_directory or _choose_directory(program.name)
        if directory is not None:  # before anything can fail for want of this host's memory
            with span(PLAN, "write profile"):
                _write_profile(plan, directory)
        with span(COMPILE, "make executable"):
            executable = Executable(program, plan.options)
            if plan.options.verify:
                verify_calls(executable, plan.options.verify, partial(history.note_verified, plan.name))
        compiled = Compiled(program, plan, executable, time.perf_counter() - started, directory)
        progress(100)
        if is_watched():
            figures = describe_plan(plan, compiled.compilation_seconds, directory)
            compilation.finish(executable.number, figures)
    history.add(plan, directory, reported=read_overrides().profile_root is not None)
    if history.executables is not None:
        history.executables.append(executable)
    log_compilation(program, plan)
    if not plan.fit.fits:
        advised = front_end.advise(program, plan) if front_end.advise is not None else Advised("")
        if directory is not None and advised.record is not None:
            _write_profile(plan, directory, advised.record)
        _logger.warning("%s", describe_misfit(plan, advised.text))
    return compiled


def _write_profile(plan: Plan, directory: Path, advice: AdviceRecord | None = None) -> None:
    from openipu.report import build_profile, write_profile  # most programs are compiled without one

    write_profile(plan if advice is None else build_profile(plan, advice), directory)


def describe_misfit(plan: Plan, advice: str = "") -> str:
    """One paragraph for a program that is too large: how much, where, and what fills the fullest tile."""
    fit = plan.fit
    largest = ", ".join(f"{culprit.name} ({culprit.bytes_on_tile:,} B)" for culprit in fit.culprits[:3])
    return (
        f"{plan.name} would not fit {plan.system.target.name}: {fit.tiles_over:,} tiles are over their "
        f"{fit.limit_bytes:,} bytes, by {fit.bytes_over:,} bytes in all. The fullest, tile {fit.peak_tile} of "
        f"IPU {fit.peak_ipu}, needs "
        f"{fit.peak_bytes:,} bytes, most of them for {largest}. The program still runs on this host. "
        f"{advice or 'Try a smaller micro-batch, half precision, or a lower available-memory proportion.'}"
    )


def _choose_directory(name: str) -> Path | None:
    """Where the command line wants this program's profile. A second program of the same name gets a number."""
    root = read_overrides().profile_root
    if root is None:
        return None
    own = threading.get_ident()
    with _naming:
        taken = {compiled.report_directory for compiled in history.compiled}
        taken |= {directory for directory, thread in _named.items() if thread != own}
        directory, number = root / name, 1
        while directory in taken:
            number += 1
            directory = root / f"{name}-{number}"
        _named[directory] = own
    return directory


def choose_engine(options: RunOptions) -> RunOptions:
    """The engine of the command line, else of the environment, else of the options."""
    wished = read_overrides().engine or os.environ.get(ENGINE_VARIABLE) or os.environ.get(FORMER_VARIABLE)
    if not wished:
        return options
    engine = ENGINE_ALIASES.get(wished, wished)
    if engine not in list(EngineMode):
        raise OptionError(
            f"The engine {wished!r} is unknown. Set {ENGINE_VARIABLE}, or --engine of `openipu run`, to "
            f"{' or '.join(EngineMode)}."
        )
    return dataclasses.replace(options, engine=EngineMode(engine))


def choose_determinism(options: RunOptions) -> RunOptions:
    """The environment's wish for the same bits in every run, else what the options say."""
    wished = os.environ.get(DETERMINISTIC_VARIABLE) or "0"
    if wished not in ("0", "1"):
        raise OptionError(
            f"{DETERMINISTIC_VARIABLE} is {wished!r}: set it to 1 for the same bits in every run, or to 0."
        )
    return dataclasses.replace(options, deterministic=True) if wished == "1" else options


def choose_verification(options: RunOptions) -> RunOptions:
    """How many calls to compare with the reference: as the environment says, else the options."""
    wished = os.environ.get(VERIFY_VARIABLE)
    return dataclasses.replace(options, verify=read_verified_calls(wished)) if wished else options


def choose_system(system: System | str | None) -> System:
    """An explicit choice, else the command line's, else the environment's, else the default."""
    return resolve_system(read_overrides().system if system is None else system)


class _Bar:
    """A tqdm bar that is moved to a percentage."""

    def __init__(self) -> None:
        from tqdm import tqdm

        # A step that comes soon after another is shown as well: tqdm would leave it out, and the bar would seem stuck.
        shown = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}]"
        self._bar = tqdm(total=100, desc="Graph compilation", bar_format=shown, mininterval=0, miniters=1)

    def __enter__(self) -> Progress:
        return self._move

    def __exit__(self, kind: object, *details: object) -> None:
        self._bar.leave = kind is None  # half a bar above an error says nothing
        self._bar.close()

    def _move(self, percent: int) -> None:
        self._bar.update(max(0, percent - self._bar.n))


def _progress_bar(show: bool | Progress) -> AbstractContextManager[Progress]:
    if not isinstance(show, bool):
        return nullcontext(show)
    return _Bar() if show else nullcontext(lambda percent: None)
