"""Layers with tensors alone as arguments and results, as C++ calls them.

In: states and weights as separate tensors, and whether what C++ gives by pointer is wanted. Out: lists of tensors.
"""

from __future__ import annotations

from poplar import Graph, Tensor
from poplar._library import Target
from popnn import _loss as layers
from popnn import gru, lstm


def lstmFwd(
    graph: Graph,
    params: lstm.LstmParams,
    state: list[Tensor],
    sequence: Tensor,
    weights: list[Tensor],
    keep: bool,
    prog: Target,
) -> list[Tensor]:
    """[output, cell state], and intermediates if they are kept."""
    kept: list[Tensor] = []
    made = lstm.lstmFwd(
        graph, params, lstm.LstmState(*state), sequence, lstm.LstmWeights(*weights), kept if keep else None, prog
    )
    return [*made, *kept]


def lstmBwd(
    graph: Graph,
    params: lstm.LstmParams,
    prog: Target,
    state: list[Tensor],
    intermediates: Tensor,
    weights: list[Tensor],
    given: Tensor,
    output: Tensor,
    gradient: Tensor,
    ends: list[Tensor],
    wanted: bool,
) -> list[Tensor]:
    """[gradients of output and cell, backward intermediates], and the gradient of the input if it is wanted."""
    last = None if not ends else ends[0] if len(ends) == 1 else lstm.LstmState(*ends)
    inputs: list[Tensor] = []
    between: list[Tensor] = []
    made = lstm.lstmBwd(
        graph, params, prog, lstm.LstmState(*state), intermediates, lstm.LstmWeights(*weights), given, output,
        gradient, last, inputs if wanted else None, between,
    )  # fmt: skip
    return [made.output, made.cellState, *between, *inputs]


def lstmWU(
    graph: Graph,
    params: lstm.LstmParams,
    prog: Target,
    state: list[Tensor],
    intermediates: Tensor,
    between: Tensor,
    weights: list[Tensor],
    given: Tensor,
    output: Tensor,
) -> list[Tensor]:
    made = lstm.lstmWU(
        graph, params, prog, lstm.LstmState(*state), intermediates, between, lstm.LstmWeights(*weights), given, output
    )
    return [made.inputWeights, made.outputWeights, made.biases]


def createLstmWeights(graph: Graph, params: lstm.LstmParams) -> list[Tensor]:
    made = lstm.createWeights(graph, params)
    return [made.inputWeights, made.outputWeights, made.biases]


def createLstmState(graph: Graph, params: lstm.LstmParams) -> list[Tensor]:
    made = lstm.createInitialState(graph, params)
    return [made.output, made.cellState]


def gruFwd(
    graph: Graph,
    params: gru.GruParams,
    state: Tensor,
    sequence: Tensor,
    weights: list[Tensor],
    keep: bool,
    prog: Target,
) -> list[Tensor]:
    """[output], and intermediates if they are kept."""
    kept: list[Tensor] = []
    made = gru.gruFwd(graph, params, state, sequence, gru.GruWeights(*weights), kept if keep else None, prog)
    return [made, *kept]


def gruBwd(
    graph: Graph,
    params: gru.GruParams,
    prog: Target,
    state: Tensor,
    intermediates: Tensor,
    weights: list[Tensor],
    given: Tensor,
    output: Tensor,
    gradient: Tensor,
    wanted: bool,
) -> list[Tensor]:
    """[gradient of the state, backward intermediates], and the gradient of the input if it is wanted."""
    inputs: list[Tensor] = []
    between: list[Tensor] = []
    made = gru.gruBwd(
        graph, params, prog, state, intermediates, gru.GruWeights(*weights), given, output, gradient,
        inputs if wanted else None, between,
    )  # fmt: skip
    return [made, *between, *inputs]


def gruWU(
    graph: Graph,
    params: gru.GruParams,
    prog: Target,
    state: Tensor,
    intermediates: Tensor,
    between: Tensor,
    weights: list[Tensor],
    given: Tensor,
    output: Tensor,
) -> list[Tensor]:
    made = gru.gruWU(graph, params, prog, state, intermediates, between, gru.GruWeights(*weights), given, output)
    return [made.inputWeights, made.outputWeights, made.biases]


def createGruWeights(graph: Graph, params: gru.GruParams) -> list[Tensor]:
    made = gru.createWeights(graph, params)
    return [made.inputWeights, made.outputWeights, made.biases]


def topK(graph: Graph, tensor: Tensor, k: int, sort: bool, prog: Target, name: str = "") -> list[Tensor]:
    """[values, places]."""
    places: list[Tensor] = []
    return [layers.topK(graph, tensor, places, k, sort, prog, name), *places]
