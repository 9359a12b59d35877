"""Loops with a counter that programs can read.

In: bounds and a function that makes the body from the counter. Out: a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openipu.graph.mapped import INT
from poplar import Graph, Tensor
from poplar.program import Program, Repeat, RepeatWhileTrue, Sequence
from popops._cast import fill
from popops._elementwise import addInPlace, gt, lt


def countedLoop(
    graph: Graph,
    begin: int,
    end: int,
    step: int = 1,
    body: Callable[[Tensor], Program] | None = None,
    name: str = "countedLoop",
) -> Sequence:
    """`for (i = begin; i < end; i += step)`; the body is made once, from the tensor that counts."""
    assert body is not None, "countedLoop needs a body."
    counter = graph.addVariable(INT, [1], f"{name}/counter")
    graph.setTileMapping(counter, 0)
    count = max(0, -(-(end - begin) // step))
    loop = Sequence(name=name)
    fill(graph, counter, loop, begin, f"{name}/begin")
    inner = Sequence(body(counter))
    addInPlace(graph, counter, step, inner, f"{name}/step")
    loop.add(Repeat(count, inner))
    return loop


def countedForLoop(graph: Graph, *rest: Any, name: str = "countedForLoop") -> Sequence:
    """`(graph, [counter,] begin, limit, step, body)`: while the counter is below the limit; above for a negative step.

    The limit is a tensor, which is read as the loop runs, or a number.
    """
    given = [value for value in rest if not isinstance(value, str)]
    counter = given.pop(0) if len(given) == 5 else None
    begin, limit, step, body = given
    if counter is None:
        counter = (
            graph.clone(limit, f"{name}/counter") if isinstance(limit, Tensor) else graph.addVariable(INT, [1], name)
        )
        if not isinstance(limit, Tensor):
            graph.setTileMapping(counter, 0)
    loop, condition = Sequence(name=name), Sequence()
    fill(graph, counter, loop, begin, f"{name}/begin")
    inner = Sequence(body)
    addInPlace(graph, counter, step, inner, f"{name}/step")
    if isinstance(limit, Tensor):
        more = (gt if step < 0 else lt)(graph, counter, limit, condition, f"{name}/more")
        loop.add(RepeatWhileTrue(condition, more, inner))
    else:
        loop.add(Repeat(max(0, -(-(limit - begin) // step)), inner))
    return loop
