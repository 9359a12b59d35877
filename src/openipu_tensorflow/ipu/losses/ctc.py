"""Connectionist temporal classification: its loss, and the search for the likeliest labels."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> Any:
    """The loss of each sequence. labels [batch, longest], logits [time, batch, classes]."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import nn_ops

    value = ops.convert_to_tensor(logits)
    kind = _choose_dtype(value, out_dtype, "logits")
    return _lose(labels, nn_ops.log_softmax_v2(value, axis=2), label_length, logit_length, blank_index, kind)


def ctc_loss_with_log_probs(
    labels: Any,
    data: Any,
    label_length: Any,
    data_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> Any:
    """As `ctc_loss_v2`, of logarithms of probabilities."""
    from tensorflow.python.framework import ops

    value = ops.convert_to_tensor(data)
    return _lose(labels, value, label_length, data_length, blank_index, _choose_dtype(value, out_dtype, "data"))


def _choose_dtype(value: Any, wanted: Any, what: str) -> Any:
    from tensorflow.python.framework import dtypes

    kind = value.dtype if wanted is None else dtypes.as_dtype(wanted)
    if kind == dtypes.float16 and value.dtype == dtypes.float32:
        raise ValueError(f"out_dtype cannot be float16 when dtype of {what} is float32.")
    return kind


def _lose(labels: Any, data: Any, label_length: Any, data_length: Any, blank: int, kind: Any) -> Any:
    from tensorflow.python.ops import custom_gradient, math_ops

    batch = data.shape[1]

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def lose(value: Any) -> Any:
        results = [(kind, [batch]), (value.dtype, value.shape)]
        given = [labels, value, label_length, data_length]
        each, slope = add_device_op("IpuCtcLossWithLogProbs", given, results, {"blank": blank})

        def backward(upstream: Any) -> Any:
            return slope * math_ops.cast(upstream[None, :, None], slope.dtype)

        return each, backward

    return lose(data)


def ctc_beam_search_decoder(
    logits: Any,
    logits_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Any:
    """(logarithms of probabilities [batch, paths], lengths [batch, paths], labels [batch, paths, time])."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import nn_ops

    data = nn_ops.log_softmax_v2(ops.convert_to_tensor(logits), axis=2)
    return ctc_beam_search_decoder_with_log_probs(data, logits_lengths, beam_width, top_paths, blank_index)


def ctc_beam_search_decoder_with_log_probs(
    log_probs: Any,
    input_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Any:
    """As `ctc_beam_search_decoder`, of logarithms of probabilities."""
    from tensorflow.python.framework import dtypes, ops

    data = ops.convert_to_tensor(log_probs)
    steps, batch, classes = data.shape.as_list()
    if not 1 <= top_paths <= beam_width:
        raise ValueError(f"top_paths ({top_paths}) must be at least 1 and no more than beam_width ({beam_width}).")
    options = {"blank": blank_index % classes, "beam_width": beam_width, "top_paths": top_paths}
    paths = [batch, top_paths]
    results = [(data.dtype, paths), (dtypes.int32, paths), (dtypes.int32, [*paths, steps])]
    return tuple(add_device_op("IpuCtcBeamSearch", [data, input_lengths], results, options))
