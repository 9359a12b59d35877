"""Attention in one node, with masks and keys of the past, rotary embeddings, and recurrences over states."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.foreign import ForeignGraph
from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site


@rule("Attention")
def attention(site: Site) -> Results:
    query, key, value = (site.input(place) for place in range(3))
    flat = query.dim() == 3
    if flat:
        query = _part_heads(query, site.get("q_num_heads"))
        key, value = (_part_heads(x, site.get("kv_num_heads")) for x in (key, value))
    if site.has(4):
        key, value = torch.cat((site.input(4), key), 2), torch.cat((site.input(5), value), 2)
    presents = key, value
    if query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    scale = site.get("scale", None)
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = torch.matmul(query * root, (key * root).transpose(-1, -2))
    stages = [scores]
    cap = site.get("softcap", 0.0)
    if cap:
        scores = cap * torch.tanh(scores / cap)
    stages.append(scores)
    bias = _find_bias(site, query, key)
    scores = scores if bias is None else scores + bias
    stages.append(scores)
    weights = _soften(site, scores, masked=bias is not None).to(value.dtype)
    stages.append(weights)
    result = torch.matmul(weights, value)
    if flat:
        result = result.transpose(1, 2).reshape(result.shape[0], result.shape[2], -1)
    return [result, *presents, stages[site.get("qk_matmul_output_mode", 0)]]


def _part_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def _soften(site: Site, scores: torch.Tensor, *, masked: bool) -> torch.Tensor:
    """Softmax; a row in which everything is masked gives zeros."""
    number = site.get("softmax_precision", None)
    wide = scores if number is None else scores.to(find_dtype(number, f"the softmax of {site.node.title}"))
    weights = torch.softmax(wide, -1)
    if not masked:
        return weights
    return torch.where((wide == -math.inf).all(-1, keepdim=True), torch.zeros_like(weights), weights)


def _find_bias(site: Site, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """What is added to the scores: masks as zeros and minus infinity, and a mask of numbers as it is."""
    rows, columns = query.shape[2], key.shape[2]
    lengths = site.optional(6)
    allowed = _find_allowed(site, rows, columns, lengths)
    zero = torch.zeros((), dtype=query.dtype)
    bias = None if allowed is None else torch.where(allowed, zero, zero - math.inf)
    mask = site.optional(3)
    if mask is None:
        return bias
    if mask.shape[-1] < columns:
        mask = F.pad(mask, (0, columns - mask.shape[-1]), value=False if mask.dtype is torch.bool else -math.inf)
    if mask.dtype is torch.bool:
        mask = torch.where(mask, zero, zero - math.inf)
    return mask if bias is None else mask + bias


def _find_allowed(site: Site, rows: int, columns: int, lengths: torch.Tensor | None) -> torch.Tensor | None:
    causal = bool(site.get("is_causal", 0))
    left, right = site.get("left_window_size", -1), site.get("right_window_size", -1)
    keys, queries = torch.arange(columns)[None, :], torch.arange(rows)[:, None]
    if site.has(4):
        here = queries + site.input(4).shape[2]
    elif lengths is not None:
        here = queries + (lengths.to(torch.int64) - rows).reshape(-1, 1, 1, 1)
    else:
        here = queries
    rules: list[torch.Tensor] = []
    if causal:
        rules.append(keys <= here)
    if left >= 0:
        rules.append(keys >= here - left)
    if right >= 0:
        rules.append(keys <= here + right)
    if lengths is not None:
        rules.append(keys < lengths.to(torch.int64).reshape(-1, 1, 1, 1))
    allowed: torch.Tensor | None = None
    for found in rules:
        allowed = found if allowed is None else allowed & found
    return allowed


@rule("FlexAttention", domain="ai.onnx.preview")
def attend_flexibly(site: Site) -> torch.Tensor:
    """Attention with graphs of the user's own for scores and probabilities."""
    query, key, value = (site.input(place) for place in range(3))
    usual = torch.float64 if query.dtype is torch.float64 else torch.float32
    number = site.get("softmax_precision", None)
    wide = usual if number is None else find_dtype(number, f"the softmax of {site.node.title}")
    times = query.shape[1] // key.shape[1]
    if times > 1:
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    scale = site.number("scale", 1 / math.sqrt(query.shape[-1]))
    scores = _modify(site, "score_mod", torch.matmul(query.to(wide), key.to(wide).transpose(-1, -2)) * scale)
    weights = _modify(site, "prob_mod", torch.softmax(scores, -1))
    return torch.matmul(weights, value.to(wide)).to(query.dtype)


def _modify(site: Site, name: str, x: torch.Tensor) -> torch.Tensor:
    graph = site.get(name, None)
    return site.run_body(graph, (x,))[0] if isinstance(graph, ForeignGraph) else x


@rule("RotaryEmbedding")
def rotate(site: Site) -> torch.Tensor:
    x, cosines, sines = (site.input(place) for place in range(3))
    flat = x.dim() == 3
    parts = x.reshape(*x.shape[:2], site.get("num_heads"), -1) if flat else x.transpose(1, 2)
    size = site.get("rotary_embedding_dim", 0) or parts.shape[-1]
    turned, rest = parts[..., :size], parts[..., size:]
    if site.has(3):
        places = site.input(3).to(torch.int64)
        cosines, sines = cosines[places], sines[places]
    cosines, sines = cosines[..., None, : size // 2], sines[..., None, : size // 2]
    pairs = bool(site.get("interleaved", 0))
    first, second = (turned[..., 0::2], turned[..., 1::2]) if pairs else turned.chunk(2, -1)
    real, other = first * cosines - second * sines, first * sines + second * cosines
    joined = torch.stack((real, other), -1).flatten(-2) if pairs else torch.cat((real, other), -1)
    result = torch.cat((joined, rest), -1)
    return result.reshape(x.shape) if flat else result.transpose(1, 2)


@rule("CausalConvWithState")
def convolve_past(site: Site) -> Results:
    x, weight, bias, past = site.input(0), site.input(1), site.optional(2), site.optional(3)
    before = weight.shape[-1] - 1
    known = F.pad(x, (before, 0)) if past is None else torch.cat((past, x), -1)
    result = F.conv1d(known, weight, bias, groups=x.shape[1])
    if site.get("activation", "none") in ("silu", "swish"):
        result = F.silu(result)
    return [result, known[..., known.shape[-1] - before :]]


@rule("LinearAttention")
def attend_linearly(site: Site) -> Results:
    """A state of keys by values, token after token."""
    heads, shared = site.get("q_num_heads"), site.get("kv_num_heads")
    way = site.get("update_rule", "gated_delta")
    dtype = site.input(0).dtype
    wide = torch.float32 if dtype.itemsize < 4 else dtype  # many small steps: half precision would drift
    query = _part_heads(site.input(0).to(wide), heads)
    key, value = (_part_heads(site.input(place).to(wide), shared) for place in (1, 2))
    scale = site.get("scale", 0.0) or 1 / math.sqrt(query.shape[-1])
    batch, _, length, width = key.shape
    site.check_steps(length)
    past = site.optional(3)
    if past is None:
        past = torch.zeros((batch, shared, width, value.shape[-1]), dtype=dtype)
    state = past.to(wide)
    decay = torch.exp(_part_heads(site.input(4).to(wide), shared)) if "gated" in way else None
    rate = _spread_rate(site.input(5).to(wide), shared) if "delta" in way else None
    outputs = []
    for step in range(length):
        row, new = key[:, :, step, :, None], value[:, :, step, None, :]
        if decay is not None:
            state = state * decay[:, :, step, :, None]
        if rate is not None:
            known = torch.matmul(row.transpose(-1, -2), state)
            new = rate[:, :, step, None, None] * (new - known)
        state = state + row * new
        spread = state.repeat_interleave(heads // shared, 1)
        outputs.append(scale * torch.matmul(query[:, :, step, None, :], spread)[:, :, 0])
    result = torch.stack(outputs, 1)  # [batch, time, heads, width]
    return [result.reshape(batch, length, -1).to(dtype), state.to(past.dtype)]


def _spread_rate(rate: torch.Tensor, heads: int) -> torch.Tensor:
    return rate.expand(*rate.shape[:2], heads).transpose(1, 2)
