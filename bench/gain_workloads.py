"""Workloads that say which optimizations are worth having: one model each, in one number format, of one family.

In: the name of a workload. Out: a `Workload`: how to build its model, its inputs, and its options. Models are small,
from configurations, with random weights: nothing is downloaded. A family is an architecture of its own authors; two
workloads of one family say no more than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from openipu.graph import EngineMode

Inputs = tuple[Tensor, ...]
WORDS, CLASSES = 8192, 10


@dataclass(frozen=True)
class Workload:
    """A program: a model, with its loss where it is trained, and the inputs of one micro-batch."""

    name: str
    family: str
    build: Callable[[], nn.Module]
    make_inputs: Callable[[], Inputs]
    training: bool = False
    optimizer: str = "Adam"
    half: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # of `RunOptions`


class Trained(nn.Module):
    """A model and its loss. With `shift`, each place of a text predicts the next one."""

    def __init__(self, body: nn.Module, shift: bool = False) -> None:
        super().__init__()
        self.body, self.shift = body, shift

    def forward(self, *inputs: Tensor) -> Tensor:
        *given, labels = inputs
        logits = _take_logits(self.body(*given))
        if self.shift:
            logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return functional.cross_entropy(logits, labels)


class Plain(nn.Module):
    """A model of which only the first tensor is asked for."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, *inputs: Tensor) -> Tensor:
        return _take_logits(self.body(*inputs))


def _take_logits(outputs: Any) -> Tensor:
    if isinstance(outputs, Tensor):
        return outputs
    found: Tensor = outputs.logits if hasattr(outputs, "logits") else outputs[0]
    return found


class Recurrent(nn.Module):
    """Recurrent layers with a classifier on the last step, or on each step of a text."""

    def __init__(self, kind: type[nn.Module], features: int, width: int, words: int = 0, tied: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(words, features) if words else nn.Identity()
        self.layers = kind(features, width, 2, batch_first=True)
        self.classes, self.words = nn.Linear(width, words or CLASSES), words
        if tied:
            self.classes.weight = self.table.weight

    def forward(self, sequences: Tensor) -> Tensor:
        states, _ = self.layers(self.table(sequences))
        found: Tensor = self.classes(states if self.words else states[:, -1])
        return found


class Recommender(nn.Module):
    """DLRM: tables of categories, products of pairs of them, and two perceptrons."""

    def __init__(self, rows: int = 20000, tables: int = 8, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.dense = make_perceptron(13, 512, width)
        self.top = make_perceptron(width + (tables + 1) ** 2, 512, CLASSES)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        dense = self.dense(numbers)
        rows = torch.stack([dense, *(table(categories[:, at]) for at, table in enumerate(self.tables))], 1)
        found: Tensor = self.top(torch.cat([dense, (rows @ rows.transpose(1, 2)).flatten(1)], 1))
        return found


class TwoTowers(nn.Module):
    """Neural collaborative filtering: users and items, multiplied and joined."""

    def __init__(self, rows: int = 30000, width: int = 64) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(rows, width), nn.Embedding(rows, width)
        self.top = make_perceptron(3 * width, 512, CLASSES)

    def forward(self, pairs: Tensor) -> Tensor:
        user, item = self.users(pairs[:, 0]), self.items(pairs[:, 1])
        found: Tensor = self.top(torch.cat([user, item, user * item], 1))
        return found


class UNet(nn.Module):
    """Two levels of U-Net."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.down, self.low = _convolve_twice(3, width), _convolve_twice(width, 2 * width)
        self.raise_, self.up = nn.ConvTranspose2d(2 * width, width, 2, 2), _convolve_twice(2 * width, width)
        self.classes = nn.Conv2d(width, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        wide = self.down(images)
        low = self.low(functional.max_pool2d(wide, 2))
        found: Tensor = self.classes(self.up(torch.cat([wide, self.raise_(low)], 1)))
        return found.mean((2, 3))


def _convolve_twice(channels: int, results: int) -> nn.Module:
    def convolve(given: int) -> list[nn.Module]:
        return [nn.Conv2d(given, results, 3, padding=1), nn.BatchNorm2d(results), nn.ReLU()]

    return nn.Sequential(*convolve(channels), *convolve(results))


class KerasNetwork(nn.Module):
    """What the TensorFlow front end makes of a Keras model: channels last, filters as [window, in, out], and dropout
    by uniform numbers. `windows`: of one layer after the other. `pools`: with pools, which gradients compute again."""

    def __init__(self, windows: tuple[int, ...], width: int, dropout: float = 0.0, *, pools: bool = False) -> None:
        super().__init__()
        sizes = [3, *(width for _ in windows)]
        self.filters = nn.ParameterList(
            torch.randn(window, window, given, made) / math.sqrt(window * window * given)
            for window, given, made in zip(windows, sizes, sizes[1:], strict=False)
        )
        self.classes, self.dropout, self.pools = nn.Linear(width, CLASSES), dropout, pools

    def forward(self, images: Tensor) -> Tensor:
        value = images
        for filters in self.filters:
            pad = filters.shape[0] // 2
            made = functional.conv2d(value.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1), padding=pad)
            value = torch.relu(made.permute(0, 2, 3, 1))
            if self.pools:
                pooled = checkpoint(functional.max_pool2d, value.permute(0, 3, 1, 2), 2, use_reentrant=False)
                value = pooled.permute(0, 2, 3, 1)
            if self.dropout:
                value = drop_by_uniform(value, self.dropout)
        return self.classes(value.mean((1, 2)))


def drop_by_uniform(value: Tensor, rate: float) -> Tensor:
    """Dropout as TensorFlow writes it."""
    bits = torch.randint(0, 1 << 23, value.shape, device=value.device, dtype=torch.int32)
    uniform = (bits & 8388607).to(torch.float32) * 2.0**-23
    return torch.where(uniform >= rate, value * (1 / (1 - rate)), 0.0)


class DropByUniform(nn.Module):
    def forward(self, value: Tensor) -> Tensor:
        return drop_by_uniform(value, 0.1)


class CachedAttention(nn.Module):
    """A step of generation: one token, whose key and value are written into the cache."""

    def __init__(self, width: int = 512, places: int = 1024, layers: int = 4) -> None:
        super().__init__()
        self.names = [f"cache{number}" for number in range(layers)]
        for name in self.names:
            self.register_buffer(name, torch.zeros(places, 2 * width))
        self.joined = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.wide = nn.ModuleList(make_perceptron(width, 4 * width, width) for _ in range(layers))

    def forward(self, token: Tensor, place: Tensor) -> Tensor:
        width = token.shape[1]
        for name, joined, wide in zip(self.names, self.joined, self.wide, strict=True):
            made = joined(token)
            self.get_buffer(name).index_copy_(0, place, made[:, width:])
            keys, values = self.get_buffer(name).split(width, 1)
            token = token + torch.softmax(made[:, :width] @ keys.t() / math.sqrt(width), -1) @ values
            token = token + wide(token)
        return token


class Checkpointed(nn.Module):
    """Layers whose values are computed again for their gradients."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, value: Tensor) -> Tensor:
        for layer in self.layers:
            value = checkpoint(layer, value, use_reentrant=False)
        return value


class KeyBank(nn.Module):
    """MoCo's queue of keys: the oldest ones give way to those of this call."""

    def __init__(self, rows: int = 16384, width: int = 128) -> None:
        super().__init__()
        self.register_buffer("bank", torch.randn(rows, width))
        self.encode = make_perceptron(64, 256, width)

    def forward(self, samples: Tensor, places: Tensor) -> Tensor:
        keys = functional.normalize(self.encode(samples), dim=1)
        bank = self.get_buffer("bank")
        bank[places] = keys
        return keys @ bank.t()


class Doubled(nn.Module):
    """A network that a graph with gradients of its own computes again: PINNs and energies take the gradient of their
    inputs in forward."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, points: Tensor, labels: Tensor) -> Tensor:
        points = points.requires_grad_()
        (slope,) = torch.autograd.grad(self.body(points).sum(), points, create_graph=True)
        return functional.mse_loss(slope, labels)


def make_perceptron(given: int, width: int, made: int, dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(given, width), nn.ReLU(), nn.Dropout(dropout)),
        *(nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, made)),
    )


def _transformers(name: str, configuration: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        found: nn.Module = getattr(transformers, name)(getattr(transformers, configuration)(**settings))
        return found

    return build


_ENCODER = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
_TEXT = {**_ENCODER, "vocab_size": WORDS}
_GPT = {"n_embd": 256, "n_layer": 2, "n_head": 4, "vocab_size": WORDS, "use_cache": False}
_T5 = {"d_model": 256, "d_kv": 64, "d_ff": 768, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS}
_BLOCKS = {"hidden_sizes": [32, 64, 128], "depths": [1, 1, 1]}

bert = _transformers("BertForSequenceClassification", "BertConfig", **_TEXT)
roberta = _transformers("RobertaForMaskedLM", "RobertaConfig", **_TEXT)
electra = _transformers("ElectraForSequenceClassification", "ElectraConfig", **_TEXT, embedding_size=128)
tiny_bert = _transformers(
    *("BertForSequenceClassification", "BertConfig"),
    **{**_TEXT, "hidden_size": 32, "intermediate_size": 64},
)
tiny_gpt2 = _transformers("GPT2LMHeadModel", "GPT2Config", **{**_GPT, "n_embd": 32})
distilbert = _transformers(
    *("DistilBertForSequenceClassification", "DistilBertConfig"),
    dim=256,
    n_layers=2,
    n_heads=4,
    hidden_dim=1024,
    vocab_size=WORDS,
)
gpt2 = _transformers("GPT2LMHeadModel", "GPT2Config", **_GPT)
gptj = _transformers("GPTJForCausalLM", "GPTJConfig", **_GPT, rotary_dim=32)
gpt2_classifier = _transformers("GPT2ForSequenceClassification", "GPT2Config", **_GPT, pad_token_id=0)
t5 = _transformers("T5EncoderModel", "T5Config", **_T5, feed_forward_proj="gated-gelu")
vit = _transformers("ViTForImageClassification", "ViTConfig", **_ENCODER, image_size=112, num_labels=CLASSES)
resnet = _transformers(
    *("ResNetForImageClassification", "ResNetConfig"),
    **_BLOCKS,
    embedding_size=32,
    layer_type="basic",
    num_labels=CLASSES,
)
bottlenecks = _transformers(
    *("ResNetForImageClassification", "ResNetConfig"),
    hidden_sizes=[64, 128, 256],
    depths=[1, 1, 1],
    embedding_size=32,
    num_labels=CLASSES,
)
mobilenet = _transformers(
    "MobileNetV2ForImageClassification", "MobileNetV2Config", depth_multiplier=0.5, num_labels=CLASSES
)
convnext = _transformers(
    "ConvNextForImageClassification", "ConvNextConfig", **_BLOCKS, num_stages=3, num_labels=CLASSES
)
wav2vec = _transformers(
    *("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config"),
    **_ENCODER,
    apply_spec_augment=False,
    conv_dim=[128] * 7,
    num_conv_pos_embeddings=16,
    num_labels=CLASSES,
    classifier_proj_size=64,
)


def whisper() -> nn.Module:
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    settings = {"d_model": 256, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 1024}
    found: nn.Module = WhisperEncoder(transformers.WhisperConfig(**settings, max_source_positions=200))
    return found


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(320, 256), nn.ReLU(), nn.Linear(256, CLASSES)),
    )


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for given, made in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(given, made, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def alexnet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(32, 96, 5, padding=2), nn.ReLU()),
        *(nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(), nn.Linear(96 * 49, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


def tiny_network() -> nn.Module:
    """Colours by a handful of channels, as in image enhancement (ESPCN's form)."""
    return nn.Sequential(
        *(nn.Conv2d(3, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(12, 12, 3, padding=1), nn.PixelShuffle(2)),
    )


def keywords() -> nn.Module:
    """Words from spectra, as on a microcontroller."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 20, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(20, CLASSES)),
    )


def transformer_by_uniform() -> nn.Module:
    """Layers of a Keras transformer, with its dropout."""
    layers: list[nn.Module] = [nn.Embedding(WORDS, 256)]
    for _ in range(2):
        layers += [nn.Linear(256, 1024), nn.ReLU(), DropByUniform(), nn.Linear(1024, 256), DropByUniform()]
    return nn.Sequential(*layers, nn.LayerNorm(256), nn.Linear(256, WORDS))


def texts(batch: int = 4, tokens: int = 128, labels: str = "") -> Callable[[], Inputs]:
    """Tokens; with `labels` "class" a class of each text, with "next" the text itself."""

    def make() -> Inputs:
        text = torch.randint(0, WORDS, (batch, tokens))
        if labels == "class":
            return text, torch.randint(0, 2, (batch,))
        return (text, text.clone()) if labels == "next" else (text,)

    return make


def numbers(*shape: int, classes: int = 0) -> Callable[[], Inputs]:
    """Random numbers, and a class of each sample."""

    def make() -> Inputs:
        value = torch.randn(shape)
        return (value, torch.randint(0, classes, shape[:1])) if classes else (value,)

    return make


def pairs_and_labels() -> Inputs:
    return torch.randint(0, 30000, (128, 2)), torch.randint(0, CLASSES, (128,))


def categories_and_labels() -> Inputs:
    return torch.randn(128, 13), torch.randint(0, 20000, (128, 8)), torch.randint(0, CLASSES, (128,))


def points_and_slopes() -> Inputs:
    return torch.randn(256, 3), torch.randn(256, 3)


def token_and_place() -> Inputs:
    return torch.randn(1, 512), torch.tensor([7])


def samples_and_places() -> Inputs:
    return torch.randn(16, 64), torch.arange(16)


def _list() -> tuple[Workload, ...]:
    def train(name: str, family: str, build: Callable[[], nn.Module], inputs: Any, **rest: Any) -> Workload:
        shift = rest.pop("shift", False)
        return Workload(name, family, lambda: Trained(build(), shift), inputs, training=True, **rest)

    def infer(name: str, family: str, build: Callable[[], nn.Module], inputs: Any, **rest: Any) -> Workload:
        return Workload(name, family, lambda: Plain(build()), inputs, **rest)

    image, small = numbers(4, 3, 64, 64, classes=CLASSES), numbers(4, 3, 32, 32, classes=CLASSES)
    digits, classes, following = numbers(16, 1, 28, 28, classes=CLASSES), texts(labels="class"), texts(labels="next")
    rows = numbers(64, 256, classes=CLASSES)
    series, keras = numbers(16, 64, 128, classes=CLASSES), numbers(4, 32, 32, 3, classes=CLASSES)
    maps, wide_maps = numbers(4, 10, 10, 3, classes=CLASSES), numbers(8, 28, 28, 3, classes=CLASSES)
    steps = {"gradient_accumulation": 4}
    apart = {**steps, "batching": False}
    rounded = {"half": True, "options": {"stochastic_rounding": True}}
    partials = {"half": True, "options": {"stochastic_rounding": True, "half_partials": True}}
    lstm, gru = (lambda: Recurrent(nn.LSTM, 128, 256)), (lambda: Recurrent(nn.GRU, 128, 256))
    small_lstm = lambda: Recurrent(nn.LSTM, 32, 64)  # noqa: E731
    speech = lambda: Recurrent(nn.LSTM, 80, 320)  # noqa: E731
    language = lambda: Recurrent(nn.LSTM, 256, 256, WORDS)  # noqa: E731
    perceptron = lambda: make_perceptron(256, 512, CLASSES, 0.2)  # noqa: E731
    wide = lambda: make_perceptron(1024, 2048, CLASSES)  # noqa: E731
    tiny = lambda: make_perceptron(16, 32, CLASSES)  # noqa: E731
    bidirectional = lambda: nn.Sequential(nn.Linear(64, 128), Recurrent(nn.LSTM, 128, 192))  # noqa: E731
    attention = lambda: nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)  # noqa: E731
    recomputed = lambda: nn.Sequential(  # noqa: E731
        Checkpointed(attention(), attention()), nn.Flatten(), nn.Linear(64 * 256, CLASSES)
    )
    blocks = lambda: nn.Sequential(  # noqa: E731
        Checkpointed(_convolve_twice(3, 32), nn.MaxPool2d(2), _convolve_twice(32, 64), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 64, CLASSES)),
    )
    stages = lambda: nn.Sequential(  # noqa: E731
        Checkpointed(*(_convolve_and_pool(*sizes) for sizes in ((3, 32), (32, 64), (64, 128)))),
        *(nn.Flatten(), nn.Linear(2048, CLASSES)),
    )
    tied = lambda: Recurrent(nn.LSTM, 256, 256, WORDS, tied=True)  # noqa: E731
    exact = {"half": True, "options": {**partials["options"], "deterministic": True, "engine": EngineMode.OPERATORS}}
    return (
        train("tiny_training", "perceptron", tiny, numbers(8, 16, classes=CLASSES)),
        train("tiny_bert_training", "BERT", tiny_bert, texts(2, 16, "class")),
        train("tiny_gpt2_training", "GPT-2", tiny_gpt2, texts(2, 16, "next"), shift=True),
        infer("tiny_inference", "perceptron", tiny, numbers(1, 16)),
        infer("tiny_bert_inference", "BERT", tiny_bert, texts(1, 16)),
        infer("tiny_gpt2_inference", "GPT-2", tiny_gpt2, texts(1, 16)),
        train("bert_training", "BERT", bert, classes),
        train("roberta_training", "BERT", roberta, following, shift=True),
        train("electra_training", "BERT", electra, classes),
        train("distilbert_training", "BERT", distilbert, classes),
        train("gpt2_training", "GPT-2", gpt2, following, shift=True, optimizer="AdamW"),
        train("gpt2_short_training", "GPT-2", gpt2, texts(1, 32, "next"), shift=True, optimizer="AdamW"),
        train("gptj_training", "GPT-J", gptj, following, shift=True, optimizer="AdamW"),
        train("vit_training", "ViT", vit, numbers(2, 3, 112, 112, classes=CLASSES)),
        train("resnet_training", "ResNet", resnet, image, optimizer="SGD"),
        train("bottleneck_training", "ResNet", bottlenecks, image, optimizer="SGD"),
        train(
            "large_images_training", "ResNet", bottlenecks, numbers(4, 3, 160, 160, classes=CLASSES), optimizer="SGD"
        ),
        train("mobilenet_training", "MobileNet", mobilenet, image, optimizer="SGD"),
        train("convnext_training", "ConvNeXt", convnext, image),
        train("unet_training", "U-Net", UNet, image),
        train("vgg_training", "VGG", vgg, small, optimizer="SGD"),
        train("alexnet_training", "AlexNet", alexnet, small, optimizer="SGD"),
        train("lenet_training", "LeNet", lenet, digits, optimizer="SGD"),
        train("lstm_training", "LSTM classifier", lstm, series),
        train("lstm_language_training", "LSTM language model", language, texts(4, 32, "next"), shift=True),
        train("tied_language_training", "LSTM language model", tied, texts(2, 32, "next"), shift=True),
        train("speech_training", "LSTM speech model", speech, numbers(8, 100, 80, classes=CLASSES)),
        train("gru_training", "GRU", gru, series),
        train("perceptron_training", "perceptron", perceptron, rows, optimizer="SGD"),
        train("dlrm_training", "DLRM", Recommender, categories_and_labels),
        train("ncf_training", "NCF", TwoTowers, pairs_and_labels),
        Workload("pinn_training", "PINN", lambda: Doubled(_smooth()), points_and_slopes, training=True),
        Workload("energy_training", "energy model", lambda: Doubled(_residual()), points_and_slopes, training=True),
        train("keras_cnn_training", "Keras CNN", lambda: KerasNetwork((3, 3, 3), 32, 0.1), keras),
        train("keras_pool_training", "Keras CNN", lambda: KerasNetwork((3, 3, 3), 32, pools=True), keras),
        train("keras_pixels_training", "Keras network in network", lambda: KerasNetwork((3, 1, 1, 1), 256), maps),
        train("keras_squeeze_training", "Keras SqueezeNet", lambda: KerasNetwork((3, 1, 3, 1), 192), maps),
        train("keras_vgg_training", "Keras VGG", lambda: KerasNetwork((3, 3, 3, 3), 128), wide_maps),
        train("keras_text_training", "Keras transformer", transformer_by_uniform, following, shift=True),
        train("bert_accumulation", "BERT", bert, texts(1, 128, "class"), options=steps),
        train("gpt2_accumulation", "GPT-2", gpt2, texts(1, 128, "next"), shift=True, options=apart),
        train("perceptron_accumulation", "perceptron", perceptron, rows, options=apart),
        train("perceptron_batched", "perceptron", perceptron, numbers(8, 256, classes=CLASSES), options=steps),
        train("lstm_accumulation", "LSTM classifier", lstm, numbers(4, 64, 128, classes=CLASSES), options=steps),
        train("resnet_accumulation", "ResNet", resnet, image, options=steps),
        train("dlrm_accumulation", "DLRM", Recommender, categories_and_labels, options=apart),
        train("bert_half_training", "BERT", bert, classes, **rounded),
        train("gpt2_half_training", "GPT-2", gpt2, following, shift=True, **rounded),
        train("gpt2_partials_training", "GPT-2", gpt2, following, shift=True, **partials),
        train("bert_partials_training", "BERT", bert, classes, **partials),
        train("resnet_half_training", "ResNet", resnet, image, **rounded),
        train("vgg_plain_half_training", "VGG", vgg, small, half=True),
        train("resnet_plain_half_training", "ResNet", resnet, image, half=True),
        train("lstm_half_training", "LSTM classifier", lstm, series, **rounded),
        train("perceptron_half_training", "perceptron", perceptron, rows, **rounded),
        train("perceptron_partials_training", "perceptron", perceptron, rows, **partials),
        train("checkpoint_training", "transformer with checkpoints", recomputed, numbers(4, 64, 256, classes=CLASSES)),
        train("checkpoint_vgg_training", "VGG with checkpoints", stages, small),
        train("checkpoint_images_training", "U-Net", blocks, small),
        train("bert_exact_training", "BERT", bert, classes, **exact),
        train("gpt2_exact_training", "GPT-2", gpt2, following, shift=True, **exact),
        train("perceptron_exact_training", "perceptron", perceptron, rows, **exact),
        infer("bert_inference", "BERT", bert, texts(1)),
        infer("gpt2_inference", "GPT-2", gpt2, texts(1)),
        infer("gptj_inference", "GPT-J", gptj, texts(1)),
        infer("gpt2_classifier_inference", "GPT-2", gpt2_classifier, texts(1)),
        infer("t5_inference", "T5", t5, texts(1)),
        infer("whisper_inference", "Whisper", whisper, numbers(1, 80, 400)),
        infer("wav2vec_inference", "wav2vec 2.0", wav2vec, numbers(1, 8000)),
        infer("vit_inference", "ViT", vit, numbers(1, 3, 112, 112)),
        infer("resnet_inference", "ResNet", resnet, numbers(1, 3, 64, 64)),
        infer("mobilenet_inference", "MobileNet", mobilenet, numbers(1, 3, 64, 64)),
        infer("convnext_inference", "ConvNeXt", convnext, numbers(1, 3, 64, 64)),
        infer("large_images_inference", "ResNet", resnet, numbers(2, 3, 224, 224)),
        infer("unet_inference", "U-Net", UNet, numbers(1, 3, 64, 64)),
        infer("vgg_inference", "VGG", vgg, numbers(1, 3, 32, 32)),
        infer("lenet_inference", "LeNet", lenet, numbers(16, 1, 28, 28)),
        infer("enhancement_inference", "ESPCN", tiny_network, numbers(1, 3, 32, 32)),
        infer("keyword_inference", "keyword spotting CNN", keywords, numbers(8, 1, 40, 64)),
        infer("lstm_inference", "LSTM classifier", lstm, numbers(1, 64, 128)),
        infer("small_lstm_inference", "LSTM classifier", small_lstm, numbers(1, 32, 32)),
        infer("speech_inference", "LSTM speech model", speech, numbers(1, 100, 80)),
        infer("tagger_inference", "LSTM with features", bidirectional, numbers(4, 40, 64)),
        infer("gru_inference", "GRU", gru, numbers(1, 64, 128)),
        infer("lstm_language_inference", "LSTM language model", language, texts(1, 1)),
        infer("wide_row_inference", "perceptron", wide, numbers(1, 1024)),
        Workload("generation_inference", "GPT-2", CachedAttention, token_and_place),
        Workload("key_bank_inference", "MoCo", KeyBank, samples_and_places),
        infer("bert_half_inference", "BERT", bert, texts(1, 32), half=True),
        infer("perceptron_half_inference", "perceptron", wide, numbers(4, 1024), half=True),
        infer("vgg_half_inference", "VGG", vgg, numbers(1, 3, 32, 32), half=True),
        infer("resnet_half_inference", "ResNet", resnet, numbers(1, 3, 64, 64), half=True),
        infer("bert_loop_inference", "BERT", bert, texts(1, 32), options={"device_iterations": 4}),
        infer("perceptron_loop_inference", "perceptron", wide, numbers(4, 1024), options={"device_iterations": 8}),
    )


def _convolve_and_pool(given: int, made: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(given, made, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


def _smooth() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))


def _residual() -> nn.Module:
    return nn.Sequential(
        nn.Linear(3, 128), nn.LayerNorm(128), nn.Softplus(), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 1)
    )


WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _list()}
