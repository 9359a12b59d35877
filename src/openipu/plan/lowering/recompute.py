"""Which forward results are kept for backward, and which are made again.

PIPELINE: a stage keeps what enters it and what the user marked as checkpoint, except the last stage, whose backward
follows at once and which keeps all. ALL keeps only checkpoints, STANDARD also results of matrix products and
convolutions, NORM_ONLY makes only norms again. What the user marked as recomputed is made again in any of them.
"""

from __future__ import annotations

from torch import fx

from openipu.graph import Phase, Program, Recompute, RunOptions, Strategy, note_of
from openipu.ops import Trait, has_trait
from openipu.plan.lowering.stages import merge_stages

CHECKPOINT = "checkpoint"  # key of Note.attributes
RECOMPUTED = "recomputed"  # the same
_KEPT_BY_STANDARD = Trait.MATMUL_OR_CONVOLUTION | Trait.RECURRENT


class RecomputePolicy:
    """Answers, node by node, whether a forward result is kept."""

    def __init__(self, program: Program, options: RunOptions) -> None:
        nodes = program.micro.module.graph.nodes
        forward = [node for node in nodes if note_of(node).phase is Phase.FORWARD and node.op == "call_function"]
        self._stages = merge_stages(forward, options)
        self.last_stage = max(self._stages.values(), default=0)
        self.mode = options.recompute or self._choose_default(options)

    def _choose_default(self, options: RunOptions) -> Recompute:
        pipelined = options.training and options.strategy is Strategy.PIPELINED and self.last_stage > 0
        return Recompute.PIPELINE if pipelined else Recompute.NONE

    def find_stage(self, node: fx.Node) -> int:
        """The stage that a node runs in."""
        stage = note_of(node).stage
        return self._stages.get(stage, stage)

    def is_kept(self, node: fx.Node) -> bool:
        """A forward node whose value backward can read as it is."""
        note = note_of(node)
        if note.phase is not Phase.FORWARD or node.op != "call_function":
            return True
        if note.attributes.get(RECOMPUTED):
            return False
        if self.mode is Recompute.NONE or note.attributes.get(CHECKPOINT):
            return True
        if self.mode is Recompute.PIPELINE:
            return self.find_stage(node) == self.last_stage
        name = str(node.target)
        if self.mode is Recompute.STANDARD:
            return has_trait(name, _KEPT_BY_STANDARD)
        if self.mode is Recompute.NORM_ONLY:
            return not has_trait(name, Trait.NORM)
        return False
