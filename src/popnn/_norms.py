"""What norms have in common: they differ in what they take statistics of.

In: activations with channels in dimension 1. Out: the functions of one norm, to be named as the original names them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from poplar import Graph, Tensor
from poplar._library import Target
from poplin import _statistics
from poplin._statistics import Grouping
from popops import scaledAddTo


@dataclass(frozen=True, slots=True)
class Norm:
    """One norm. `choose` says, from activations and a statistic, how activations are grouped."""

    verb: str  # "batchNorm"
    choose: Callable[[Tensor, Tensor], Grouping]

    def statistics(
        self, graph: Graph, acts: Tensor, eps: float, prog: Target, unbiased: bool, group: Grouping, name: str
    ) -> tuple[Tensor, Tensor]:
        """Mean and inverse standard deviation."""
        function = f"popnn::{self.verb}Statistics"
        return _statistics.statistics(graph, function, acts, eps, prog, unbiased, group, name)

    def whiten(
        self, graph: Graph, acts: Tensor, mean: Tensor, invStdDev: Tensor, prog: Target, name: str = ""
    ) -> Tensor:
        function = f"popnn::{self.verb}Whiten"
        group = self.choose(acts, mean)
        return _statistics.whiten(graph, function, acts, mean, invStdDev, prog, group, name)

    def normalise(
        self,
        graph: Graph,
        acts: Tensor,
        gamma: Tensor,
        beta: Tensor,
        mean: Tensor,
        invStdDev: Tensor,
        prog: Target,
        name: str = "",
    ) -> tuple[Tensor, Tensor]:
        """The normalised activations, and the same before gamma and beta."""
        white = self.whiten(graph, acts, mean, invStdDev, prog, name)
        function = f"popnn::{self.verb}alise"
        return _statistics.scale_and_shift(graph, function, white, gamma, beta, prog, name), white

    def paramGradients(
        self, graph: Graph, actsWhitened: Tensor, gradsIn: Tensor, prog: Target, *rest: Any, name: str = ""
    ) -> tuple[Tensor, Tensor]:
        """Gradients of gamma and beta."""
        function = f"popnn::{self.verb}ParamGradients"
        return _statistics.parameter_gradients(graph, function, actsWhitened, gradsIn, prog, name)

    def gradients(
        self,
        graph: Graph,
        actsWhitened: Tensor,
        gradsIn: Tensor,
        invStdDev: Tensor,
        gamma: Tensor,
        prog: Target,
        *rest: Any,
        name: str = "",
    ) -> Tensor:
        """The gradient of the activations."""
        function, group = f"popnn::{self.verb}Gradients", self.choose(actsWhitened, invStdDev)
        return _statistics.input_gradient(graph, function, actsWhitened, gradsIn, invStdDev, gamma, prog, group, name)

    def paramUpdate(
        self,
        graph: Graph,
        gammaDelta: Tensor,
        betaDelta: Tensor,
        scale: Any,
        gamma: Tensor,
        beta: Tensor,
        prog: Target,
        name: str = "",
    ) -> None:
        """Add gradients times a factor to gamma and beta."""
        scaledAddTo(graph, gamma, gammaDelta, scale, prog, name)
        scaledAddTo(graph, beta, betaDelta, scale, prog, name)
