"""The optimizer of a program, from the ops that update its weights.

In: the update ops of a `Slice`. Out: one `OptimizerDescription`: kind, groups of parameters that are updated alike,
where learning rates and states lie, limits of gradients. Clipping by global norm and L2 decay are recognised from the
ops that Paddle writes for them; anything else that changes a gradient is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openipu.capture import describe_groups
from openipu.errors import TranslationError
from openipu.graph import OptimizerKind, OptimizerSpec
from openipu.translate.paddle.program import PaddleOp

# type of the op -> kind, and Paddle's slots by the core's names of states
_KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "sgd": ("sgd", {}),
    "momentum": ("sgd", {"momentum_buffer": "Velocity"}),
    "adam": ("adam", {"exp_avg": "Moment1", "exp_avg_sq": "Moment2", "step": "Beta1Pow"}),
    "adamw": ("adamw", {"exp_avg": "Moment1", "exp_avg_sq": "Moment2", "step": "Beta1Pow"}),
    "adamax": ("adamax", {"exp_avg": "Moment", "exp_inf": "InfNorm", "step": "Beta1Pow"}),
    "lamb": ("lamb", {"exp_avg": "Moment1", "exp_avg_sq": "Moment2", "step": "Beta1Pow"}),
    "adagrad": ("adagrad", {"sum": "Moment"}),
    "adadelta": ("adadelta", {"square_avg": "AvgSquaredGrad", "acc_delta": "AvgSquaredUpdate"}),
    "rmsprop": ("rmsprop", {"square_avg": "MeanSquare", "grad_avg": "MeanGrad", "momentum_buffer": "Moment"}),
}
OPTIMIZERS = frozenset(_KINDS)


@dataclass(frozen=True, slots=True)
class Rate:
    """A learning rate: a variable of the program, times a factor of the parameter's own."""

    variable: str
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class ParameterGroup:
    """Parameters with the same rate and settings."""

    parameters: tuple[str, ...]
    rate: Rate
    settings: Mapping[str, Any]  # as `describe_groups` reads them, without "lr"


@dataclass(frozen=True, eq=False)
class OptimizerDescription:
    """The whole optimizer."""

    kind: OptimizerKind
    groups: tuple[ParameterGroup, ...]
    max_norm: float | None
    states: Mapping[str, str]  # "exp_avg:weight" -> the variable that holds it
    betas: tuple[float, float] | None = None
    powers: Mapping[str, str] = field(default_factory=dict)  # parameter -> the variable with its power of beta2

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group.parameters)

    def make_spec(self, *, loss_scaling: bool = False, bias_correction: bool = True) -> OptimizerSpec:
        """The structure that capture wants."""
        members = [group.parameters for group in self.groups]
        more: dict[str, Any] = {"lr": 0.0} if bias_correction else {"lr": 0.0, "bias_correction": False}
        settings = [{**group.settings, **more} for group in self.groups]
        groups = describe_groups(self.kind, members, settings)
        return OptimizerSpec(self.kind, groups, max_grad_norm=self.max_norm, loss_scaling=loss_scaling)


@dataclass(frozen=True, slots=True)
class _Gradient:
    """A gradient and what was done to it."""

    decay: float = 0.0
    max_norm: float | None = None


@dataclass(frozen=True, slots=True)
class _Value:
    """Something on the way of a gradient: kind and number."""

    kind: str  # constant, decay, norm, bounded, factor
    number: float = 0.0


@dataclass(eq=False)
class _Reader:
    """Follows the values of update ops by name, in order."""

    parameters: frozenset[str]
    values: dict[str, _Gradient | _Value | Rate] = field(default_factory=dict)

    def read(self, op: PaddleOp) -> None:
        names = op.list_inputs()
        values = [self.values.get(name) for name in names]
        result = self._judge(op, names, values)
        if result is not None:
            self.values.update(dict.fromkeys(op.list_outputs(), result))

    def _judge(self, op: PaddleOp, names: list[str], values: list[Any]) -> _Gradient | _Value | Rate | None:
        kind = op.type
        gradients = [value for value in values if isinstance(value, _Gradient)]
        gradients += [
            _Gradient() for name, value in zip(names, values, strict=True) if value is None and "@GRAD" in name
        ]
        kinds = {value.kind for value in values if isinstance(value, _Value)}
        numbers = [value.number for value in values if isinstance(value, _Value)]
        if kind == "fill_constant":
            text = str(op.attributes.get("str_value") or "")
            return _Value("constant", float(text) if text else float(op.attributes.get("value", 0.0)))
        if kind in ("assign", "cast", "reshape2"):
            return gradients[0] if gradients else next((value for value in values if value is not None), None)
        if kind == "scale" and not gradients:
            factor = float(op.attributes.get("scale", 1.0))
            if names and names[0] in self.parameters:
                return _Value("decay", factor)
            rate = values[0] if isinstance(values[0], Rate) else Rate(names[0])
            return replace(rate, factor=rate.factor * factor)
        if kind in ("squared_l2_norm", "square", "reduce_sum", "sqrt", "sum", "add_n", "elementwise_mul", "stack"):
            if kind in ("sum", "elementwise_mul") and "decay" in kinds and gradients:
                return replace(gradients[0], decay=numbers[0])
            if kind == "elementwise_mul" and "factor" in kinds and gradients:
                return replace(gradients[0], max_norm=numbers[0])
            if kind == "sum" and len(names) == 1 and gradients:
                return gradients[0]
            if kind != "elementwise_mul":
                return _Value("norm")
        if kind == "elementwise_add" and "decay" in kinds and gradients:
            return replace(gradients[0], decay=numbers[0])
        if kind == "elementwise_max" and kinds == {"constant", "norm"}:
            return _Value("bounded", max(numbers))
        if kind == "elementwise_div" and "bounded" in kinds and "constant" in kinds:
            return _Value("factor", max(numbers))
        raise TranslationError(
            f"op {op.number} ({kind}) changes {names[0] if names else 'a gradient'!r} before the update, in a way that "
            "an IPU's optimizer does not: limit gradients by paddle.nn.ClipGradByGlobalNorm, decay weights by L2Decay."
        )


def describe_updates(ops: Sequence[PaddleOp], schedules: Sequence[PaddleOp] = ()) -> OptimizerDescription:
    """The optimizer that some update ops are."""
    updates = [op for op in ops if op.type in _KINDS]
    if not updates:
        others = sorted({op.type for op in ops})
        raise TranslationError(
            f"The program has no optimizer that an IPU knows{' among ' + ', '.join(others) if others else ''}. Known: "
            f"{', '.join(sorted(_KINDS))}. Call optimizer.minimize(loss) before the program is compiled."
        )
    types = sorted({op.type for op in updates})
    if len(types) > 1:
        raise TranslationError(
            f"The program has several optimizers ({', '.join(types)}), and an IPU's program has one."
        )
    kind_name, slots = _KINDS[types[0]]
    if kind_name not in set(OptimizerKind):
        raise TranslationError(f"The optimizer {types[0]} has no update rule.")
    kind = OptimizerKind(kind_name)
    reader = _Reader(frozenset(_need(op, "Param") for op in updates))
    groups: dict[Any, list[str]] = {}
    found: dict[Any, ParameterGroup] = {}
    states: dict[str, str] = {}
    powers: dict[str, str] = {}
    norms: set[float | None] = set()
    for op in ops:
        if op.type not in _KINDS:
            if op.type not in ("increment", "share_data", "conditional_block"):
                reader.read(op)
            continue
        parameter = _need(op, "Param")
        gradient = reader.values.get(_need(op, "Grad"), _Gradient())
        rate = reader.values.get(_need(op, "LearningRate"), Rate(_need(op, "LearningRate")))
        if not isinstance(gradient, _Gradient) or not isinstance(rate, Rate):
            raise TranslationError(
                f"op {op.number} ({op.type}) updates {parameter!r} by something that is no gradient."
            )
        norms.add(gradient.max_norm)
        settings = _read_settings(op, gradient)
        key = (rate, tuple(sorted(settings.items())))
        groups.setdefault(key, []).append(parameter)
        found[key] = ParameterGroup((), rate, settings)
        if "Beta2Pow" in op.inputs:
            powers[parameter] = op.inputs["Beta2Pow"][0]
        states.update({f"{name}:{parameter}": op.inputs[slot][0] for name, slot in slots.items() if slot in op.inputs})
    limit = next((norm for norm in norms if norm is not None), None)
    if len(norms) > 1:
        raise TranslationError("Some gradients are clipped by a global norm and others are not: clip all, or none.")
    chosen = tuple(replace(found[key], parameters=tuple(names)) for key, names in groups.items())
    betas = chosen[0].settings.get("betas")
    return OptimizerDescription(kind, chosen, limit, states, betas, powers)


def _need(op: PaddleOp, slot: str) -> str:
    name = op.one_input(slot)
    if name is None:
        raise TranslationError(f"op {op.number} ({op.type}) has nothing in its slot {slot}. The program is damaged.")
    return name


def _read_settings(op: PaddleOp, gradient: _Gradient) -> dict[str, Any]:
    """Settings of one update op, in torch's words."""
    attributes = op.attributes

    def number(name: str, default: float) -> float:
        value = attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    settings: dict[str, Any] = {"weight_decay": gradient.decay}
    if op.type in ("adam", "adamw", "adamax", "lamb"):
        settings["betas"] = (number("beta1", 0.9), number("beta2", 0.999))
        settings["eps"] = number("epsilon", 1e-6 if op.type == "lamb" else 1e-8)
    if op.type == "momentum":
        settings["momentum"] = number("mu", 0.9)
        settings["nesterov"] = bool(attributes.get("use_nesterov", False))
        if attributes.get("regularization_method") == "l2_decay":
            settings["weight_decay"] = gradient.decay + number("regularization_coeff", 0.0)
    elif op.type == "adamw":
        settings["weight_decay"] = number("coeff", 0.01) if attributes.get("with_decay", True) else 0.0
    elif op.type == "lamb":
        settings["weight_decay"] = number("weight_decay", 0.01)
        settings["max_weight_norm"] = 65504.0
        # Paddle leaves the steps of weights without decay as they are
        settings["no_trust_ratio"] = not settings["weight_decay"] and not attributes.get("always_adapt", False)
    elif op.type == "adagrad":
        settings["eps"] = number("epsilon", 1e-6)
    elif op.type == "adadelta":
        settings |= {"alpha": number("rho", 0.95), "eps": number("epsilon", 1e-6)}
    elif op.type == "rmsprop":
        settings |= {"alpha": number("decay", 0.95), "eps": number("epsilon", 1e-6), "use_tf_variant": True}
        settings |= {"momentum": number("momentum", 0.0), "centered": bool(attributes.get("centered", False))}
    return settings
