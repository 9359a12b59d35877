"""Operations on three tensors, in three forms each: a choice between two, and limits.

In: tensors or numbers. Out: a new tensor; with `…InPlace` the first tensor; with `…WithOutput` a tensor of the user's.
"""

from __future__ import annotations

from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from popops import expr as expressions
from popops._elementwise import Made, apply
from popops.expr import TernaryOpType


def _ternary(op: TernaryOpType) -> tuple[Made, Made, Made]:
    expression = expressions.TernaryOp(op, expressions._1, expressions._2, expressions._3)
    function = f"popops::{op.value}"

    def plain(graph: Graph, a: Any, b: Any, c: Any, prog: Target, name: str = "", options: Any = None) -> Tensor:
        return apply(graph, function, expression, [a, b, c], prog, name, None)

    def in_place(graph: Graph, a: Tensor, b: Any, c: Any, prog: Target, name: str = "", options: Any = None) -> None:
        apply(graph, f"{function}InPlace", expression, [a, b, c], prog, name, a)

    def with_output(
        graph: Graph, a: Any, b: Any, c: Any, out: Tensor, prog: Target, name: str = "", options: Any = None
    ) -> None:
        apply(graph, f"{function}WithOutput", expression, [a, b, c], prog, name, out)

    return plain, in_place, with_output


clamp, clampInPlace, clampWithOutput = _ternary(TernaryOpType.CLAMP)
select, selectInPlace, selectWithOutput = _ternary(TernaryOpType.SELECT)
