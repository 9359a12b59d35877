"""A synthetic plan over several IPUs."""

from __future__ import annotations

from plan_factory import PlanBuilder

from openipu.graph import Phase, RunOptions
from openipu.machine import resolve_system
from openipu.ops.cost import Family
from openipu.plan.types import Plan, VariableKind


def make_pipelined_plan(
    cycles: tuple[int, ...] = (30_000, 20_000, 50_000, 20_000), micro_batches: int = 16, width: int = 1024
) -> Plan:
    """Training over IPUs, stage i on IPU i: forward takes the cycles of its stage, backward twice as much."""
    options = RunOptions(training=True, gradient_accumulation=micro_batches)
    build = PlanBuilder("pipelined", options, 4, resolve_system("bow-pod16"))
    last = len(cycles) - 1
    for stage, count in enumerate(cycles):
        build.go_to(stage, stage)
        if stage == 0:
            build.add_host_step("read input", 4 * width * 2)
        else:
            build.add_copy(4 * width * 2, Phase.FORWARD)
        op = build.add_op(
            "aten.mm.default", Family.MATMUL, Phase.FORWARD, f"layer.{stage}", cycles=count, line=9, flops=8
        )
        build.add_variable(f"layer.{stage}.weight", VariableKind.PARAMETER, (width, width * (1 + stage)))
        copies = (2 * (last - stage), 4, width)
        if stage < last:
            build.add_variable(f"stash:{stage}", VariableKind.STASH, copies)
        build.add_variable(f"layer.{stage}.out", VariableKind.ACTIVATION, (4, width), life=(2 * stage, 20), op=op)
    for stage in range(last, -1, -1):
        build.go_to(stage, stage)
        if stage < last:
            build.add_copy(4 * width * 2, Phase.BACKWARD)
        build.add_op(
            "aten.mm.default", Family.MATMUL, Phase.BACKWARD, f"layer.{stage}", cycles=2 * cycles[stage], line=9
        )
    for stage in range(last + 1):
        build.go_to(stage, stage)
        module = f"layer.{stage}"
        build.add_op("aten.add.Tensor", Family.OPTIMIZER, Phase.UPDATE, module, cycles=10_000 * (1 + stage))
    return build.build()
