"""Shapes of recurrent layers, whose kernels hand raw memory to a library.

In: the arguments of a layer or of its gradient, by name. Out: the argument that does not fit the others, if one does
not. Every argument is a product of four sizes: time steps, batch, features, hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openipu.admission.geometry import Geometry
from openipu.graph.recurrent import gru, lstm

Problem = tuple[str, str] | None
_RNN_GATES, _GRU_GATES = 1, 3


def _make_rule(gates: int, saved: int) -> Callable[[Mapping[str, Any]], Problem]:
    def check(arguments: Mapping[str, Any]) -> Problem:
        source, hidden = arguments["input"], arguments["hidden"]
        if len(source.shape) != 3 or not all(source.shape):
            return "input", f"{source} is not a sequence of [time, batch, features]"
        if len(hidden.shape) != 2 or not all(hidden.shape):
            return "hidden", f"{hidden} is not a state of [batch, hidden]"
        (time, batch, features), width = source.shape, hidden.shape[1]
        state, sequence, rows = (batch, width), (time, batch, width), gates * width
        shapes = {
            "hidden": state,
            "cell": state,
            "grad_last_hidden": state,
            "grad_last_cell": state,
            "output": sequence,
            "cells": sequence,
            "grad_output": sequence,
            "gates": (time, batch, saved * width),
            "weight_input": (rows, features),
            "weight_hidden": (rows, width),
            **dict.fromkeys(("bias", "bias_input", "bias_hidden"), (rows,)),
        }
        for name, shape in shapes.items():
            tensor = arguments.get(name)
            if tensor is None:
                continue
            if not isinstance(tensor, Geometry) or tensor.shape != shape:
                return name, f"{tensor} should have the shape {list(shape)}"
            if not tensor.dtype.is_floating_point:
                return name, f"{tensor} should hold floating-point numbers"
        return None

    return check


RECURRENT_RULES: Mapping[str, Callable[[Mapping[str, Any]], Problem]] = {
    f"{name}{suffix}": rule
    for name, rule in {
        "lstm_layer": _make_rule(lstm.GATES, lstm.GATES),
        "gru_layer": _make_rule(_GRU_GATES, gru.SAVED),
        "rnn_layer": _make_rule(_RNN_GATES, _RNN_GATES),
    }.items()
    for suffix in ("", "_backward")
}
