"""Which model a row means.

In: a row's workload text and parameters. Out: a `ModelSpec`, or a `FiguresError` that says what is not known.
Nothing here looks at a row's id or value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from openipu.errors import FiguresError
from openipu.models.layers import Format
from openipu.models.spec import ModelSpec
from openipu.models.text.encoders import Gelu
from openipu.validation.figures import FigureRow

_TRAINING_WORDS = ("train", "fine-tun", "finetun", "epoch", "time to")
_DETAILS = ("layers", "heads", "d", "vocabulary", "embedding_params", "attention")
SPEECH_FRAMES = 1220  # what the vendor's public example fills utterances up to: 12 s, at 100 frames a second


def is_training(row: FigureRow) -> bool:
    """Whether a row's figure was taken while training."""
    text = f"{row.workload} {row.metric} {row.params.get('mode', '')}".lower()
    return any(word in text for word in _TRAINING_WORDS)


def recognise_model(row: FigureRow) -> ModelSpec:
    """The model of a row."""
    text = row.workload.lower()
    training = is_training(row)
    form, edge = read_format(row, training)
    for pattern, kind, more in _PATTERNS:
        if re.search(pattern, text):
            fields: dict[str, Any] = {**more, **_read_sizes(kind, text, row, training)}
            details = dict(fields.pop("details", {}))
            details |= {name: row.params[name] for name in _DETAILS if name in row.params}
            return ModelSpec(
                kind=kind,
                form=form,
                training=training,
                edge_form=edge if kind == "resnet" else None,
                details=tuple(sorted(details.items())),
                **fields,
            )
    raise FiguresError(
        f"Row {row.id}: no model is known by the name {row.workload!r}. "
        f"Known are {', '.join(sorted({kind for _, kind, _ in _PATTERNS}))}."
    )


def read_format(row: FigureRow, training: bool) -> tuple[Format, Format | None]:
    """Number format of products, and of the first and last layer where it differs."""
    text = str(row.params.get("dtype", row.params.get("precision", ""))).lower()
    if text.startswith("fp8"):
        return Format.FLOAT8, None if "everywhere" in text else Format.HALF
    if text.startswith(("fp32", "32")):
        return Format.FLOAT32, None
    stated = text or "global_batch" in row.params or "MLPerf" in row.workload
    return (Format.HALF if stated else Format.FLOAT32), None  # PyTorch's own format where nobody chose one


_PATTERNS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (r"resnext", "resnext", {}),
    (r"resnet", "resnet", {}),
    (r"efficientnet", "efficientnet", {}),
    (r"mobilenet", "mobilenet", {}),
    (r"yolo.*v4", "grid detector", {"pixels": 416, "size": "v4"}),
    (r"yolo", "grid detector", {"pixels": 416, "size": "v3"}),
    (r"faster ?r-?cnn", "region detector", {"pixels": 608}),
    (r"u-?net.*industrial", "unet", {"pixels": 512, "size": "industrial"}),
    (r"u-?net", "unet", {"pixels": 572}),
    (r"small cnn", "small network", {"pixels": 28}),
    (r"videobert", "clip", {"size": "pair"}),
    (r"clip text", "clip", {"size": "text"}),
    (r"clip", "clip", {"size": "pair"}),
    (r"albert", "bert", {"details": {"family": "albert"}}),
    (r"roberta", "bert", {"details": {"family": "roberta"}}),
    (r"deberta", "bert", {"details": {"family": "deberta"}}),
    (r"roformer", "bert", {"size": "small", "details": {"family": "roformer"}}),
    (r"groupbert", "grouped encoder", {"length": 128}),
    (r"bert", "bert", {}),
    (r"dino", "dino", {}),
    (r"\bvit\b", "vit", {}),
    (r"swin", "swin", {}),
    (r"conformer", "conformer", {}),
    (r"rnn-?t", "transducer", {"length": 600}),
    (r"wide ?& ?deep", "wide and deep", {}),
    (r"dlrm", "dlrm", {}),
    (r"gpt|neox", "decoder", {}),
    (r"dall-?e", "picture decoder", {"length": 336}),
    (r"gps\+\+", "graph transformer", {}),
    (r"graphsage", "sampled graph", {}),
    (r"deep ?voice", "deep voice", {}),
    (r"fast ?speech", "fast speech", {}),
    (r"mcmc|monte carlo", "sampler", {}),
    (r"\btgn\b", "temporal graph", {}),
    (r"\bmpnn\b", "message network", {}),
    (r"sales forecast", "forecast", {}),
    (r"\bet0\b|evapotranspiration", "weather", {}),
    (r"reinforcement|\bpolicy\b", "policy", {}),
    (r"\bvae\b", "variational autoencoder", {}),
    (r"autoencoder", "autoencoder", {}),
    (r"\bdien\b", "interest", {"size": "evolving"}),
    (r"\bdin\b", "interest", {}),
)


def _read_sizes(kind: str, text: str, row: FigureRow, training: bool) -> dict[str, Any]:
    """What the text says of sizes."""
    found: dict[str, Any] = {}
    size = re.search(r"\b(tiny|small|base|large)\b", text)
    if size and kind in ("bert", "vit", "swin"):
        found["size"] = size.group(1)
    if kind in ("resnet", "resnext"):
        found["size"] = str(_find_number(r"res\D+(\d+)", text, 50))
    if kind == "efficientnet":
        found["size"] = (re.search(r"b\d", text) or ["b0"])[0]
        found["pixels"] = {"b4": 380, "b5": 456}.get(found["size"], 224)
        found["details"] = {"group_width": _find_number(r"\bg(\d+)", text, 1)}
    if kind == "mobilenet":
        found["size"] = "v3" if "v3" in text else "v2"
    if kind == "vit" and "pre-training" in text:
        found["details"] = {"mixed_images": 1}
    if kind == "swin":
        found["pixels"] = _find_number(r"(\d{3})", text, 224)
    if kind == "bert":
        found |= _read_bert(text, row, training)
    if kind == "conformer":
        found["length"] = SPEECH_FRAMES if training else 512
    if kind == "decoder":
        found["length"] = int(row.params.get("seq", _find_number(r"seq(\d+)", text, 336)))
        if "nanogpt" in text:
            found["details"] = {"vocabulary": 65}
    return found


def _read_bert(text: str, row: FigureRow, training: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"length": _find_number(r"sl(\d+)", text, 128)}
    family = re.search(r"albert|roberta|deberta|roformer", text)
    head = "span" if "squad" in text else "masked tokens" if training else "none"
    found["details"] = {"family": family.group(0) if family else "bert", "head": head}
    if training and "packed" in text:
        found["details"]["packed"] = 1
    if "data" in row.params:  # the converter's own table: exported graphs, and where their data came from
        found["written_out"] = True
        found["gelu"] = Gelu.FUSED if row.params.get("gelu") == "approximate" else Gelu.PARTS
    return found


def _find_number(pattern: str, text: str, default: int) -> int:
    """The first number that a pattern finds in a text."""
    found = re.search(pattern, text)
    return int(found.group(1)) if found else default
