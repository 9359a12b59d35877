"""LSTM, GRU and RNN, with ONNX's orders of gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Activation = Callable[[torch.Tensor], torch.Tensor]
Step = Callable[[torch.Tensor, tuple[torch.Tensor, ...]], tuple[torch.Tensor, ...]]


@rule("LSTM")
def lstm(site: Site) -> Results:
    return _run_layer(site, 4, _make_lstm, 2)


@rule("GRU")
def gru(site: Site) -> Results:
    return _run_layer(site, 3, _make_gru, 1)


@rule("RNN")
def rnn(site: Site) -> Results:
    return _run_layer(site, 1, _make_rnn, 1)


# torch's function for each, and where its gates lie among ONNX's: i o f c is i f c o there, z r h is r z h.
_FUSED: dict[str, tuple[Callable[..., Sequence[torch.Tensor]], tuple[int, ...], tuple[str, ...]]] = {
    "LSTM": (torch.lstm, (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (torch.gru, (1, 0, 2), ("Sigmoid", "Tanh")),
    "RNN": (torch.rnn_tanh, (0,), ("Tanh",)),
}


def _is_plain(site: Site, directions: int) -> bool:
    """Is it a layer as torch has them, and so one op of the program?"""
    usual = _FUSED[site.node.op][2] * directions
    names = tuple(name.capitalize() for name in site.get("activations", None) or usual)
    odd = site.has(4) or site.has(7) or site.get("clip", None) is not None or site.get("input_forget", 0)
    reset_before = site.node.op == "GRU" and not site.get("linear_before_reset", 0)
    return names == usual and not odd and not reset_before and site.input(0).shape[0] > 0


def _run_fused(
    site: Site, x: torch.Tensor, start: Sequence[torch.Tensor], backwards: Sequence[bool], hidden: int
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The results [time, direction, batch, hidden], and the last states."""
    function, order, _ = _FUSED[site.node.op]
    turned = backwards == [True]
    parts: list[torch.Tensor] = []
    for number in range(len(backwards)):
        weights, recurrence, bias = _read_parts(site, number, len(order), hidden)
        both = bias.chunk(2)
        for entry in (weights, recurrence, *both) if site.has(3) else (weights, recurrence):
            gates = entry.reshape(len(order), hidden, -1)
            moved = torch.cat([gates[place : place + 1] for place in order]) if len(order) > 1 else gates
            parts.append(moved.reshape(entry.shape))
    state = tuple(start) if len(start) > 1 else start[0]
    source = x.flip(0) if turned else x
    found = function(source, state, parts, site.has(3), 1, 0.0, site.training, len(backwards) > 1, False)
    sequence = found[0].flip(0) if turned else found[0]
    return sequence.reshape(*x.shape[:2], len(backwards), hidden).transpose(1, 2), list(found[1:])


def _run_layer(site: Site, gates: int, make: Callable[..., Step], states: int) -> Results:
    x = site.input(0)
    turned = bool(site.get("layout", 0))
    if turned:
        x = x.transpose(0, 1)
    direction = site.get("direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if backwards is None:
        site.fail(f"has the unknown direction {direction!r}")
    weights = site.input(1)
    hidden = site.get("hidden_size", weights.shape[1] // gates)
    start = [_read_state(site, 5 + place, x, len(backwards), hidden, turned) for place in range(states)]
    if _is_plain(site, len(backwards)):
        sequence, ends = _run_fused(site, x, start, backwards, hidden)
        return _turn(sequence, ends) if turned else [sequence, *ends]
    site.check_steps(x.shape[0])
    lengths = site.optional(4)
    outputs, finals = [], []
    for number, reverse in enumerate(backwards):
        step = make(site, number, len(backwards), hidden)
        own = tuple(state[number] for state in start)
        found, last = _run_direction(x, step, own, reverse, lengths)
        outputs.append(found)
        finals.append(last)
    sequence = torch.stack(outputs, 1)  # [time, direction, batch, hidden]
    ends = [torch.stack([last[place] for last in finals]) for place in range(states)]
    return _turn(sequence, ends) if turned else [sequence, *ends]


def _turn(sequence: torch.Tensor, ends: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """With the batch in front, as another layout has it."""
    return [sequence.permute(2, 0, 1, 3), *(end.transpose(0, 1) for end in ends)]


def _read_state(site: Site, place: int, x: torch.Tensor, directions: int, hidden: int, turned: bool) -> torch.Tensor:
    given = site.optional(place)
    if given is None:
        return torch.zeros((directions, x.shape[1], hidden), dtype=x.dtype)
    return given.transpose(0, 1) if turned else given


def _run_direction(
    x: torch.Tensor, step: Step, state: tuple[torch.Tensor, ...], reverse: bool, lengths: torch.Tensor | None
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    time = x.shape[0]
    order = range(time - 1, -1, -1) if reverse else range(time)
    outputs: list[torch.Tensor] = [x.new_empty(0)] * time
    for place in order:
        new = step(x[place], state)
        shown = new[0]
        if lengths is not None:
            inside = (lengths > place).reshape(-1, 1)
            new = tuple(torch.where(inside, fresh, old) for fresh, old in zip(new, state, strict=True))
            shown = torch.where(inside, shown, torch.zeros_like(shown))
        state = new
        outputs[place] = shown
    return torch.stack(outputs), state


def _read_parts(site: Site, number: int, gates: int, hidden: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weights, recurrence = site.input(1)[number], site.input(2)[number]
    bias = site.optional(3)
    both = torch.zeros(2 * gates * hidden, dtype=weights.dtype) if bias is None else bias[number]
    return weights, recurrence, both


def _make_lstm(site: Site, number: int, directions: int, hidden: int) -> Step:
    weights, recurrence, bias = _read_parts(site, number, 4, hidden)
    total = bias[: 4 * hidden] + bias[4 * hidden :]
    sigmoid, tanh, last = _read_activations(site, number, directions, ("Sigmoid", "Tanh", "Tanh"))
    peepholes = site.optional(7)
    clip = site.get("clip", None)
    coupled = bool(site.get("input_forget", 0))

    def step(x: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden_state, cell = state
        both = torch.matmul(x, weights.t()) + torch.matmul(hidden_state, recurrence.t()) + total
        entering, leaving, forgetting, new = both.chunk(4, -1)  # ONNX has them in the order i, o, f, c
        if peepholes is not None:
            p_in, p_out, p_forget = peepholes[number].chunk(3)
            entering, forgetting = entering + p_in * cell, forgetting + p_forget * cell
        gate = sigmoid(_clip(entering, clip))
        keep = 1 - gate if coupled else sigmoid(_clip(forgetting, clip))
        cell = keep * cell + gate * tanh(_clip(new, clip))
        if peepholes is not None:
            leaving = leaving + p_out * cell
        return sigmoid(_clip(leaving, clip)) * last(cell), cell

    return step


def _make_gru(site: Site, number: int, directions: int, hidden: int) -> Step:
    weights, recurrence, bias = _read_parts(site, number, 3, hidden)
    own, other = bias[: 3 * hidden], bias[3 * hidden :]
    sigmoid, tanh = _read_activations(site, number, directions, ("Sigmoid", "Tanh"))
    clip, reset_after = site.get("clip", None), bool(site.get("linear_before_reset", 0))
    w_gates, w_new = weights[: 2 * hidden], weights[2 * hidden :]
    r_gates, r_new = recurrence[: 2 * hidden], recurrence[2 * hidden :]

    def step(x: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        (before,) = state
        gates = torch.matmul(x, w_gates.t()) + torch.matmul(before, r_gates.t())
        gates = sigmoid(_clip(gates + own[: 2 * hidden] + other[: 2 * hidden], clip))
        update, reset = gates.chunk(2, -1)
        fresh = torch.matmul(x, w_new.t()) + own[2 * hidden :]
        if reset_after:
            fresh = fresh + reset * (torch.matmul(before, r_new.t()) + other[2 * hidden :])
        else:
            fresh = fresh + torch.matmul(reset * before, r_new.t()) + other[2 * hidden :]
        return ((1 - update) * tanh(_clip(fresh, clip)) + update * before,)

    return step


def _make_rnn(site: Site, number: int, directions: int, hidden: int) -> Step:
    weights, recurrence, bias = _read_parts(site, number, 1, hidden)
    total = bias[:hidden] + bias[hidden:]
    (tanh,) = _read_activations(site, number, directions, ("Tanh",))
    clip = site.get("clip", None)

    def step(x: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        both = torch.matmul(x, weights.t()) + torch.matmul(state[0], recurrence.t()) + total
        return (tanh(_clip(both, clip)),)

    return step


def _clip(x: torch.Tensor, limit: float | None) -> torch.Tensor:
    return x if limit is None else torch.clamp(x, -limit, limit)


def _read_activations(site: Site, number: int, directions: int, usual: Sequence[str]) -> list[Activation]:
    names = site.get("activations", None) or list(usual) * directions
    alphas, betas = list(site.get("activation_alpha", None) or []), list(site.get("activation_beta", None) or [])
    found: list[Activation] = []
    for name in names:
        alpha = alphas.pop(0) if alphas and name.lower() in _WITH_ALPHA else None
        beta = betas.pop(0) if betas and name.lower() in _WITH_BETA else None
        found.append(_find_activation(site, name, alpha, beta))
    return found[number * len(usual) : (number + 1) * len(usual)]


_WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _find_activation(site: Site, name: str, alpha: float | None, beta: float | None) -> Activation:
    def choose(value: float | None, default: float) -> float:
        return default if value is None else value

    known: dict[str, Activation] = {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "softsign": lambda x: x / (1 + x.abs()),
        "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
        "affine": lambda x: choose(alpha, 1.0) * x + choose(beta, 0.0),
        "leakyrelu": lambda x: torch.where(x < 0, x * choose(alpha, 0.01), x),
        "thresholdedrelu": lambda x: torch.where(x > choose(alpha, 1.0), x, torch.zeros_like(x)),
        "scaledtanh": lambda x: choose(alpha, 1.0) * torch.tanh(choose(beta, 1.0) * x),
        "hardsigmoid": lambda x: torch.clamp(choose(alpha, 0.2) * x + choose(beta, 0.5), 0, 1),
        "elu": lambda x: torch.where(x < 0, choose(alpha, 1.0) * torch.expm1(x), x),
    }
    activation = known.get(name.lower())
    if activation is None:
        site.fail(f"has the unknown activation {name!r}")
    return activation
