"""Normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.paddle.calls import Answer, Call, translates
from openipu.translate.paddle.ops.products import from_channel_first, to_channel_first


def _spread(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return values.reshape(1, -1, *[1] * (x.dim() - 2))


@translates("batch_norm", "sync_batch_norm")
def batch_norm(call: Call) -> Answer:
    """Variances are those of the batch itself, without Bessel's correction, in the running one as well."""
    x = to_channel_first(call, call.tensor("X"))
    weight, bias, mean, variance = (call.maybe(slot) for slot in ("Scale", "Bias", "Mean", "Variance"))
    if mean is None or variance is None:
        call.fail("needs the statistics Mean and Variance")
    epsilon, momentum = call.number("epsilon", 1e-5), call.number("momentum", 0.9)
    if call.flag("use_global_stats") or (call.flag("is_test") and not call.flag("trainable_statistics")):
        result = F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)
        return {"Y": from_channel_first(call, result), "MeanOut": mean, "VarianceOut": variance}
    axes = (0, *range(2, x.dim()))
    wide = x.detach().to(mean.dtype)
    now = wide.mean(axes)
    spread = ((wide - _spread(now, x)) ** 2).mean(axes)
    result = F.batch_norm(x, None, None, weight, bias, True, 0.0, epsilon)
    return {
        "Y": from_channel_first(call, result),
        "MeanOut": mean * momentum + now * (1 - momentum),
        "VarianceOut": variance * momentum + spread * (1 - momentum),
        "SavedMean": now,
        "SavedVariance": (spread + epsilon) ** -0.5,
    }


@translates("layer_norm")
def layer_norm(call: Call) -> Answer:
    x, weight, bias = call.tensor("X"), call.maybe("Scale"), call.maybe("Bias")
    axis = call.whole("begin_norm_axis", 1) % x.dim()
    sizes = list(x.shape[axis:])
    weight = None if weight is None else weight.reshape(sizes).to(x.dtype)
    bias = None if bias is None else bias.reshape(sizes).to(x.dtype)
    return {"Y": F.layer_norm(x, sizes, weight, bias, call.number("epsilon", 1e-5))}


@translates("group_norm")
def group_norm(call: Call) -> Answer:
    x, weight, bias = to_channel_first(call, call.tensor("X")), call.maybe("Scale"), call.maybe("Bias")
    result = F.group_norm(x, call.whole("groups", 1), weight, bias, call.number("epsilon", 1e-5))
    return {"Y": from_channel_first(call, result)}


@translates("instance_norm")
def instance_norm(call: Call) -> Answer:
    x = call.tensor("X")
    epsilon = call.number("epsilon", 1e-5)
    return {"Y": F.instance_norm(x, None, None, call.maybe("Scale"), call.maybe("Bias"), True, 0.0, epsilon)}


@translates("data_norm")
def data_norm(call: Call) -> Answer:
    x, size = call.tensor("X"), call.tensor("BatchSize")
    mean = call.tensor("BatchSum") / size
    scale = torch.sqrt(size / call.tensor("BatchSquareSum"))
    result = (x - mean) * scale
    weight, bias = call.maybe("scale_w"), call.maybe("bias")
    if weight is not None and bias is not None:
        result = result * weight + bias
    return {"Y": result, "Means": mean, "Scales": scale}


@translates("affine_channel")
def affine_channel(call: Call) -> Answer:
    x = to_channel_first(call, call.tensor("X"))
    result = x * _spread(call.tensor("Scale"), x) + _spread(call.tensor("Bias"), x)
    return from_channel_first(call, result)


@translates("lrn")
def local_response_norm(call: Call) -> Answer:
    x, size = call.tensor("X"), call.whole("n", 5)
    start = (size - 1) // 2
    squares = F.pad(x * x, [0, 0, 0, 0, start, size - start - 1])
    total = squares.narrow(1, 0, x.shape[1])
    for step in range(1, size):
        total = total + squares.narrow(1, step, x.shape[1])
    middle = call.number("k", 2.0) + call.number("alpha", 1e-4) * total
    return {"Out": x / middle ** call.number("beta", 0.75), "MidOut": middle}


@translates("softmax")
def softmax(call: Call) -> Answer:
    return torch.softmax(call.tensor("X"), call.whole("axis", -1))


@translates("log_softmax")
def log_softmax(call: Call) -> Answer:
    return torch.log_softmax(call.tensor("X"), call.whole("axis", -1))
