"""Programs that are one loop: the device repeats, and the host gives the data of all passes at once.

In: a program. Out: the repeat that is all of it, where its passes can be openipu's own device iterations: each uses
every stream as often, and what it carries lives in variables. Such a program is planned op by op.
"""

from __future__ import annotations

from dataclasses import dataclass

from popxl._ir.aliases import Traffic, count_traffic
from popxl._ir.sites import RepeatOp
from popxl.ir import Ir
from popxl.tensor import Constant, Variable


@dataclass(frozen=True, eq=False)
class MainLoop:
    """The repeat, and the transfers of each stream in one pass."""

    op: RepeatOp
    transfers: int
    traffic: Traffic  # of one pass


def find_main_loop(ir: Ir) -> MainLoop | None:
    """The loop that a program is, if it is one."""
    if len(ir.main_graph._ops) != 1:
        return None
    op = ir.main_graph._ops[0]
    if not isinstance(op, RepeatOp) or op.count < 2 or op.outputs or op.target._outputs:
        return None
    held = all(isinstance(tensor, Variable | Constant) or tensor in ir._shares for tensor in op.inputs)
    traffic = count_traffic(op.target)
    uses = {*traffic.loads.values(), *traffic.stores.values()}
    if not held or len(uses) != 1 or uses.pop() * op.count != ir.num_host_transfers:
        return None
    return MainLoop(op, ir.num_host_transfers // op.count, traffic)
