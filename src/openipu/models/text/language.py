"""Language models from their specs: BERT and its relatives, GPT and its relatives.

In: a `ModelSpec` and a batch. Out: the module and the inputs of one micro-batch.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.models.spec import BASE, LARGE, SMALL, Built, Inputs, ModelSpec, count_inputs, count_labels
from openipu.models.text.decoders import Decoder, DecoderShape
from openipu.models.text.encoders import EncoderShape, Head, Positions, TokenEncoder
from openipu.models.text.exported import ExportedEncoder

_BERT_VOCABULARY, _ROBERTA_VOCABULARY, _DEBERTA_VOCABULARY = 30522, 50265, 50265
_PREDICTED_SHARE = 0.16  # masked tokens of pre-training, rounded up as the vendor's examples do


def build_bert(spec: ModelSpec, batch: int) -> Built:
    sizes: dict[str, Any] = dict(
        LARGE if spec.size == "large" else SMALL | {"layers": 6} if spec.size == "small" else BASE
    )
    family = dict(spec.details).get("family", "bert")
    vocabulary = {"roberta": _ROBERTA_VOCABULARY, "deberta": _DEBERTA_VOCABULARY}.get(str(family), _BERT_VOCABULARY)
    positions = {"deberta": Positions.DISENTANGLED, "roformer": Positions.ROTARY}.get(str(family), Positions.ABSOLUTE)
    if family == "albert":
        sizes |= {"shares_layers": True, "embedding": 128, "vocabulary": 30000}
    shape = EncoderShape(
        **{"vocabulary": vocabulary, **sizes},
        most_positions=max(512, spec.length),
        positions=positions,
        gelu=spec.gelu,
        dropout=0.1 if spec.training else 0.0,
        attention_dropout=bool(spec.detail("attention_dropout", 1)),
        fused_attention=bool(spec.detail("fused_attention", 0)),
        float_parts=bool(spec.detail("float_parts", 0)),
        packed=bool(spec.detail("packed", 0)),
        separate=not spec.training,  # the vendor's training examples fuse them; what is exported does not
    )
    tokens, mask = count_inputs(batch, spec.length), count_inputs(batch, spec.length)
    if spec.written_out:
        return ExportedEncoder(shape, spec.form), (tokens, mask)
    head = Head(str(dict(spec.details).get("head", "none")))
    predicted = -(-int(spec.length * _PREDICTED_SHARE) // 4) * 4
    model = TokenEncoder(shape, spec.form, head, predicted=predicted)
    if not spec.training:
        return model, (tokens, mask)
    return model, (tokens, mask, torch.empty(batch, spec.length, dtype=torch.long))


def build_decoder(spec: ModelSpec, batch: int) -> Built:
    pieces = 8 if dict(spec.details).get("attention") == "flash" else 0
    shape = DecoderShape(
        layers=spec.detail("layers", 12),
        hidden=spec.detail("d", 768),
        heads=spec.detail("heads", 12),
        vocabulary=spec.detail("vocabulary", 50257),
        most_positions=spec.length,
        rotary=bool(spec.detail("rotary", 0)),
        tied=not spec.detail("rotary", 0),
        flash_pieces=pieces,
    )
    inputs: Inputs = (count_inputs(batch, spec.length),)
    return Decoder(shape, spec.form), ((*inputs, count_labels(batch, spec.length)) if spec.training else inputs)
