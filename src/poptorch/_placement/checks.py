"""What a captured program says of its stages: checked before it is planned, and listed in the log.

In: the program, the resolver that placed its blocks, options. Out: `poptorch.Error` where an IPU could not run it so;
debug lines of the chosen settings and of every op with its IPU and stage.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from torch import fx

import openipu.graph as graph
from openipu.graph import Phase, Program, RunOptions, note_of
from poptorch._devices import count_ipus
from poptorch._insight.op_names import describe_value, name_op
from poptorch._logging import logger
from poptorch._placement.automatic import split_automatically
from poptorch._placement.blocks import OUTSIDE, BlockResolver
from poptorch.enums import ConnectionType
from poptorch.errors import COMPILER_ERROR, Error
from poptorch.ops._overlap import settle_overlap
from poptorch.options import Options
from poptorch.strategies import AutomaticExecution, ParallelPhasedExecution, _PhasedExecution

_LOCATION_NAMES = {
    graph.TensorRole.ACTIVATION: "location_activation",
    graph.TensorRole.WEIGHT: "location_weight",
    graph.TensorRole.OPTIMIZER: "location_optimizer",
    graph.TensorRole.ACCUMULATOR: "location_accumulator",
}


def count_ipus_per_replica(program: Program) -> int:
    """IPUs of one replica. A program that uses IPUs 0 and 3 holds those between them too."""
    return 1 + max((note_of(node).ipu for node in _walk_forward(program)), default=0)


def place_program(
    program: Program, options: RunOptions, wanted: Options, resolver: BlockResolver
) -> tuple[Program, RunOptions]:
    """The program in the stages of its strategy, and the options with what only the program can tell."""
    strategy = resolver.strategy
    if isinstance(strategy, AutomaticExecution):
        program, options = split_automatically(program, options, wanted, strategy)
    return program, settle_overlap(program, options)


def check_program(program: Program, options: RunOptions, wanted: Options, resolver: BlockResolver) -> None:
    """Check a placed program against its strategy, and log where everything runs."""
    nodes = list(_walk_forward(program))
    _check_blocks(nodes)
    if wanted.connection_type != ConnectionType.Never:  # offline, nothing is reserved
        count_ipus(wanted, count_ipus_per_replica(program))
    if options.strategy is graph.Strategy.PIPELINED and not isinstance(resolver.strategy, AutomaticExecution):
        _check_stages(options, resolver.ipu_changes + 1)
    if logger.isEnabledFor(logging.DEBUG):
        _log_settings(nodes, options, resolver)
        _log_ops(program, nodes, resolver)


def _walk_forward(program: Program) -> Iterator[fx.Node]:
    for node in program.micro.module.graph.nodes:
        if node.op == "call_function" and note_of(node).phase is Phase.FORWARD:
            yield node


def _check_blocks(nodes: list[fx.Node]) -> None:
    """Ops before the first block are stage 0; after the end of one there is only place for tensors out of nothing."""
    for node in nodes:
        note = note_of(node)
        if note.block == OUTSIDE and node.all_input_nodes:
            where = f" (at {note.line})" if note.line is not None else ""
            raise Error(
                f"No active Block, all the ops must belong to a Block: {name_op(node)}{where} comes after the end of "
                "one. Move it into a `with poptorch.Block(…)`, or begin blocks with poptorch.BeginBlock.",
                COMPILER_ERROR,
            )


def _check_stages(options: RunOptions, forward_stages: int) -> None:
    """A pipeline needs at least one micro-batch for each stage."""
    if not options.training:
        if options.device_iterations < forward_stages:
            raise Error(
                "poptorch.Options().deviceIterations must be greater than or equal to the number of pipeline stages "
                f"({forward_stages}) when using poptorch.PipelinedExecution.",
                COMPILER_ERROR,
            )
        return
    stages = 2 * forward_stages - 1  # the last forward stage and the first backward stage are one
    if options.gradient_accumulation < stages:
        raise Error(
            "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the number of pipeline "
            f"stages ({stages}) when using poptorch.PipelinedExecution. Please note that a model with "
            f"{forward_stages} pipeline stages in PopTorch will have an additional {forward_stages - 1} stages when "
            "training.",
            COMPILER_ERROR,
        )


def _log_settings(nodes: list[fx.Node], options: RunOptions, resolver: BlockResolver) -> None:
    strategy = resolver.strategy
    ipus = {note_of(node).ipu for node in nodes}
    pipelined = options.strategy is graph.Strategy.PIPELINED and len(ipus) > 1
    logger.debug("enablePipelining set to value %d", pipelined)
    if not isinstance(strategy, _PhasedExecution):
        return
    parallel = isinstance(strategy, ParallelPhasedExecution)
    last = max((note_of(node).stage for node in nodes), default=0)
    logger.debug("poptorch.Options set serial_phases_execution to value %s", "false" if parallel else "true")
    logger.debug("executionPhaseSettings.phases set to value %d", strategy.count_phases(last))
    logger.debug("executionPhaseSettings.stages set to value %d", 2 if parallel else 1)
    for role, name in _LOCATION_NAMES.items():
        logger.debug("%s set to value useOnChipStorage(%s)", name, options.location_of(role).on_chip)


def _log_ops(program: Program, nodes: list[fx.Node], resolver: BlockResolver) -> None:
    """One line an op: its name, the type and shape of its result, and where it runs."""
    counts: dict[str, int] = {}
    strategy = resolver.strategy

    def log(path: str, kind: str, node: fx.Node) -> None:
        name = f"{path}/{kind}:0" if path else f"{kind}:0"
        number = counts.get(name, 0)
        counts[name] = number + 1
        note = note_of(node)
        if isinstance(strategy, _PhasedExecution):
            turn = f"phase({note.stage * strategy.phase_stride})"
        else:
            turn = f"stage({note.stage})"
        logger.debug(
            "%s%s [%s, mode(%s), ipu(%d), %s]",
            name,
            f"/{number}" if number else "",
            describe_value(node),
            strategy.mode,
            note.ipu,
            turn,
        )

    for node in nodes:
        value = node.meta.get("val")
        if hasattr(value, "shape"):
            log(note_of(node).module.replace(".", "/"), name_op(node), node)
    returned = program.micro.module.graph.output_node().args[0]
    assert isinstance(returned, list | tuple)
    for entry, node in zip(program.micro.outputs, returned, strict=True):
        if entry.kind is graph.OutputKind.LOSS and isinstance(node, fx.Node):
            log("", "IdentityLoss", node)
