"""Layers: norms, LSTM, several convolutions as one, dropout by shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import group_convolutions
from openipu.translate.kit.padding import pad_edges
from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.onnx.ops.norms import normalise_batch
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

STRIDED_CHANNELS = "__strided_channels"  # of PopART's option for it


@rule("GroupNormalization", domain=DOMAIN)
def group_norm(site: Site) -> Results:
    """The result, and mean and inverse deviation of each group of each sample."""
    x, scale, bias, groups = site.input(0), site.input(1), site.input(2), site.get("num_groups")
    epsilon = site.get("epsilon", 1e-5)
    if site.get(STRIDED_CHANNELS, 0):  # a group has every so many-th channel, instead of so many in a row
        strided = x.reshape(x.shape[0], -1, groups, *x.shape[2:]).transpose(1, 2)
        plain = F.group_norm(strided.flatten(1, 2), groups, None, None, epsilon)
        back = plain.reshape(strided.shape).transpose(1, 2).flatten(1, 2)
        rest = [1] * (x.dim() - 2)
        result, x = back * scale.reshape(1, -1, *rest) + bias.reshape(1, -1, *rest), strided.flatten(1, 2)
    else:
        result = F.group_norm(x, groups, scale, bias, epsilon)
    if not (site.wants(1) or site.wants(2)):
        return [result]
    flat = x.reshape(x.shape[0] * groups, -1).to(torch.float32)
    mean = flat.mean(1)
    inverse = torch.rsqrt(((flat - mean[:, None]) ** 2).mean(1) + epsilon)
    return [result, mean.to(x.dtype), inverse.to(x.dtype)]


@rule("BatchNormalization", domain=DOMAIN, writes=(3, 4))
def batch_norm(site: Site) -> Results:
    return normalise_batch(site, training=site.results > 1)


@rule("LSTM", domain=DOMAIN)
def lstm(site: Site) -> Results:
    """One layer with weights [4, input + hidden, hidden], in the order forget, input, cell, output."""
    x, weights = site.input(0), site.input(1)
    hidden = weights.shape[2]
    if list(weights.shape) != [4, x.shape[2] + hidden, hidden]:
        site.fail(f"needs weights of the shape [4, {x.shape[2] + hidden}, {hidden}], not {list(weights.shape)}")
    order = torch.cat((weights[1:2], weights[0:1], weights[2:]))  # torch has input, forget, cell, output
    matrix = order.transpose(1, 2).reshape(4 * hidden, -1)
    bias = site.optional(2)
    both = [matrix[:, : x.shape[2]], matrix[:, x.shape[2] :]]
    if bias is not None:
        total = torch.cat((bias[1:2], bias[0:1], bias[2:])).reshape(-1)
        both += [total, torch.zeros_like(total)]
    state = site.optional(3)
    if state is None:
        state = torch.zeros((2, x.shape[1], hidden), dtype=x.dtype)
    lengths = site.optional(4)
    if lengths is None:
        starts = (state[0:1], state[1:2])
        output, last, cell = torch.lstm(x, starts, both, bias is not None, 1, 0.0, site.training, False, False)
        last, cell = last[0], cell[0]
    else:
        site.check_steps(x.shape[0])
        output, last, cell = _run_to_lengths(x, state, both, lengths)
    return [output if site.get("output_full_sequence", 1) else last, cell]


def _run_to_lengths(
    x: torch.Tensor, state: torch.Tensor, parts: list[torch.Tensor], lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Step by step: a sequence that is over keeps its state, and its results are zeros."""
    hidden, cell, outputs = state[0], state[1], []
    for step in range(x.shape[0]):
        gates = torch.matmul(x[step], parts[0].t()) + torch.matmul(hidden, parts[1].t())
        gates = gates + parts[2] if len(parts) > 2 else gates
        entering, forgetting, fresh, leaving = gates.chunk(4, -1)
        new_cell = torch.sigmoid(forgetting) * cell + torch.sigmoid(entering) * torch.tanh(fresh)
        new_hidden = torch.sigmoid(leaving) * torch.tanh(new_cell)
        inside = (lengths.to(torch.int64) > step).reshape(-1, 1)
        outputs.append(torch.where(inside, new_hidden, torch.zeros_like(new_hidden)))
        hidden, cell = torch.where(inside, new_hidden, hidden), torch.where(inside, new_cell, cell)
    return torch.stack(outputs), hidden, cell


@rule("MultiConv", domain=DOMAIN, folds=False)
def convolve_all(site: Site) -> Results:
    """Several convolutions, each with data, weights and perhaps a bias, that share the IPU."""
    count = site.get("numConvs", site.count // 3)
    if count < 1 or site.count < 3 * count - 1:
        site.fail(f"needs three inputs for each of {count} convolutions, and has {site.count}")
    ranks = [site.input(3 * number).dim() - 2 for number in range(count)]
    results: list[torch.Tensor] = []
    with group_convolutions({}):
        first = 0
        for number, rank in enumerate(ranks):
            results.append(_convolve(site, number, first, rank))
            first += rank
    return results


def _convolve(site: Site, number: int, first: int, rank: int) -> torch.Tensor:
    """`first`: how many spatial dimensions the convolutions before it have; the attributes lie one behind the other."""
    x, weight, bias = (site.optional(3 * number + place) for place in range(3))
    if x is None or weight is None:
        site.fail(f"has no data or no weights for its convolution {number}")

    def read(name: str, usual: int, times: int = 1) -> list[int]:
        values = site.get(name, None)
        return [usual] * rank * times if not values else list(values[first * times : (first + rank) * times])

    strides, dilations, pads = read("strides", 1), read("dilations", 1), read("pads", 0, 2)
    inner, extra = read("inDilations", 1), read("outPads", 0, 2)
    x = _spread(x, inner)
    x = pad_edges(x, [0, 0, *pads[:rank], 0, 0, *pads[rank:]], "constant", 0.0)
    groups = x.shape[1] // weight.shape[1]
    none = [0] * rank
    result = torch.convolution(x, weight, bias, strides, none, dilations, False, none, groups)
    return pad_edges(result, [0, 0, *extra[:rank], 0, 0, *extra[rank:]], "constant", 0.0)


def _spread(x: torch.Tensor, dilations: list[int]) -> torch.Tensor:
    """Zeros between the elements of each spatial dimension."""
    for place, dilation in enumerate(dilations):
        if dilation == 1:
            continue
        axis = place + 2
        size = x.shape[axis]
        gaps = [0, 0] * (x.dim() - axis - 1) + [0, 0, 0, dilation - 1]
        wide = F.pad(x.unsqueeze(axis + 1).transpose(axis, axis + 1), gaps)
        x = wide.transpose(axis, axis + 1).flatten(axis, axis + 1).narrow(axis, 0, (size - 1) * dilation + 1)
    return x


@rule("ShapedDropout", domain=DOMAIN, folds=False)
def drop_by_shape(site: Site) -> torch.Tensor:
    """Dropout whose mask has a smaller shape, so that whole rows or channels fall away together."""
    x, shape, ratio = site.input(0), list(site.get("shape")), site.number("ratio", 0.5)
    if not 0 <= ratio < 1:
        site.fail(f"has the ratio {ratio}, which lies not between 0 and 1")
    if not site.training or ratio == 0:
        return x
    return x * F.dropout(torch.ones(shape, dtype=x.dtype), ratio, True)
