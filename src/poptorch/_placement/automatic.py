"""`AutomaticExecution`: the stages of a captured program, found by openipu's automatic split.

In: a program, its options, the strategy. Out: the program's ops in stages, and the options that go with them.
"""

from __future__ import annotations

from openipu.explore.auto import Limits, apply_split, split_program
from openipu.graph import InputKind, Program, RunOptions
from openipu.session import choose_system
from poptorch._logging import logger
from poptorch._modelled_system import choose_modelled_system
from poptorch.options import Options
from poptorch.strategies import AutomaticExecution


def split_automatically(
    program: Program, options: RunOptions, wanted: Options, strategy: AutomaticExecution
) -> tuple[Program, RunOptions]:
    """Put every op into a stage. Batch, accumulation and replicas stay: the user's data loader follows them."""
    sizes = [entry.shape[0] for entry in program.micro.inputs_of(InputKind.INPUT) if entry.shape]
    rounds = options.gradient_accumulation if options.training else options.device_iterations
    limits = Limits(
        ipus_per_replica=strategy.ipus_per_replica,
        replicas=options.replicas,
        samples=(sizes[0] if sizes else 1) * rounds * options.replicas,
    )
    split = split_program(program, choose_system(choose_modelled_system(wanted)), options, limits=limits)
    logger.debug("AutomaticExecution chose, after %d plans:\n%s", split.plans_made, split.describe())
    return apply_split(program, split)
