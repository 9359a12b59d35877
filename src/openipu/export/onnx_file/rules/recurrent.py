"""Recurrent layers, for inference.

In: our own layers, one direction each. Out: ONNX's LSTM, GRU and RNN, with gates in ONNX's order. Layers that keep what
their backward reads are written out, step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openipu.export.onnx_file.site import Rules, Site
from openipu.export.onnx_file.writer import Value

_LSTM_ORDER = (0, 3, 1, 2)  # PyTorch: input, forget, cell, output. ONNX: input, output, forget, cell
_GRU_ORDER = (1, 0, 2)  # PyTorch: reset, update, new. ONNX: update, reset, new


def _reorder(site: Site, value: Value, order: Sequence[int]) -> Value:
    """Gates along the first axis in another order, with ONNX's axis of directions in front."""
    width = value.shape[0] // len(order)
    parts = [site.slice(value, 0, place * width, (place + 1) * width) for place in order]
    joined = parts[0] if len(parts) == 1 else site.make("Concat", parts, value.shape, value.dtype, axis=0)
    return site.reshape(joined, [1, *value.shape])


def _join_biases(site: Site, first: Value | None, second: Value | None, order: Sequence[int]) -> Value | None:
    if first is None:
        return None
    if second is None:
        second = site.writer.constant(torch.zeros(first.shape, dtype=first.dtype))
    both = [_reorder(site, value, order) for value in (first, second)]
    return site.make("Concat", both, [1, 2 * first.shape[0]], first.dtype, axis=1)


def _run(
    site: Site, op: str, order: Sequence[int], biases: Value | None, states: Sequence[Value], **attributes: Any
) -> tuple[Value, ...]:
    source, hidden = site.input, site.hidden
    time, batch, _ = source.shape
    width = hidden.shape[-1]
    inputs = [
        source,
        _reorder(site, site.weight_input, order),
        _reorder(site, site.weight_hidden, order),
        biases,
        None,
        *(site.reshape(state, [1, *state.shape]) for state in states),
    ]
    shapes = [(time, 1, batch, width), *[(1, batch, width)] * len(states)]
    found = site.writer.add(
        op,
        inputs,
        [(shape, site.dtype) for shape in shapes],
        hidden_size=width,
        direction="reverse" if site.reverse else "forward",
        **attributes,
    )
    return (
        site.reshape(found[0], (time, batch, width)),
        *(site.reshape(value, (batch, width)) for value in found[1:]),
    )


def _lstm(site: Site) -> tuple[Value | None, ...]:
    if site.training:
        raise NotImplementedError
    biases = _join_biases(site, site.bias, None, _LSTM_ORDER)
    return (*_run(site, "LSTM", _LSTM_ORDER, biases, (site.hidden, site.cell)), None, None)


def _gru(site: Site) -> tuple[Value | None, ...]:
    if site.training:
        raise NotImplementedError
    biases = _join_biases(site, site.bias_input, site.bias_hidden, _GRU_ORDER)
    return (*_run(site, "GRU", _GRU_ORDER, biases, (site.hidden,), linear_before_reset=1), None)


def _rnn(site: Site) -> tuple[Value, ...]:
    biases = _join_biases(site, site.bias, None, (0,))
    activation = ["Relu" if site.rectify else "Tanh"]
    return _run(site, "RNN", (0,), biases, (site.hidden,), activations=activation)


RULES: Rules = {"openipu.lstm_layer": _lstm, "openipu.gru_layer": _gru, "openipu.rnn_layer": _rnn}
