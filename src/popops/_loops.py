"""Loops with a counter that programs can read.

In: bounds and a function that makes the body from the counter. Out: a program.
"""

from __future__ import annotations

from collections.abc import Callable

from openipu.graph.mapped import INT
from poplar import Graph, Tensor
from poplar.program import Program, Repeat, Sequence
from popops._cast import fill
from popops._elementwise import addInPlace


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


def countedForLoop(
    graph: Graph, counter: Tensor, begin: int, count: int, step: int, body: Program, name: str = "countedForLoop"
) -> Sequence:
    """The same over a counter of the user's."""
    loop = Sequence(name=name)
    fill(graph, counter, loop, begin, f"{name}/begin")
    inner = Sequence(body)
    addInPlace(graph, counter, step, inner, f"{name}/step")
    loop.add(Repeat(count, inner))
    return loop
