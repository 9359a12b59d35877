"""Generators of whole models of the families that applications train, with what surrounds them in applications.

States that are pooled, detached and returned; losses that are shifted, masked and of codebooks; shared and strided
convolutions; recurrent layers; tied embeddings; all types of weights, accumulators and optimizer state; micro-batches
and replicas.
"""

from __future__ import annotations

import torch

from generated.patterns import Family
from generated.writer import Writer

_OPTIMIZERS = (
    "torch.optim.SGD(parameters, lr=0.1)",
    "torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True)",
    "torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)",
    "torch.optim.Adam(parameters, lr=0.01, eps=1e-3)",
    "torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, weight_decay=0.1)",
    "torch.optim.RMSprop(parameters, lr=0.01, eps=1e-2, momentum=0.5)",
)


def _train(w: Writer) -> None:
    """An optimizer, micro-batches, replicas, and types of weights, accumulators and state."""
    w.training = w.chance(0.85)
    w.around = w.choose(0.0, 0.0, 0.1)
    w.half = w.chance(0.25)
    w.options["device_iterations"] = w.choose(1, 1, 2)
    if not w.training:
        return
    w.optimizer = w.choose(*_OPTIMIZERS)
    w.options["gradient_accumulation"] = w.choose(1, 1, 2, 3)
    w.options["replicas"] = w.choose(1, 1, 1, 2)
    w.options["batching"] = w.choose(True, True, False)
    if w.chance(0.3):
        w.spec["accumulator_dtype"] = w.choose(torch.float16, torch.float32)
    if "Adam" in w.optimizer and w.chance(0.4):
        w.spec["state_dtypes"] = {"exp_avg": w.choose(torch.float16, torch.float32)}


def _block(w: Writer, name: str, width: int, heads: int, before: bool) -> str:
    """A layer of a transformer."""
    batch, tokens, _ = w.shape(name)
    norm = w.layer(f"nn.LayerNorm({width})", 0.1)
    given = w.let(f"{norm}({name})") if before else name
    query, key, value = (
        w.let(f"{layer}({given}).view({batch}, {tokens}, {heads}, -1).transpose(1, 2)")
        for layer in [w.layer(f"nn.Linear({width}, {width})", 0) for _ in range(3)]
    )
    if w.chance(0.2):
        mixed = w.let(f"F.scaled_dot_product_attention({query}, {key}, {value}, is_causal={w.choose(True, False)})")
    else:
        scores = w.let(f"{query} @ {key}.transpose(-1, -2) / {float(width // heads) ** 0.5}")
        if w.chance(0.4):
            bound = f"torch.full(({tokens}, {tokens}), -1e4, device={scores}.device, dtype={scores}.dtype)"
            scores = w.let(f"{scores} + {bound}.triu(1)")
        mixed = w.let(f"torch.softmax({scores}, -1) @ {value}")
    mixed = w.let(f"{mixed}.transpose(1, 2).reshape({batch}, {tokens}, {width})")
    mixed = w.let(f"{name} + {w.layer(f'nn.Linear({width}, {width})', 0)}({mixed})")
    mixed = mixed if before else w.let(f"{norm}({mixed})")
    inner = w.let(f"{w.layer(f'nn.LayerNorm({width})', 0.1)}({mixed})") if before else mixed
    act = w.choose("F.gelu({x})", "F.gelu({x}, approximate='tanh')", "torch.relu({x})", "F.silu({x})")
    if w.chance(0.3):
        act = "0.5 * {x} * (1 + torch.tanh(math.sqrt(2 / math.pi) * ({x} + 0.044715 * torch.pow({x}, 3.0))))"
    wide = w.let(f"{w.layer(f'nn.Linear({width}, {2 * width})', 0)}({inner})")
    bent = w.let(act.format(x=wide))
    out = w.let(f"{mixed} + {w.layer(f'nn.Linear({2 * width}, {width})', 0)}({bent})")
    return out if before else w.let(f"{w.layer(f'nn.LayerNorm({width})', 0.1)}({out})")


def _encode(w: Writer, words: int) -> tuple[str, str, list[str]]:
    """Embeddings and some layers: the table, the last state, and all of them."""
    batch, tokens, width = w.choose(1, 2, 3), w.choose(2, 3, 5, 8), w.choose(4, 8)
    table = w.layer(f"nn.Embedding({words}, {width}{w.choose('', '', ', padding_idx=0')})", 0)
    hidden = w.let(f"{table}({w.indices(words, batch, tokens)}) + {w.parameter(tokens, width)}")
    if w.chance(0.5):
        hidden = w.let(f"{w.layer(f'nn.LayerNorm({width})')}({hidden})")
    states, before = [hidden], w.chance(0.5)
    for _ in range(w.choose(1, 1, 2, 3)):
        states.append(_block(w, states[-1], width, w.choose(1, 2), before))
    return table, states[-1], states


def encoders(w: Writer) -> None:
    """Transformers with a classifier on one token or on their mean, and states returned or detached."""
    _train(w)
    _, hidden, states = _encode(w, w.choose(7, 30))
    batch, tokens, width = w.shape(hidden)
    kind = w.pick.randrange(5)
    if kind < 2:
        pooled = w.let(f"{hidden}[:, {w.choose(0, -1, tokens // 2)}]")
    elif kind == 2:
        pooled = w.let(f"{hidden}.mean(1)")
    elif kind == 3:
        pooled = w.let(f"{hidden}[torch.arange({batch}), {w.indices(tokens, batch)}]")
    else:
        pooled = w.let(f"{hidden}.amax(1)")
    if w.chance(0.6):
        pooled = w.let(f"torch.tanh({w.layer(f'nn.Linear({width}, {width})', 0)}({pooled}))")
    logits = w.let(f"{w.layer(f'nn.Linear({width}, 3)', 0)}({pooled})")
    if w.training:
        w.lose(f"F.cross_entropy({logits}, {w.indices(3, batch)})")
    for state in states:
        if w.chance(0.3):
            w.give(w.choose(state, f"{state}.detach()", f"{state}[:, 0]", f"{state}[:, 1:].detach()"))
    if w.chance(0.3):
        w.score(f"{hidden}[:, {w.choose(0, 1, -1)}]" if tokens > 1 else hidden)
    w.give(logits)


def language_models(w: Writer) -> None:
    """Decoders with shifted, masked and codebook losses, their table tied or not."""
    _train(w)
    words, books = w.choose(5, 12, 40), w.choose(1, 1, 1, 2, 3)
    table, hidden, _ = _encode(w, words)
    batch, _, width = w.shape(hidden)
    if w.chance(0.3):
        hidden = w.let(f"{w.layer(f'nn.LayerNorm({width})', 0)}({hidden})")
    if books == 1 and w.chance(0.6):
        logits = w.let(w.choose(f"F.linear({hidden}, {table}.weight)", f"{hidden} @ {table}.weight.transpose(0, 1)"))
    else:
        logits = w.let(f"{w.layer(f'nn.Linear({width}, {words * books}, bias={w.choose(True, False)})', 0)}({hidden})")
    shifted = w.let(f"{logits}[:, :-1]" if w.chance(0.7) else logits)
    places = w.shape(shifted)[1]
    labels = w.indices(words, batch, places, books)
    if w.chance(0.4):
        labels = w.let(f"torch.where({labels} < 2, -100, {labels})", plain=True)
    rows = w.let(f"{shifted}{w.choose('.reshape', '.contiguous().view')}(-1, {words})")
    if w.training:
        reduction = w.choose("mean", "mean", "sum")
        w.lose(f"F.cross_entropy({rows}, {labels}.reshape(-1), reduction='{reduction}')")
        if w.chance(0.1):
            w.lose(
                f"F.cross_entropy({shifted}.reshape({batch}, -1, {words}).transpose(1, 2), "
                f"{labels}.reshape({batch}, -1))"
            )
    if not w.training or w.chance(0.3):
        best = f"{logits}.argmax(-1)"
        if w.half:  # rounded logits are often equal: which one is found is open, its value is not
            best = f"{logits}.take_along_dim({logits}.argmax(-1, keepdim=True), -1)"
        w.give(w.choose(logits, f"{logits}[:, -1]", best, f"{hidden}.detach()"))


def image_models(w: Writer) -> None:
    """Convolutional networks with residual connections, shared and strided convolutions, and norms."""
    _train(w)
    batch, channels, side = w.choose(1, 2, 3), w.choose(1, 3, 4, 16), w.choose(5, 8, 9)
    value = w.input(batch, channels, side, side)
    width = w.choose(4, 8, 16)
    value = w.let(f"{w.layer(f'nn.Conv2d({channels}, {width}, 3, stride={w.choose(1, 2)}, padding=1)', 0)}({value})")
    norm = w.choose("nn.BatchNorm2d({c})", "nn.GroupNorm(2, {c})", None)
    for _ in range(w.pick.randrange(1, 4)):
        earlier, size = value, w.shape(value)[2]
        for number in range(2):
            if norm is not None:
                value = w.let(f"{w.layer(norm.format(c=width), 0.3)}({value})")
            if number == 0 or w.chance(0.5):
                value = w.let(w.choose("torch.relu({x})", "F.silu({x})").format(x=value))
            kernel = w.choose(1, 3, 3)
            text = f"nn.Conv2d({width}, {width}, {kernel}, padding={kernel // 2}, bias={w.choose(True, False)})"
            value = w.let(f"{w.layer(text, 0.4)}({value})")
        value = w.let(f"{value} + {earlier}")
        if w.chance(0.5):
            value = w.let(f"torch.relu({value})")
        if size >= 4 and w.chance(0.4):
            value = w.let(f"F.{w.choose('max', 'avg')}_pool2d({value}, 2)")
        if w.chance(0.2):
            w.give(w.choose(value, f"{value}.detach()"))
    pooled = w.let(w.choose(f"{value}.mean((2, 3))", f"F.adaptive_avg_pool2d({value}, 1).flatten(1)"))
    logits = w.let(f"{w.layer(f'nn.Linear({width}, 3)', 0)}({pooled})")
    if w.training:
        w.lose(f"F.cross_entropy({logits}, {w.indices(3, batch)})")
    w.give(logits)


def recurrent_models(w: Writer) -> None:
    """Recurrent networks over words or numbers, read at the last step or at all of them."""
    _train(w)
    batch, steps, width, wide = w.choose(1, 2, 3), w.choose(2, 3, 5), w.choose(3, 4), w.choose(4, 5)
    kind, both, layers = w.choose("LSTM", "LSTM", "GRU", "RNN"), w.chance(0.4), w.choose(1, 2)
    if w.chance(0.5):
        value = w.let(f"{w.layer(f'nn.Embedding(9, {width})', 0)}({w.indices(9, batch, steps)})")
    else:
        value = w.input(batch, steps, width)
    layer = w.layer(f"nn.{kind}({width}, {wide}, {layers}, bidirectional={both}, batch_first=True)", 0)
    output = w.let(f"{layer}({value})[0]")
    reads = w.choose("[:, -1]", "[:, 0]", ".mean(1)", f".reshape({batch}, -1)")
    chosen = w.let(f"{output}{reads}")
    logits = w.let(f"{w.layer(f'nn.Linear({w.shape(chosen)[-1]}, 3)', 0)}({chosen})")
    if w.training:
        w.lose(f"F.cross_entropy({logits}, {w.indices(3, batch)})")
    if w.chance(0.3):
        w.give(w.choose(output, f"{output}.detach()"))
    w.give(logits)


MODELS: dict[str, Family] = {
    "encoder_models": Family(encoders, ("last-token pruning",)),
    "language_models": Family(language_models, ("cross-entropy gradient in one call",)),
    "image_models": Family(image_models, ("channels-last images",)),
    "recurrent_models": Family(recurrent_models, ("recurrent layers by oneDNN",)),
}
