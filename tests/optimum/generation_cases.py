"""Models that generate, what they are asked, and the comparison with plain Transformers."""

from __future__ import annotations

from typing import Any

import matrix_decoders as tiny
import torch
import transformers

from optimum.graphcore import IPUConfig
from optimum.graphcore.modeling_utils import to_pipelined

FAMILIES = {
    "gpt2": (transformers.GPT2LMHeadModel, tiny.make_gpt2_config),
    "t5": (transformers.T5ForConditionalGeneration, tiny.make_t5_config),
    "mt5": (transformers.MT5ForConditionalGeneration, lambda: tiny.make_t5_config(transformers.MT5Config)),
    "bart": (transformers.BartForConditionalGeneration, tiny.make_bart_config),
    "whisper": (transformers.WhisperForConditionalGeneration, tiny.make_whisper_config),
}
STRATEGIES = {
    "greedy": {"do_sample": False},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "sampling": {"do_sample": True, "top_k": 20, "temperature": 0.8},
}
LENGTH = 13


def make_model(family: str) -> Any:
    """A model whose weights are far enough apart for its tokens to differ."""
    kind, make_config = FAMILIES[family]
    torch.manual_seed(0)
    model = kind(make_config()).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.4)
    return model


def make_inputs(family: str, rows: int = 2) -> dict[str, torch.Tensor]:
    if family == "whisper":
        return {"input_features": tiny.make_speech(rows)["input_features"]}
    text = tiny.make_text(rows)
    if family == "gpt2":  # padded on the left
        text["attention_mask"] = text["attention_mask"].flip(1)
    return text


def make_ipu_config(ipus: int, family: str = "t5", **fields: Any) -> IPUConfig:
    layers = [-1] if ipus == 1 else [0, 1, 1, 0] if family == "gpt2" else [1, 1, 1, 1]
    return IPUConfig(layers_per_ipu=layers, executable_cache_dir="disabled", **fields)


def make_pipelined(model: Any, ipus: int = 1, fields: dict[str, Any] | None = None, **settings: Any) -> Any:
    family = "gpt2" if isinstance(model, transformers.GPT2LMHeadModel) else "t5"
    pipelined = to_pipelined(model, make_ipu_config(ipus, family, **(fields or {})))
    return pipelined.parallelize(for_generation=True, **settings)


def generate(model: Any, inputs: dict[str, torch.Tensor], **arguments: Any) -> torch.Tensor:
    torch.manual_seed(1)
    # Each token once: else a random model soon repeats itself, and any cache would do.
    return model.generate(**inputs, **{"max_length": LENGTH, "no_repeat_ngram_size": 1, **arguments})


def assert_same_tokens(model: Any, pipelined: Any, inputs: dict[str, torch.Tensor], **arguments: Any) -> None:
    expected = generate(model, inputs, **arguments)
    assert torch.equal(generate(pipelined, inputs, **arguments), expected)
    assert expected.unique().numel() > 5, "the comparison would show little"
