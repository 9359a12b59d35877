"""PopLibs' random numbers. Unofficial.

In: `poplar` graphs and sequences, a seed tensor of two UNSIGNED_INT or None, a modifier, a tensor whose shape counts.
Out: new tensors. The same seed and modifier give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu.graph.mapped import INT, choose_format
from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._library import Target, call_kernel

__all__ = [
    "addCodelets",
    "bernoulli",
    "dropout",
    "logUniform",
    "normal",
    "setSeed",
    "shapedDropout",
    "truncatedNormal",
    "uniform",
]


def addCodelets(graph: Graph) -> None:
    """Nothing to add: library functions are there as they are."""


def _draw(
    graph: Graph,
    kernel: str,
    priced: str,
    seed: Tensor | None,
    modifier: int,
    reference: Tensor,
    element: Type,
    prog: Target,
    numbers: Sequence[Any],
    name: str,
    mask_shape: Sequence[int] | None = None,
) -> Tensor:
    """One call of a random kernel. Inputs are the seed, if there is one, and for a dropout the activations."""
    if seed is not None and seed.numElements() != 2:
        raise poplar_error(f"poprand::{kernel}: a seed has two elements, and this one {seed.numElements()}.")
    shape = reference.shape() if mask_shape is None else mask_shape
    format_ = str(choose_format(element)).removeprefix("torch.")
    given = [reference] if kernel == "dropout" else []
    made = graph.clone(element, reference, f"{name or kernel}/out")
    place = graph.shared.seeds
    graph.shared.seeds += 1
    arguments = [seed, modifier, list(shape), format_, *numbers, *given]
    return call_kernel(graph, prog, f"poprand::{kernel}", kernel, priced, arguments, made, name=name, place=place)


def uniform(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    reference: Tensor,
    outType: Type,
    minVal: float,
    maxVal: float,
    prog: Target,
    name: str = "",
) -> Tensor:
    """Evenly between two numbers; integers include both."""
    priced = "aten.randint.low" if outType is INT else "aten.rand.default"
    return _draw(graph, "uniform", priced, masterSeed, seedModifier, reference, outType, prog, [minVal, maxVal], name)


def logUniform(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    reference: Tensor,
    outType: Type,
    minVal: float,
    maxVal: float,
    prog: Target,
    base: float = 2.718281828459045,
    name: str = "",
) -> Tensor:
    """The logarithm is even."""
    numbers = [minVal, maxVal, base]
    return _draw(
        graph, "logUniform", "aten.rand.default", masterSeed, seedModifier, reference, outType, prog, numbers, name
    )


def normal(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    reference: Tensor,
    outType: Type,
    mean: float,
    stdDev: float,
    prog: Target,
    name: str = "",
) -> Tensor:
    return _draw(
        graph, "normal", "aten.randn.default", masterSeed, seedModifier, reference, outType, prog, [mean, stdDev], name
    )


def truncatedNormal(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    reference: Tensor,
    outType: Type,
    mean: float,
    stdDev: float,
    alpha: float,
    prog: Target,
    name: str = "",
) -> Tensor:
    """No further from the mean than `alpha` standard deviations."""
    numbers = [mean, stdDev, alpha]
    return _draw(
        graph,
        "truncatedNormal",
        "aten.randn.default",
        masterSeed,
        seedModifier,
        reference,
        outType,
        prog,
        numbers,
        name,
    )


def bernoulli(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    reference: Tensor,
    outType: Type,
    prob: float,
    prog: Target,
    name: str = "",
) -> Tensor:
    """1 with a probability, else 0."""
    return _draw(
        graph, "bernoulli", "aten.rand.default", masterSeed, seedModifier, reference, outType, prog, [prob], name
    )


def dropout(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    input_: Tensor,
    reference: Tensor,
    keepProbability: float,
    scale: float,
    prog: Target,
    *rest: Any,
    name: str = "",
) -> Tensor:
    """Elements are kept with a probability and multiplied by `scale`, else zero."""
    return _drop(graph, masterSeed, seedModifier, input_, [keepProbability, scale], prog, name, input_.shape())


def shapedDropout(
    graph: Graph,
    masterSeed: Tensor | None,
    seedModifier: int,
    input_: Tensor,
    reference: Tensor,
    keepProbability: float,
    scale: float,
    prog: Target,
    name: str = "",
) -> Tensor:
    """The same with a mask in the shape of `reference`, which is broadcast."""
    return _drop(graph, masterSeed, seedModifier, input_, [keepProbability, scale], prog, name, reference.shape())


def _drop(
    graph: Graph,
    seed: Tensor | None,
    modifier: int,
    given: Tensor,
    numbers: Sequence[float],
    prog: Target,
    name: str,
    mask_shape: Sequence[int],
) -> Tensor:
    priced, element = "aten.native_dropout.default", given.elementType()
    return _draw(graph, "dropout", priced, seed, modifier, given, element, prog, numbers, name, mask_shape)


def setSeed(graph: Graph, masterSeed: Tensor, seedModifier: int, prog: Target, name: str = "") -> None:
    """Without effect here, as on a model of an IPU: it seeds the rounding of hardware."""
