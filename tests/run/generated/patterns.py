"""Generators of small models, each around what some passes of the engine look for.

`FAMILIES` lists them with the passes that they are there for: if one of these never changes a graph, the generator has
failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from generated.writer import Writer, spread

Generate = Callable[[Writer], None]


@dataclass(frozen=True)
class Family:
    """One kind of models, and the passes that they reach."""

    generate: Generate
    passes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()  # reached once native kernels are installed


def _pick_token(w: Writer, name: str) -> str:
    """One entry of a sequence."""
    count = w.shape(name)[1]
    place = w.choose(0, -1, w.pick.randrange(count) if count else 0)
    if w.chance(0.6):
        return w.let(f"{name}[:, {place}]")
    return w.let(f"{name}.narrow(1, {place % max(count, 1)}, 1)")


def _sequence_step(w: Writer, name: str) -> str:
    batch, tokens, width = w.shape(name)
    kind = w.pick.randrange(9)
    if kind == 0:
        return w.let(f"{w.layer(f'nn.LayerNorm({width})')}({name})")
    if kind == 1:
        return w.let(f"F.layer_norm({name}, [{width}])")
    if kind == 2:
        return w.let(f"F.gelu({name}, approximate='{w.choose('none', 'tanh')}')")
    if kind == 3:
        return w.let(f"torch.softmax({name}, {w.choose(-1, 1, 2)})")
    if kind == 4:
        return w.let(f"{name} + {w.source(batch, tokens, width)}")
    if kind == 5:
        return w.let(f"{name} + {w.parameter(*w.choose((tokens, width), (width,), (1, tokens, 1)))}")
    if kind == 6:
        return _self_attention(w, name)
    if kind == 7 and width % 2 == 0:
        split = w.let(f"{name}.view({batch}, {tokens}, 2, {width // 2}).transpose(1, 2)")
        return w.let(f"{split}.transpose(1, 2).reshape({batch}, {tokens}, {width})")
    return w.linear(name, width if w.chance(0.7) else w.choose(4, 6, 8))


def _self_attention(w: Writer, name: str) -> str:
    batch, tokens, width = w.shape(name)
    heads = spread(w.pick, width, (1, 2, 4))
    query, key, value = (
        w.let(f"{w.linear(name, width)}.view({batch}, {tokens}, {heads}, {width // heads}).transpose(1, 2)")
        for _ in range(3)
    )
    scores = w.let(f"{query} @ {key}.transpose(-2, -1) * {w.choose(0.5, 0.35)}")
    if w.chance(0.3):
        scores = w.let(f"{scores} + {w.source(batch, 1, 1, tokens)}")
    if w.chance(0.2):
        mask = f"torch.full(({tokens}, {tokens}), -1e4).triu(1)"
        scores = w.let(f"{scores} + {mask}.to({scores}.device).to({scores}.dtype)")
    weights = w.let(f"torch.softmax({scores}, -1)")
    mixed = w.let(f"({weights} @ {value}).transpose(1, 2).reshape({batch}, {tokens}, {width})")
    return w.let(f"{name} + {w.linear(mixed, width)}")


def tokens(w: Writer) -> None:
    """A sequence of which one token is read, as by a classifier, and maybe others elsewhere."""
    batch, count, width = w.choose(1, 2, 3), w.choose(2, 3, 5, 1), w.choose(4, 8, 6)
    hidden = w.linear(w.source(batch, count, width), width)
    for _ in range(w.pick.randrange(1, 5)):
        hidden = _sequence_step(w, hidden)
    picked = _pick_token(w, hidden)
    if w.chance(0.5):
        picked = w.let(f"torch.tanh({w.linear(picked, w.shape(picked)[-1])})")
    if w.chance(0.3):
        w.give(w.choose(hidden, f"{hidden}.detach()", f"{hidden}[:, 1:]", f"{hidden}.mean(1)"))
    if w.chance(0.2):
        w.score(_pick_token(w, hidden))
    if w.chance(0.4):
        rows = 1 if len(w.shape(picked)) == 2 else w.shape(picked)[1]
        logits = w.let(f"{w.linear(picked, 3)}.reshape(-1, 3)")
        w.lose(f"F.cross_entropy({logits}, {w.indices(3, batch * rows)})")
    else:
        w.score(picked)


_TANH = "0.5 * {x} * (1 + torch.tanh(math.sqrt(2 / math.pi) * ({x} + 0.044715 * {cube})))"
_ERF = "{x} * 0.5 * (1.0 + torch.erf({x} / math.sqrt(2.0)))"


def _gelu(w: Writer, name: str) -> str:
    kind = w.pick.randrange(8)
    cube = w.choose("torch.pow({x}, 3.0)", "{x} ** 3", "{x} * {x} * {x}").format(x=name)
    if kind < 3:
        return w.let(_TANH.format(x=name, cube=cube))
    if kind == 3:  # step by step, so that others read what is between
        cubed = w.let(cube)
        inner = w.let(f"{name} + 0.044715 * {cubed}")
        bent = w.let(f"torch.tanh({inner} * math.sqrt(2 / math.pi))")
        return w.let(f"{name} * (0.5 * (1.0 + {bent}))")
    if kind == 4:
        return w.let(_ERF.format(x=name))
    if kind == 5:
        return w.let(f"{name} * torch.sigmoid(1.702 * {name})")
    if kind == 6:  # not quite
        return w.let(f"0.5 * {name} * (1 + torch.tanh(0.79788 * ({name} + 0.05 * {name} ** 3)))")
    return w.let(f"F.gelu({name}, approximate='{w.choose('none', 'tanh')}')")


def gelu(w: Writer) -> None:
    """GELU as models write it, once or one behind the other, in any layout."""
    shape = w.sizes(2, 3, 4, 8, count=w.choose(1, 2, 3, 4))
    value = w.source(*shape)
    for _ in range(w.pick.randrange(1, 4)):
        value = w.pass_on(value)
        value = _gelu(w, value)
    if w.chance(0.3):
        value = w.let(f"{value} + {_gelu(w, value)}")
    w.score(w.pass_on(value))


def classes(w: Writer) -> None:
    """Losses over classes: shifted, masked, of codebooks, in all reductions."""
    batch, count, kinds, books = w.choose(1, 2, 3), w.choose(2, 4, 6, 9), w.choose(3, 5, 8, 16), w.choose(1, 1, 2, 3)
    hidden = w.source(batch, count, 4)
    logits = w.linear(hidden, kinds * books)
    if w.chance(0.15):
        logits = w.let(f"{logits} @ {w.parameter(kinds * books, kinds * books)}")
    start, end = w.choose((None, -1), (1, None), (None, None), (None, -2), (1, -1), (0, 1))
    text = f"{logits}[:, {'' if start is None else start}:{'' if end is None else end}]"
    if w.chance(0.1):
        text = f"{logits}[{w.choose(':1', '1:', ':')}]"
    if w.chance(0.5) or (start, end) != (None, None):
        shifted = w.let(text)
    else:
        shifted = logits
    view = w.choose("reshape", "contiguous().view")
    rows = w.let(f"{shifted}.{view}(-1, {kinds})")
    if w.chance(0.1):
        rows = w.let(f"{shifted}.reshape({w.shape(shifted)[0]}, -1, {kinds}).flatten(0, 1)")
    if not w.shape(rows)[0]:
        w.score(logits)
        return
    target = w.indices(kinds, w.shape(rows)[0])
    ignored = w.choose(-100, -100, 0, 1)
    reduction = w.choose("mean", "mean", "sum", "none")
    smoothing = w.choose("", "", "", ", label_smoothing=0.1")
    if w.chance(0.2):
        extra = f"ignore_index={ignored}, reduction='{reduction}'"
        loss = w.let(f"F.nll_loss(F.log_softmax({rows}, -1), {target}, {extra})")
    else:
        extra = f"ignore_index={ignored}, reduction='{reduction}'{smoothing}"
        loss = w.let(f"F.cross_entropy({rows}, {target}, {extra})")
    if reduction == "none":
        w.score(loss)
    else:
        w.lose(f"{loss} * {w.choose(1.0, 0.5)}")
    if w.chance(0.2):
        w.give(logits)
    if w.chance(0.2):
        w.score(logits)
    if w.chance(0.2):
        w.lose(f"F.cross_entropy({rows}, {target})")


def attention(w: Writer) -> None:
    """Attention as it is written out, with scales and masks in many places."""
    if w.chance(0.8):
        w.training = False
    batch, heads = w.sizes(1, 2, 3, count=2)
    queries, keys, width, out = w.choose(1, 2, 3, 5), w.choose(1, 2, 4), w.choose(1, 2, 4, 8), w.choose(2, 4)
    turned = w.chance(0.5)
    if turned:
        query = w.let(f"{w.source(batch, queries, heads, width)}.transpose(1, 2)")
        key = w.let(f"{w.source(batch, keys, heads, width)}.transpose(1, 2)")
        value = w.let(f"{w.source(batch, keys, heads, out)}.transpose(1, 2)")
    else:
        query, key = w.source(batch, heads, queries, width), w.source(batch, heads, keys, width)
        value = w.source(batch, heads, keys, out)
    scale = w.choose(0.5, 1.0, -0.7, 2.0)
    if w.chance(0.3):
        query = w.let(f"{query} * {scale}")
    scores = w.let(f"{query} @ {key}.transpose(-2, -1)")
    for _ in range(w.pick.randrange(3)):
        kind = w.pick.randrange(5)
        if kind == 0:
            scores = w.let(f"{scores} * {scale}")
        elif kind == 1:
            scores = w.let(f"{scores} / {w.choose(2.0, math_root(width))}")
        elif kind == 2:
            shape = w.choose((queries, keys), (batch, 1, 1, keys), (batch, heads, queries, keys), (1, 1, queries, keys))
            mask = w.source(*shape) if w.chance(0.5) else w.let(f"({w.input(*shape)} < 0).to({scores}.dtype) * -1e4")
            scores = w.let(w.choose(f"{scores} + {mask}", f"{mask} + {scores}"))
        elif kind == 3:
            scores = w.let(f"{scores}.masked_fill({w.input(queries, keys)} < 0, {w.choose(-1e4, -100.0)})")
        else:
            scores = w.let(f"{scores} - 0.5")
    weights = w.let(f"torch.softmax({scores}, {w.choose(-1, -1, -1, 2)})")
    mixed = w.let(f"{weights} @ {value}")
    if turned and w.chance(0.7):
        mixed = w.let(f"{mixed}.transpose(1, 2).reshape({batch}, {queries}, {heads * out})")
    elif w.chance(0.3):
        mixed = w.let(f"F.scaled_dot_product_attention({query}, {key}, {value})")
    w.score(w.pass_on(mixed) if w.chance(0.5) else mixed)


def math_root(width: int) -> float:
    return float(width) ** 0.5


def images(w: Writer) -> None:
    """Convolutions, norms, rectifiers and pools in any order, with shared filters and several readers."""
    batch, channels, side = w.choose(1, 2, 3), w.choose(2, 3, 4, 8), w.choose(4, 6, 7, 8)
    if w.chance(0.4):
        channels = 16
    value = w.source(batch, channels, side, side + w.choose(0, 0, 1))
    if w.chance(0.1):
        value = w.let(f"{value}.contiguous(memory_format=torch.channels_last)")
    earlier: list[str] = []
    for _ in range(w.pick.randrange(2, 7)):
        earlier.append(value)
        value = _image_step(w, value, earlier)
        if len(w.shape(value)) != 4 or min(w.shape(value)) == 0:
            break
    shape = w.shape(value)
    if len(shape) == 4 and w.chance(0.5):
        value = w.let(w.choose(f"{value}.mean((2, 3))", f"{value}.flatten(1)", f"F.adaptive_avg_pool2d({value}, 1)"))
    if len(w.shape(value)) == 2 and w.chance(0.5):
        value = w.linear(value, 3)
    w.score(value)


def _image_step(w: Writer, value: str, earlier: list[str]) -> str:
    _, channels, height, width = w.shape(value)
    kind = w.pick.randrange(14)
    if kind < 5:
        results = w.choose(channels, channels, 4, 8, 16)
        kernel = w.choose(1, 1, 3, 3, 2)
        kernel = kernel if kernel <= min(height, width) else 1
        groups = 1 if w.chance(0.85) else spread(w.pick, channels, (1, 2, channels))
        groups = groups if results % groups == 0 else 1
        extra = f"stride={w.choose(1, 1, 1, 2)}, padding={w.choose(0, 1) if kernel > 1 else 0}"
        extra += f", groups={groups}, bias={w.choose(True, False)}"
        return w.let(f"{w.layer(f'nn.Conv2d({channels}, {results}, {kernel}, {extra})', share=0.4)}({value})")
    if kind in (5, 6):
        affine = w.choose("", "", ", affine=False", ", track_running_stats=False")
        return w.let(f"{w.layer(f'nn.BatchNorm2d({channels}{affine})')}({value})")
    if kind in (7, 8):
        return w.let(w.choose("torch.relu({})", "torch.relu({})", "F.silu({})", "F.hardswish({})").format(value))
    if kind in (9, 10) and min(height, width) >= 2:
        extra = w.choose("", ", stride=1", ", stride=2, padding=1", ", ceil_mode=True")
        pool = w.choose("max", "max", "avg")
        value = value if w.chance(0.4) else w.let(f"torch.relu({value})")
        return w.let(f"F.{pool}_pool2d({value}, {w.choose(2, 2, 3) if min(height, width) > 2 else 2}{extra})")
    if kind == 11:
        same = [other for other in earlier if w.shape(other) == w.shape(value)]
        added = w.let(f"{value} + {w.pick.choice(same)}") if same else w.let(f"{value} + {w.source(channels, 1, 1)}")
        return w.let(f"torch.relu({added})") if w.chance(0.6) else added
    if kind == 12:
        return w.let(f"torch.cat([{value}, {value} * 0.5], {w.choose(0, 1)})")
    if kind == 13:
        scale = w.let(f"torch.sigmoid({value}.mean((2, 3), keepdim=True))")
        return w.let(f"{value} * {scale}")
    return w.let(f"{value}{w.choose('.flip(2)', '.transpose(2, 3)', '[:, :, 1:]', ' * 0.5')}")


def filters(w: Writer) -> None:
    """Convolutions of inference for which there are kernels: filters of 3 x 3 with many channels, any with few."""
    w.training = False
    channels, side = w.choose(16, 16, 16, 3), 8
    value = w.source(w.choose(1, 2), channels, side, side)
    for _ in range(w.pick.randrange(1, 4)):
        results = 16 if channels == 16 else 10
        layer = w.layer(f"nn.Conv2d({channels}, {results}, 3, padding=1, bias={w.choose(True, False)})")
        made = w.let(f"{layer}({value})")
        if w.chance(0.4):
            made = w.let(f"{w.layer(f'nn.BatchNorm2d({results})')}({made})")
        if w.chance(0.3) and channels == results:
            made = w.let(f"{made} + {value}")
        if w.chance(0.6):
            made = w.let(w.choose("torch.relu({})", "torch.relu({})", "F.silu({})").format(made))
        if w.chance(0.2):
            w.score(made)
        value = made
        if channels != 16:
            break
    if w.chance(0.4):
        value = w.let(f"{w.choose('torch.relu', '')}(F.max_pool2d({value}, 2))")
    w.score(value)


def keras_images(w: Writer) -> None:
    """Convolutions as Keras has them: channels last, filters as [window, in, out], some of them shared."""
    batch, channels, side = w.choose(1, 2), w.choose(1, 2, 4), w.choose(3, 4, 5)
    value = w.source(batch, side, side, channels)
    for _ in range(w.pick.randrange(1, 5)):
        shape = w.shape(value)
        kernel = w.choose(1, 1, 3, 2)
        if min(shape[1:3]) < kernel:
            break
        sizes = [kernel, kernel, shape[3], w.choose(shape[3], 2)]
        filters = w.layer(f"nn.Parameter(0.3 * torch.randn({sizes}))", 0.6)
        turned = w.let(f"{filters}.permute(3, 2, 0, 1)", plain=True)
        images = w.let(f"{value}.permute(0, 3, 1, 2)", plain=w.chance(0.8))
        dilation = w.choose(1, 1, 1, 2) if kernel == 1 else 1
        extra = f"stride={w.choose(1, 1, 2)}, padding={w.choose(0, 0, 1)}, dilation={dilation}"
        made = w.let(f"F.conv2d({images}, {turned}, {extra})", plain=w.chance(0.8))
        if w.chance(0.2):
            made = w.let(f"F.max_pool2d(torch.relu({made}), 1)")
        value = w.let(f"{made}.permute(0, 2, 3, 1)")
        if w.chance(0.5):
            value = w.let(f"torch.relu({value} + {w.parameter(w.shape(value)[3])})")
        if w.chance(0.2):
            w.score(f"{filters} * {filters}")
    w.score(value)


def pooling(w: Writer) -> None:
    """Rectifiers in front of pools of numbers of which many are equal."""
    w.training = w.training or w.chance(0.7)
    batch, channels, side = w.choose(1, 2), w.choose(1, 2, 4, 8), w.choose(3, 4, 6)
    value = w.input(batch, channels, side, side, few=True)
    if w.chance(0.5):
        value = w.let(f"{value} * {w.layer(f'nn.Parameter(torch.ones({channels}, 1, 1))')}")
    if w.chance(0.6):
        value = w.let(f"{w.layer(f'nn.Conv2d({channels}, {channels}, {w.choose(1, 3)}, padding=1)')}({value})")
    else:
        value = w.let(f"{value} + {w.layer(f'nn.Parameter(torch.zeros({batch}, {channels}, {side}, {side}))')}")
    rectified = w.let(f"torch.relu({value})")
    window = w.choose("2", "3, stride=2", "2, stride=1", "3, stride=2, padding=1", "2, ceil_mode=True")
    pooled = w.let(f"F.max_pool2d({rectified}, {window})")
    if w.chance(0.3):
        pooled = w.let(f"torch.relu({pooled})")
    if w.chance(0.2):
        w.score(rectified)
    if w.chance(0.2):
        w.score(f"F.max_pool2d({rectified}, 2)")
    w.score(pooled)


def products(w: Writer) -> None:
    """Products with weights, their biases and activations, alone and in chains."""
    _multiply(w, w.source(*w.sizes(1, 2, 4, 5, count=w.choose(1, 2, 2, 3)), w.choose(1, 2, 4, 8)))


def vectors(w: Writer) -> None:
    """Products of one row with weights, as a step of generation has them."""
    w.training = False
    _multiply(w, w.source(*w.choose((1,), (1, 1)), w.choose(1, 2, 4, 8)))


def _multiply(w: Writer, value: str) -> None:
    for _ in range(w.pick.randrange(1, 4)):
        width = w.shape(value)[-1]
        wide = w.choose(width, 2, 4, 8, 1)
        kind = w.pick.randrange(7)
        if kind < 3:
            value = w.linear(value, wide)
        elif kind == 3:
            value = w.let(f"{value} @ {w.parameter(width, wide)}")
        elif kind == 4:
            value = w.let(f"F.linear({value}, {w.parameter(wide, width * 2)}[:, ::2])")
        elif kind == 5:
            value = w.let(f"{value} @ {w.parameter(wide, width)}.t()")
        else:
            square = w.parameter(width, width)
            value = w.let(f"F.linear({value} @ {square}, {square})")
        if w.chance(0.5):
            value = w.let(f"{value} + {w.parameter(w.shape(value)[-1])}")
        if w.chance(0.5):
            act = w.choose("torch.relu({})", "F.gelu({})", "F.gelu({}, approximate='tanh')", "torch.sigmoid({})")
            value = w.let(act.format(value))
    w.score(value)


def embeddings(w: Writer) -> None:
    """Embeddings: tied to a product, shared, with padding, looked up in several places."""
    words, width = w.choose(5, 20, 60), w.choose(2, 4, 8)
    padding = w.choose("", "", ", padding_idx=0", ", padding_idx=1", ", scale_grad_by_freq=True")
    table = w.layer(f"nn.Embedding({words}, {width}{padding})")
    places = w.indices(words, *w.sizes(1, 2, 3, count=w.choose(1, 2)))
    value = w.let(f"{table}({places})")
    if w.chance(0.4):
        other = w.indices(words, *w.shape(places))
        value = w.let(f"{value} + {table}({other})")
    if w.chance(0.3):
        value = w.let(f"{value} + F.embedding({places}, {w.parameter(words, width)})")
    value = w.pass_on(value)
    if w.shape(value)[-1] == width and w.chance(0.7):
        logits = w.let(w.choose(f"F.linear({value}, {table}.weight)", f"{value} @ {table}.weight.t()"))
        if w.chance(0.2):
            logits = w.let(f"{logits} + F.linear({value} * 0.5, {table}.weight)")
        rows = w.let(f"{logits}.reshape(-1, {words})")
        if w.shape(rows)[0]:
            w.lose(f"F.cross_entropy({rows}, {w.indices(words, w.shape(rows)[0])})")
        else:
            w.score(logits)
    else:
        w.score(value)
    if w.chance(0.2):
        w.score(f"{table}.weight")
    _accumulate(w)


def _accumulate(w: Writer) -> None:
    """Sometimes several micro-batches, in any types."""
    if not w.training:
        return
    w.optimizer = w.choose(
        w.optimizer,
        "torch.optim.SGD(parameters, lr=0.1, momentum=0.9)",
        "torch.optim.SGD(parameters, lr=0.1, weight_decay=0.01)",
    )
    if w.chance(0.4):
        w.spec["accumulator_dtype"] = torch.float16


def recurrent(w: Writer) -> None:
    """LSTM, GRU and plain recurrent layers: both directions, several layers, states in and out."""
    batch, steps = w.choose(1, 2, 3), w.choose(1, 2, 4)
    width, wide = w.choose(2, 4, 8), w.choose(2, 4)
    kind = w.choose("LSTM", "LSTM", "GRU", "RNN")
    layers, both = w.choose(1, 1, 2), w.chance(0.4)
    first = w.chance(0.5)
    extra = f"num_layers={layers}, bidirectional={both}, batch_first={first}, bias={w.choose(True, True, False)}"
    if kind == "RNN":
        extra += f", nonlinearity='{w.choose('tanh', 'relu')}'"
    value = w.source(*((batch, steps, width) if first else (steps, batch, width)))
    layer = w.layer(f"nn.{kind}({width}, {wide}, {extra})")
    state = ""
    if w.chance(0.4):
        shape = (layers * (2 if both else 1), batch, wide)
        given = w.source(*shape)
        state = f", ({given}, {w.source(*shape)})" if kind == "LSTM" else f", {given}"
    output = w.let(f"{layer}({value}{state})[0]")
    last = w.let(f"{layer}({value}{state})[1]{w.choose('[0]', '[1]') if kind == 'LSTM' else ''}")
    if w.chance(0.3) and width == wide * (2 if both else 1):
        output = w.let(f"{layer}({output})[0]")
    taken = w.choose(output, f"{output}[:, -1]", f"{output}[-1]", last, f"{output}.flip(0)")
    w.score(w.let(taken))
    if w.chance(0.3):
        w.score(last)


def reused(w: Writer) -> None:
    """Chains of operators that may write over what they read, with readers of everything and views between."""
    shape = w.sizes(2, 3, 4, 8, count=w.choose(1, 2, 3))
    values = [w.source(*shape), w.linear(w.source(*shape), shape[-1]) if shape[-1] else w.source(*shape)]
    for _ in range(w.pick.randrange(3, 9)):
        x, y = (w.pick.choice(values[-4:]) for _ in range(2))
        text = w.choose(
            *("{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} + {y}", "-{x}", "torch.relu({x})", "{x} / ({y} * {y} + 1)"),
            *("{x} * 0.5", "{x} + 1", "torch.log_softmax({x}, -1)", "{x} + {x}", "torch.sigmoid({x})", "{x}.clone()"),
            *("{x}.flatten().view({x}.shape)", "{x}.transpose(0, -1).contiguous().transpose(0, -1)", "{x}.detach()"),
            *("F.gelu({x}, approximate='tanh')", "torch.cat([{x}, {y}], 0)[:{x}.shape[0]]", "{x}.expand_as({y})"),
            *("torch.relu({x}) * {y}", "{x}[..., :1] + {y}", "{x}.sum(0, keepdim=True) + {y}", "{x}.chunk(2, 0)[0]"),
        ).format(x=x, y=y)
        try:
            made = w.let(text)
        except Exception:
            continue
        if w.shape(made) == tuple(shape):
            values.append(made)
        else:
            w.score(made)
    for value in w.pick.sample(values, 2):
        w.score(value)


def views(w: Writer) -> None:
    """What simplification takes out: copies, views of the same shape, constants, the same value twice."""
    shape = w.sizes(2, 4, 6, count=w.choose(1, 2, 3))
    value = w.source(*shape)
    for _ in range(w.pick.randrange(2, 6)):
        rank = len(w.shape(value))
        text = w.choose(
            *("{x}.detach() + {x}", "{x}.view({x}.shape) * 2", "{x}.expand({x}.shape)", "{x}.t().t()", "{x}.clone()"),
            *("{x} + torch.arange({x}.shape[-1], dtype={x}.dtype, device={x}.device)", "{x}.float().to({x}.dtype)"),
            *("{x} * torch.ones_like({x})", "{x} + torch.zeros({x}.shape[-1], device={x}.device).to({x}.dtype)"),
            *("torch.softmax({x}, -1) + torch.softmax({x}, -1)", "{x}.transpose(0, -1).transpose(-1, 0)"),
            *("{x}.unsqueeze(0).squeeze(0)", "{x}.reshape(-1).reshape({x}.shape)", "{x} * {x}.new_full((1,), 0.5)"),
            *("F.pad({x}, (1, 1))[..., 1:-1] + F.pad({x}, (1, 1))[..., :-2]", "{x}.repeat_interleave(2, 0)[::2]"),
            *("torch.where({x} > 0, {x}, {x} * 0.1)", "{x}.to(torch.float16).to({x}.dtype)", "{x}.half().float()"),
            *("{x}[..., :1] + {x}[..., :1]", "{x}.unsqueeze(-1).sum(-1) * {x}.unsqueeze(-1).mean(-1)"),
            *("{x}.t() + {x}.t()", "{x}.permute([%s])".replace("%s", ", ".join(map(str, reversed(range(rank)))))),
        ).format(x=value)
        try:
            value = w.let(text)
        except Exception:
            continue
    w.score(value)


def sums(w: Writer) -> None:
    """Reductions over several dimensions, their gradients, and norms over them."""
    shape = w.sizes(2, 3, 4, count=w.choose(2, 3, 4))
    value = w.pass_on(w.source(*shape))
    for _ in range(w.pick.randrange(1, 4)):
        rank = len(w.shape(value))
        if not rank:
            break
        dims = sorted(w.pick.sample(range(rank), w.pick.randrange(1, rank + 1)))
        name = w.choose("sum", "mean", "amax", "logsumexp", "var", "prod", "std", "norm", "median", "max")
        keep = w.choose("True", "False")
        size = 1
        for dim in dims:
            size *= w.shape(value)[dim]
        if name in ("sum", "mean", "amax", "logsumexp"):
            text = f"{value}.{name}({dims}, keepdim={keep})"
        elif name in ("var", "std"):
            text = f"({value} + 0.1 * torch.cos({value})).var({dims}, correction=0, keepdim={keep})"
        elif name == "norm":
            text = f"({value} * {value} + 0.1).sum({dims}, keepdim={keep}).sqrt()"
        else:
            # PyTorch's own median of an expanded tensor is wrong.
            dense = f"{value}.contiguous()" if name == "median" else value
            text = f"{dense}.{name}({dims[0]}, keepdim={keep})" + ("[0]" if name in ("median", "max") else "")
        if size == 0 and name not in ("sum", "mean"):
            break
        made = w.let(text)
        value = w.let(f"{value} - {made}") if keep == "True" and w.chance(0.6) else made
    w.score(value)


def norms(w: Writer) -> None:
    """Norms of layers, groups, batches and of one's own, over operands in any layout."""
    batch, channels, *rest = w.choose(1, 2, 3), w.choose(2, 4, 6), *w.choose((), (3,), (2, 3), (4, 4))
    value = (
        w.linear(w.source(batch, channels, *rest), (channels, *rest)[-1])
        if w.chance(0.5)
        else w.source(batch, channels, *rest)
    )
    for _ in range(w.pick.randrange(1, 3)):
        shape = w.shape(value)
        kind = w.pick.randrange(6)
        if kind == 0:
            size = list(shape[w.choose(-1, 1) :])
            value = w.let(f"{w.layer(f'nn.LayerNorm({size}, elementwise_affine={w.choose(True, False)})')}({value})")
        elif kind == 1:
            groups = spread(w.pick, shape[1], (1, 2, 3)) if len(shape) > 2 else 1
            value = w.let(f"{w.layer(f'nn.GroupNorm({groups}, {shape[1]})')}({value})")
        elif kind == 2 and shape[0] * (shape[2] if len(shape) > 2 else 1) > 1:
            rank = {2: "1d", 3: "1d", 4: "2d"}[len(shape)]
            value = w.let(f"{w.layer(f'nn.BatchNorm{rank}({shape[1]})')}({value})")
        elif kind == 3:
            value = w.let(f"{value} * torch.rsqrt({value}.pow(2).mean(-1, keepdim=True) + 1e-3)")
        elif kind == 4 and len(shape) == 4:
            value = w.let(f"F.instance_norm({value})")
        else:
            value = w.let(f"F.layer_norm({value}.transpose(0, 1), [{shape[-1]}]).transpose(0, 1)")
        if w.chance(0.4):
            value = w.let(f"{value}[{w.choose('0', ':1', '-1:')}]" if w.chance(0.5) else f"{value}.transpose(0, 1)")
            if len(w.shape(value)) < 2:
                break
            if len(w.shape(value)) != len(shape):
                break
    w.score(value)


def dropped(w: Writer) -> None:
    """Dropout as it is written with whole random numbers, which here are inputs."""
    shape = w.sizes(2, 3, 4, count=w.choose(1, 2, 3))
    bits = w.indices(1 << 23, *shape)
    uniform = w.let(f"({bits}.to(torch.int32) & 8388607).to(torch.float32) * {w.choose(2.0**-23, 2.0**-22, 1e-7)}")
    if w.chance(0.3):
        uniform = w.let(f"{uniform} * 1.0 + 0.0")
    value = w.pass_on(w.source(*shape))
    rate = w.choose(0.1, 0.5, 0.0, 1.0)
    zero = w.choose("0.0", f"torch.zeros_like({value})", f"torch.zeros((), device={value}.device)")
    kept = w.let(f"torch.where({uniform} >= {rate}, {value}, {zero})")
    w.score(w.let(f"{kept} * {w.choose(2.0, 1.1)}"))


def random_masks(w: Writer) -> None:
    """Dropout and other random numbers, compared with the same graph without passes."""
    w.random = True
    w.training = w.chance(0.85)
    value = w.source(*w.sizes(2, 4, 8, 16, count=w.choose(2, 3)))
    for _ in range(w.pick.randrange(1, 4)):
        value = w.pass_on(value)
        value = w.let(
            w.choose(
                *("F.dropout({x}, 0.5)", "F.dropout({x}, 0.1)", "F.dropout({x}, 0.1) + {x}", "F.dropout({x}, 0.0)"),
                *("{x} + 0.1 * torch.randn_like({x})", "{x} * torch.rand_like({x})", "F.dropout({x}[:1], 0.3)"),
                "{x} * torch.bernoulli(torch.full_like({x}, 0.4))",
            ).format(x=value)
        )
    if len(w.shape(value)) == 3 and min(w.shape(value)) and w.chance(0.5):
        value = _pick_token(w, value)
    w.score(value)


def halves(w: Writer) -> None:
    """Models in half, of any other family."""
    w.half = True
    w.pick.choice(
        (tokens, gelu, attention, images, pooling, pooling, products, embeddings, reused, views, norms, sums, recurrent)
    )(w)


def rounded(w: Writer) -> None:
    """Half with partial sums in half, or rounded by chance, compared with the same graph without passes."""
    w.random = True
    w.half = True
    w.options["half_partials" if w.chance(0.5) else "stochastic_rounding"] = True
    w.pick.choice((tokens, products, products, embeddings, reused, images))(w)


def buffers(w: Writer) -> None:
    """Buffers that inference writes in part."""
    w.training = False
    rows, width = w.choose(2, 4, 6), w.choose(2, 4)
    name = w._name("b")
    w.statement(f"self.register_buffer('{name}', torch.zeros({rows}, {width}))")
    place = w.indices(rows, w.choose(1, 2))
    count = w.shape(place)[0]
    new = w.source(count, width)
    if w.chance(0.2):
        w.give(f"self.{name} * 1")
    if count == 1 and w.chance(0.5):
        w._lines.append(f"self.{name}.index_copy_(0, {place}, {new})")
    else:
        w._lines.append(f"self.{name}[{place}[:1]] = {new}[:1]")
    w.give(w.choose(f"self.{name}", f"self.{name} * 2", f"self.{name}[:1]", f"self.{name}.sum(0)"))
    if w.chance(0.3):
        w.give(f"self.{name}.t()")


def accumulated(w: Writer) -> None:
    """Several micro-batches, replicas and device iterations of other families, by several optimizers."""
    w.pick.choice((tokens, gelu, products, norms, images, recurrent, classes, attention, sums, reused))(w)
    if w.training:
        w.options["gradient_accumulation"] = w.choose(1, 2, 3)
        w.options["replicas"] = w.choose(1, 1, 2)
        w.options["batching"] = w.choose(True, False)
        _accumulate(w)
    w.options["device_iterations"] = w.choose(1, 2)


def checked(w: Writer) -> None:
    """With arithmetic checked, which leaves out most passes."""
    w.options["floating_point_exceptions"] = True
    w.pick.choice((tokens, gelu, products, norms, images, classes, attention, views))(w)


FAMILIES: dict[str, Family] = {
    "tokens": Family(tokens, ("last-token pruning",)),
    "gelu": Family(gelu, ("gelu in one call", "gelu and its gradient in one call each"), ("gelu by a kernel",)),
    "classes": Family(classes, ("cross-entropy gradient in one call",)),
    "attention": Family(attention, ("attention in one call",)),
    "images": Family(
        images,
        ("channels-last images", "pack convolutions of inference"),
        ("norms of images by kernels",),
    ),
    "filters": Family(
        filters,
        ("pack convolutions of inference", "drop unread weights"),
        ("Winograd convolutions by a kernel", "direct convolutions by a kernel"),
    ),
    "keras_images": Family(keras_images, ()),
    "pooling": Family(pooling, ()),
    "products": Family(
        products,
        ("pack weights of inference", "products by oneDNN"),
        ("gradients of weights by a kernel",),
    ),
    "vectors": Family(vectors, ("pack weights of inference",), ("matrix-vector products by a kernel",)),
    "embeddings": Family(embeddings, ("add rows in place",)),
    "recurrent": Family(
        recurrent,
        ("recurrent layers by oneDNN", "pack recurrent layers of inference", "remove dead code"),
        ("LSTM layers by a kernel",),
    ),
    "reused": Family(reused, ("reuse dead memory",)),
    "views": Family(
        views,
        ("remove no-operations", "fold constants", "share views", "share costly values"),
    ),
    "sums": Family(sums),
    "norms": Family(norms),
    "dropped": Family(dropped, ("dropout masks by integer comparison",)),
    "random": Family(random_masks, ("sample from the seed",), ("dropout by a kernel",)),
    "halves": Family(halves, ("widen half products", "read weights in float32")),
    "rounded": Family(
        rounded,
        ("round as the options say", "stochastic rounding in one call", "keep rounded values in float32"),
        ("products with half partials by a kernel",),
    ),
    "buffers": Family(buffers, ("write into buffers",)),
    "accumulated": Family(accumulated, ("add gradients to their accumulators",)),
    "checked": Family(checked, ("check arithmetic",)),
}
