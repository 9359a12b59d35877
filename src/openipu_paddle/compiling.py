"""A program of Paddle -> a compiled program of openipu.

In: the program in memory, what is fed and fetched, a strategy, a scope with weights. Out: a compiled program and the
module that it was captured from. Where a size is still open, compilation waits for the first feed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from openipu.errors import OptionError, TranslationError
from openipu.explore import make_advisor
from openipu.graph import EngineMode, OptimizerSpec
from openipu.session import Compiled, FrontEnd, compile_model
from openipu.translate import ForeignGraph, TensorType
from openipu.translate.paddle import (
    OptimizerDescription,
    PaddleModule,
    PaddleProgram,
    build_graph,
    check_places,
    describe_updates,
    find_type,
    name_custom_ops,
    shard_evenly,
    slice_program,
)
from openipu_paddle.custom_ops import read_custom_names
from openipu_paddle.devices import reserve_ipus
from openipu_paddle.run_options import Shape, build_run_options, read_shape
from openipu_paddle.scopes import find_tensor, read_variable
from openipu_paddle.strategy import IpuStrategy

CACHE_VARIABLE = "IPU_CACHE_PATH"
COMPILE_ONLY_VARIABLE = "IPU_COMPILE_ONLY"
_NARROWED = {torch.int64: torch.int64, torch.float64: torch.float32}


def is_compiling_only() -> bool:
    """Are programs compiled, and not run?"""
    return os.environ.get(COMPILE_ONLY_VARIABLE, "").lower() in ("1", "true")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program cut and described, before its sizes are known."""

    program: PaddleProgram
    feeds: Mapping[str, TensorType]
    fetches: tuple[str, ...]
    graph: ForeignGraph
    held: tuple[str, ...]
    loss: str | None
    optimizer: OptimizerDescription | None
    name: str

    @property
    def is_open(self) -> bool:
        """Are there sizes, besides that of the batch, which only a feed can tell?"""
        return any(entry.shape is None or None in entry.shape[1:] for entry in self.feeds.values())


def prepare(
    program: PaddleProgram,
    feeds: Sequence[str],
    fetches: Sequence[str],
    strategy: IpuStrategy,
    name: str,
    optimizer: OptimizerDescription | None = None,
    loss: str | None = None,
) -> Prepared:
    """Cut a program into what an IPU runs. A program without updates of its own has its optimizer and loss given."""
    training = strategy.is_training
    given = [] if loss is None else [loss]
    part = slice_program(program, [*fetches, *given], training=training and loss is None)
    if training and optimizer is None:
        optimizer = describe_updates(part.updates, part.schedules)
    ops = name_custom_ops(part.forward, read_custom_names(strategy))
    store = strategy._ipu_strategy
    replicas = read_shape(store).replicas
    ipus = max(store["num_ipus"] // max(replicas, 1), 1)
    if store["need_avg_shard"] and not store["enable_manual_shard"]:
        ops = shard_evenly(ops, ipus)
    elif not store["enable_manual_shard"]:
        ops = shard_evenly(ops, 1)
    check_places(ops, ipus, program.file)
    types = {feed: _find_feed(program, feed) for feed in feeds}
    built = build_graph(program, ops, types, fetches, name=name, gradients=training)
    return Prepared(program, types, tuple(fetches), built.graph, built.held, loss or part.loss, optimizer, name)


def _find_feed(program: PaddleProgram, name: str) -> TensorType:
    variable = program.main.variables.get(name)
    found = None if variable is None else find_type(variable)
    if found is None:
        known = [entry.name for entry in program.main.variables.values() if not entry.persistable][:8]
        raise TranslationError(
            f"The program has no variable {name!r} that could be fed. Its variables begin with: {', '.join(known)}."
        )
    return found


def compile_prepared(
    prepared: Prepared,
    shapes: Mapping[str, tuple[int, ...]],
    strategy: IpuStrategy,
    scope: Any,
    progress: Callable[[int], None] | None = None,
) -> tuple[Compiled, PaddleModule]:
    """Capture, plan and make executable. `shapes` are those of one micro-batch."""
    options = build_run_options(strategy._ipu_strategy)
    if is_compiling_only() and not options.deterministic:
        options = replace(options, engine=EngineMode.KERNELS)  # later runs find the native code, too
    weights = {name: _describe_weight(prepared, scope, name) for name in prepared.held}
    optimizer = prepared.optimizer
    trained = () if optimizer is None else optimizer.parameters
    module = PaddleModule(prepared.graph, weights, trained=trained, loss=prepared.loss)
    module.train(options.training)
    shape = read_shape(strategy._ipu_strategy)
    inputs = [
        torch.empty(_enlarge(shapes[name], shape), dtype=_NARROWED.get(entry.dtype, entry.dtype), device="meta")
        for name, entry in prepared.feeds.items()
    ]
    compiled = compile_model(
        module,
        inputs,
        options=options,
        optimizer=None if optimizer is None else make_spec(optimizer, strategy),
        name=prepared.name,
        show_progress=progress or False,
        profile_directory=_find_profile(strategy),
        cache_directory=_find_cache(strategy),
        front_end=FrontEnd(
            reserve=lambda program: reserve_ipus(strategy.num_ipus, program.name),
            advise=make_advisor("paddle"),
        ),
    )
    return compiled, module


def make_spec(optimizer: OptimizerDescription, strategy: IpuStrategy) -> OptimizerSpec:
    """The optimizer's structure with what the strategy adds."""
    store = strategy._ipu_strategy
    scaling = store["loss_scaling"] != 1.0 or store["automatic_loss_scaling_settings.enabled"]
    return optimizer.make_spec(loss_scaling=scaling, bias_correction=not store["use_no_bias_optimizer"])


def _describe_weight(prepared: Prepared, scope: Any, name: str) -> torch.Tensor:
    """A tensor without data in the format and shape of a weight; small whole numbers with theirs."""
    held = find_tensor(scope, name)
    if held is not None:
        value = read_variable(scope, name)
        return (
            value if not value.dtype.is_floating_point else torch.empty(value.shape, dtype=value.dtype, device="meta")
        )
    variable = prepared.program.main.variables[name]
    if variable.dtype is None or any(size < 0 for size in variable.shape):
        read_variable(scope, name)
    return torch.empty(variable.shape, dtype=variable.dtype, device="meta")


def _enlarge(shape: tuple[int, ...], run: Shape) -> tuple[int, ...]:
    return (shape[0] * run.micro_batches, *shape[1:]) if shape else shape


def find_shapes(
    prepared: Prepared, strategy: IpuStrategy, fed: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, tuple[int, ...]]:
    """The shapes of one micro-batch: declared ones, an open batch as the strategy says, others as they are fed."""
    size = strategy._ipu_strategy["micro_batch_size"]
    found = {}
    for name, entry in prepared.feeds.items():
        declared = entry.shape or ()
        shape = [size if place == 0 and extent is None else extent for place, extent in enumerate(declared)]
        given = None if fed is None else fed.get(name)
        if given is not None and len(given) == len(shape):
            shape = [given[place] if extent is None else extent for place, extent in enumerate(shape)]
        if not all(isinstance(extent, int) for extent in shape):
            raise OptionError(
                f"The shape of {name!r} is {list(declared)}, and on an IPU every size is known when it is compiled."
            )
        found[name] = tuple(int(extent) for extent in shape if extent is not None)
    return found


def _find_cache(strategy: IpuStrategy) -> Path | None:
    found = os.environ.get(CACHE_VARIABLE)
    if found:
        return Path(found)
    store = strategy._ipu_strategy
    return Path(store["cache_path"]) if store["enable_engine_caching"] else None


def _find_profile(strategy: IpuStrategy) -> Path | None:
    engine = strategy._ipu_strategy["engine_options"]
    wanted = any(str(engine.get(f"autoReport.{name}", "")).lower() == "true" for name in ("all", "outputGraphProfile"))
    return Path(str(engine.get("autoReport.directory", "."))) if wanted else None
