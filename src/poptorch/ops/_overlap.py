"""What overlapped input and output need of the options.

In: a captured program whose inputs and outputs may be marked, and its options. Out: options that say that host streams
run beside compute, or `poptorch.Error` where they could not.
"""

from __future__ import annotations

from dataclasses import replace

from openipu.graph import OutputMode, Program, RunOptions, Strategy, note_of
from poptorch.enums import OverlapMode
from poptorch.errors import COMPILER_ERROR, Error


def settle_overlap(program: Program, options: RunOptions) -> RunOptions:
    """Check the options if any input or output is marked, and turn overlapping on."""
    marks = (note_of(node).attributes.get("overlap") for node in program.micro.module.graph.nodes)
    if not any(mark not in (None, OverlapMode.NoOverlap.value) for mark in marks):
        return options
    if options.strategy is Strategy.PIPELINED:
        raise Error(
            "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only one IPU, please "
            "switch to poptorch.ShardedExecution.",
            COMPILER_ERROR,
        )
    if options.io_tiles == 0:
        raise Error(
            "No IO tiles allocated. You must allocate at least 32 IO tiles using "
            "poptorch.Options().TensorLocations.numIOTiles.",
            COMPILER_ERROR,
        )
    if options.output_mode not in (OutputMode.ALL, OutputMode.SUM):
        raise Error(
            "Unsupported output mode for overlapped IO. Please switch output mode to poptorch.OutputMode.All or "
            "poptorch.OutputMode.Sum.",
            COMPILER_ERROR,
        )
    return replace(options, overlapped_io=True)
