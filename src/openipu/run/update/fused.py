"""Update rules for which PyTorch has one kernel.

In: the contracted graph of an element-wise rule. Out: a function with the same arguments that runs PyTorch's fused
kernel, one pass over memory, where the graph is what that kernel computes: Adam and AdamW, and SGD with momentum. The
gradient may be multiplied or divided by numbers first, as clipping and loss scaling do. The rule is recognised by its
arithmetic, and the kernel's settings are computed from the rule's own numbers, so the results differ by rounding alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

_ROUNDING = 2.0**-22  # of a float32 that was computed from others


@dataclass(frozen=True, slots=True)
class _Factor:
    """What a gradient is multiplied by before anything else: products and quotients of numbers; of none, it is 1."""

    times: tuple[Any, ...] = ()
    over: tuple[Any, ...] = ()

    @property
    def is_one(self) -> bool:
        return not self.times and not self.over


@dataclass(frozen=True, eq=False)
class _Adam:
    """Where the values of Adam's rule come from: nodes, or plain numbers."""

    parameter: fx.Node
    gradient: fx.Node
    first: fx.Node
    second: fx.Node
    first_rest: Any  # 1 - beta1
    second_keep: Any  # beta2; None for what second_rest leaves of 1
    second_rest: Any  # 1 - beta2
    root: Any  # sqrt(1 - beta2 ** step)
    epsilon: Any
    step_size: Any
    factor: _Factor  # of the gradient
    penalty: Any  # L2: added to the gradient, times the parameter
    keep: Any  # decoupled decay: what the parameter is multiplied by first


@dataclass(frozen=True, eq=False)
class _Momentum:
    """Where the values of SGD's rule come from."""

    parameter: fx.Node
    gradient: fx.Node
    velocity: fx.Node
    momentum: Any
    learning_rate: Any
    factor: _Factor
    penalty: Any
    nesterov: bool
    scaled: bool = False  # the velocity holds the learning rate, with its sign: Keras has it so


Update = Callable[..., None]


@dataclass(frozen=True, eq=False)
class FusedUpdate:
    """A kernel that computes a rule."""

    make: Callable[[Update], Update]  # the function that runs it, from the rule's own function
    one_pass: bool  # all elements may be given at once; else in pieces that stay in the cache


def find_fused_update(
    graph: fx.Graph, targets: Mapping[str, fx.Node], results: Mapping[str, fx.Node]
) -> FusedUpdate | None:
    """The kernel for a rule, or None. `targets` and `results` are values by role."""
    values = [node.meta.get("val") for node in (*targets.values(), *results.values())]
    if any(not isinstance(value, torch.Tensor) or value.dtype is not torch.float32 for value in values):
        return None
    reader = _Reader(targets, results)
    adam, momentum = reader.read_adam(), reader.read_momentum()
    places = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
    # A target that is a converted argument has the place of that argument.
    places |= {node: places[node.all_input_nodes[0]] for node in targets.values() if node.op != "placeholder"}
    if adam is not None:
        return FusedUpdate(lambda plain: _make_adam(adam, places, plain), adam.factor.is_one)
    if momentum is not None:
        return FusedUpdate(lambda plain: _make_momentum(momentum, places, plain), momentum.factor.is_one)
    return None


class _Reader:
    """Compares the new values with what the kernels compute."""

    def __init__(self, targets: Mapping[str, fx.Node], results: Mapping[str, fx.Node]) -> None:
        self._parameter, self._gradient = targets.get("parameter"), targets.get("gradient")
        self._new = results.get("parameter")
        self._states = {results[role]: targets[role] for role in results if role != "parameter"}

    def read_adam(self) -> _Adam | None:
        new = _take(self._new, aten.addcdiv.default, 3, ("value",))
        if new is None or len(self._states) != 2:
            return None
        base, first, denominator = new[:3]
        step_size = _take(new[3], operator.neg, 1)
        sum_ = _take(denominator, aten.add.Tensor, 2)
        average = _take(first, aten.lerp.Scalar, 3)
        if step_size is None or sum_ is None or average is None:
            return None
        quotient = _take(sum_[0], aten.div.Tensor, 2) or (sum_[0], 1.0)
        root = _take(quotient[0], aten.sqrt.default, 1)
        square = None if root is None else _read_square(root[0], average[1])
        kept = _take(base, aten.mul.Tensor, 2) or (base, 1.0)
        if root is None or square is None or kept[0] is not self._parameter:
            return None
        gradient = average[1]
        terms = self._read_gradient(gradient)
        known = self._states.get(first) is average[0] and self._states.get(root[0]) is square[0]
        if terms is None or not known:
            return None
        assert self._parameter is not None
        assert self._gradient is not None
        return _Adam(
            parameter=self._parameter,
            gradient=self._gradient,
            first=average[0],
            second=square[0],
            first_rest=average[2],
            second_keep=square[1],
            second_rest=square[2],
            root=quotient[1],
            epsilon=sum_[1],
            step_size=step_size[0],
            factor=terms[0],
            penalty=terms[1],
            keep=kept[1],
        )

    def read_momentum(self) -> _Momentum | None:
        return self._read_scaled_momentum() or self._read_plain_momentum()

    def _read_scaled_momentum(self) -> _Momentum | None:
        """velocity * momentum - gradient * rate, which is added to the parameter."""
        new = _take(self._new, aten.add.Tensor, 2)
        if new is None or len(self._states) != 1 or self._gradient is None:
            return None
        ((velocity, old),) = self._states.items()
        difference = _take(velocity, aten.sub.Tensor, 2, ("alpha",))
        kept = None if difference is None else _take(difference[0], aten.mul.Tensor, 2)
        if difference is None or kept is None or kept[0] is not old or difference[1] is not self._gradient:
            return None
        if self._parameter is None or set(new) != {self._parameter, velocity}:
            return None
        return _Momentum(self._parameter, self._gradient, old, kept[1], difference[2], _Factor(), 0.0, False, True)

    def _read_plain_momentum(self) -> _Momentum | None:
        new = _take(self._new, aten.sub.Tensor, 2, ("alpha",))
        if new is None or new[0] is not self._parameter or len(self._states) != 1:
            return None
        ((velocity, old),) = self._states.items()
        sum_ = _take(velocity, aten.add.Tensor, 2, ("alpha",))
        terms = None if sum_ is None else self._read_gradient(sum_[0])
        if sum_ is None or terms is None or sum_[1] is not old:
            return None
        ahead = _take(new[1], aten.add.Tensor, 2, ("alpha",))
        nesterov = new[1] is not velocity
        if nesterov and (ahead is None or ahead != (sum_[0], velocity, sum_[2])):
            return None
        assert self._parameter is not None
        assert self._gradient is not None
        return _Momentum(self._parameter, self._gradient, old, sum_[2], new[2], *terms, nesterov)

    def _read_gradient(self, used: Any) -> tuple[_Factor, Any] | None:
        """The factors of the gradient and of the parameter in what the rule uses as its gradient."""
        sum_ = _take(used, aten.add.Tensor, 2, ("alpha",)) or (used, self._parameter, 0.0)
        value, times, over = sum_[0], [], []
        while value is not self._gradient:
            product, quotient = _take(value, aten.mul.Tensor, 2), _take(value, aten.div.Tensor, 2)
            if product is not None:
                value, number = product
                times.append(number)
            elif quotient is not None:
                value, number = quotient
                over.append(number)
            else:
                return None
        if self._gradient is None or sum_[1] is not self._parameter or not all(map(_is_number, (*times, *over))):
            return None
        return _Factor(tuple(times), tuple(over)), sum_[2]


def _read_square(node: Any, gradient: Any) -> tuple[Any, Any, Any] | None:
    """What the mean of squared gradients was, and the shares of the old one and of the new square."""
    sum_ = _take(node, aten.addcmul.default, 3, ("value",))
    scaled = None if sum_ is None else _take(sum_[0], aten.mul.Tensor, 2)
    if sum_ is not None and scaled is not None and sum_[1] is gradient and sum_[2] is gradient:
        return scaled[0], scaled[1], sum_[3]
    mean = _take(node, aten.lerp.Scalar, 3)
    power = None if mean is None else _take(mean[1], aten.pow.Tensor_Scalar, 2)
    if mean is None or power is None or power[0] is not gradient or power[1] != 2:
        return None
    return mean[0], None, mean[2]


def _is_number(value: Any) -> bool:
    """Whether it is written into the rule, or given to it as a plain number."""
    return isinstance(value, int | float) or (isinstance(value, fx.Node) and value.op == "placeholder")


def _take(node: Any, target: Any, count: int, keywords: Collection[str] = ()) -> tuple[Any, ...] | None:
    """The arguments of a node that is this operator, with so many arguments and exactly these keywords."""
    if not isinstance(node, fx.Node) or node.target is not target or len(node.args) != count:
        return None
    return (*node.args, *node.kwargs.values()) if set(node.kwargs) == set(keywords) else None


def _make_adam(rule: _Adam, places: Mapping[fx.Node, int], plain: Update) -> Update:
    tensors = [places[node] for node in (rule.parameter, rule.gradient, rule.first, rule.second)]
    numbers = [
        _Number(value, places)
        for value in (
            rule.first_rest,
            rule.second_rest if rule.second_keep is None else rule.second_keep,
            rule.second_rest,
            rule.root,
            rule.epsilon,
            rule.step_size,
            rule.penalty,
            rule.keep,
        )
    ]
    read_factor = _make_factor(rule.factor, places)
    decoupled = rule.keep != 1.0
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
    # The numbers of the last call, and what follows from them: every piece of an update has the same.
    last: tuple[Any, tuple[float, dict[str, Any]] | None] = (None, None)

    def read_settings(values: Sequence[Any]) -> tuple[float, dict[str, Any]] | None:
        """The gradient's factor and the kernel's settings; None where the rule itself is to be run."""
        first_rest, keep, rest, root, epsilon, step_size, penalty, kept = (number.read(values) for number in numbers)
        found = solve_adam(first_rest, 1 - rest if rule.second_keep is None else keep, rest, root, step_size)
        if found is None or (decoupled and penalty) or (found.learning_rate == 0 and kept != 1):
            return None
        return read_factor(values), {
            "state_steps": [torch.tensor(found.step, dtype=torch.float32)],
            "lr": found.learning_rate,
            "beta1": found.beta1,
            "beta2": found.beta2,
            "weight_decay": (1 - kept) / found.learning_rate if kept != 1 else penalty,
            "eps": epsilon,
            "amsgrad": False,
            "maximize": False,
        }

    def update(*values: Any) -> None:
        nonlocal last
        given = values[len(tensors) :]
        if given != last[0]:
            last = (given, read_settings(values))
        if last[1] is None:
            plain(*values)
            return
        factor, settings = last[1]
        parameter, gradient, first, second = (values[place] for place in tensors)
        scaled = gradient if factor == 1 else gradient * factor
        kernel([parameter], [scaled], [first], [second], [], **settings)

    return update


@dataclass(frozen=True, slots=True)
class AdamSettings:
    """What PyTorch's kernel is called with. Its step need not be whole."""

    beta1: float
    beta2: float
    step: float
    learning_rate: float


def solve_adam(first_rest: float, keep: float, rest: float, root: float, step_size: float) -> AdamSettings | None:
    """The settings with which the kernel uses just these numbers, if there are such.

    The kernel divides by sqrt(1 - beta2 ** step) and multiplies by lr / (1 - beta1 ** step).
    """
    beta1, beta2 = 1 - first_rest, 1 - rest
    if abs(beta2 - keep) > _ROUNDING or not (0 < beta1 < 1 and 0 < beta2 < 1 and 0 < root <= 1):
        return None
    left = 1 - root * root
    step = math.log(left) / math.log(beta2) if left > 0 else math.inf
    return AdamSettings(beta1, beta2, step, step_size * (1 - beta1**step))


def _make_momentum(rule: _Momentum, places: Mapping[fx.Node, int], plain: Update) -> Update:
    tensors = [places[node] for node in (rule.parameter, rule.gradient, rule.velocity)]
    numbers = [_Number(value, places) for value in (rule.momentum, rule.learning_rate, rule.penalty)]
    read_factor = _make_factor(rule.factor, places)

    def update(*values: Any) -> None:
        momentum, learning_rate, penalty = (number.read(values) for number in numbers)
        factor = read_factor(values)
        if momentum == 0:  # the kernel then knows no velocity, and the rule still writes one
            plain(*values)
            return
        parameter, gradient, velocity = (values[place] for place in tensors)
        torch._fused_sgd_(
            [parameter],
            [gradient if factor == 1 else gradient * factor],
            [velocity],
            weight_decay=penalty,
            momentum=momentum,
            lr=-1.0 if rule.scaled else learning_rate,
            dampening=1 + learning_rate if rule.scaled else 0.0,
            nesterov=rule.nesterov,
            maximize=False,
            is_first_step=False,
        )

    return update


def _make_factor(factor: _Factor, places: Mapping[fx.Node, int]) -> Callable[[Sequence[Any]], float]:
    """The number that a gradient is multiplied by, from the arguments of the rule."""
    times = [_Number(value, places) for value in factor.times]
    over = [_Number(value, places) for value in factor.over]

    def read(values: Sequence[Any]) -> float:
        above = math.prod(number.read(values) for number in times)
        below = math.prod(number.read(values) for number in over)
        return above / below if below else math.nan

    return read


class _Number:
    """A number of the rule: an argument of its function, or written into it."""

    def __init__(self, value: Any, places: Mapping[fx.Node, int]) -> None:
        self._place = places[value] if isinstance(value, fx.Node) else -1
        self._value = 0.0 if isinstance(value, fx.Node) else float(value)

    def read(self, values: Sequence[Any]) -> float:
        return self._value if self._place < 0 else float(values[self._place])
