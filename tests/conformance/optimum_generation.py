"""The original's generation on our PopTorch: run by run_optimum.py, in the wheel's own environment.

In: tiny models with random weights, from tests/optimum/matrix.py. Out: the tokens that plain Transformers generates,
greedily and by beams, in every way that the original has of doing it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matrix import collect_rows

from optimum.graphcore import (
    IPUConfig,
)
from optimum.graphcore.modeling_utils import to_pipelined

LENGTH = 10
BATCH = 2
DEVICE_STEPS = 3
CACHED = {"use_cache": True, "use_cross_cache": True}
WAYS: dict[str, dict[str, Any]] = {
    "without a cache": {},
    "caches": CACHED,
    "caches, encoder's output in a buffer": {**CACHED, "use_encoder_output_buffer": True},
    "caches, steps on the device": {
        **CACHED,
        "use_encoder_output_buffer": True,
        "on_device_generation_steps": DEVICE_STEPS,
    },
    "caches, encoder under a condition": {**CACHED, "use_cond_encoder": True},
}
CASES = [
    ("GPT2LMHeadModel", "without a cache"),
    ("T5ForConditionalGeneration", "without a cache"),
    ("T5ForConditionalGeneration", "caches"),
    ("T5ForConditionalGeneration", "caches, encoder's output in a buffer"),
    ("T5ForConditionalGeneration", "caches, steps on the device"),
    ("BartForConditionalGeneration", "without a cache"),
    ("BartForConditionalGeneration", "caches"),
    ("BartForConditionalGeneration", "caches, encoder's output in a buffer"),
    ("BartForConditionalGeneration", "caches, steps on the device"),
    ("WhisperForConditionalGeneration", "without a cache"),
    ("WhisperForConditionalGeneration", "caches"),
    ("WhisperForConditionalGeneration", "caches, encoder's output in a buffer"),
    ("WhisperForConditionalGeneration", "caches, steps on the device"),
    ("WhisperForConditionalGeneration", "caches, encoder under a condition"),
]
ROWS = {row.name: row for row in reversed(collect_rows())}


def scramble_weights(model: torch.nn.Module) -> None:
    """Weights with which the next token depends on what came before: the layers outweigh the token's own embedding."""
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                tied = any(word in name for word in ("shared", "embed_tokens", "wte", "lm_head", "proj_out"))
                parameter.normal_(std=0.1 if tied else 1.0)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize(("name", "way"), CASES)
def test_generation(name: str, way: str, num_beams: int):
    row = ROWS[name]
    original = row.make_original().eval()
    scramble_weights(original)
    inputs = {key: value for key, value in row.make_batch(BATCH).items() if key not in row.labels}
    inputs.pop("decoder_input_ids", None)
    inputs.pop("decoder_attention_mask", None)
    if "attention_mask" in inputs:
        inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
    wanted = {"max_length": LENGTH, "min_length": LENGTH, "num_beams": num_beams, "forced_eos_token_id": None}
    if name.startswith("GPT2"):
        prompt = inputs["input_ids"].shape[1]
        wanted.update(max_length=LENGTH + prompt, min_length=LENGTH + prompt, pad_token_id=0)
    chosen = dict(WAYS[way])
    # Steps on the device end with the last block that another one could follow; beams are those from before that block.
    short = LENGTH - DEVICE_STEPS * (1 if num_beams == 1 else 2)
    reached = {"max_length": short, "min_length": short} if "on_device_generation_steps" in chosen else {}
    expected = original.generate(**inputs, **{**wanted, **reached})
    assert expected.unique().numel() > 3, expected
    if chosen:
        source = next(iter(inputs.values())).shape[-1]
        halved = name.startswith("Whisper")  # by the second convolution of its encoder
        chosen.update(batch_size=BATCH, max_length=LENGTH, num_beams=num_beams)
        chosen.update(encoder_max_length=source // 2 if halved else source)
    wanted["use_cache"] = bool(chosen)
    together = name.startswith("GPT2") or "use_cond_encoder" in chosen
    config = IPUConfig(layers_per_ipu=[-1] if together else [-1, -1], executable_cache_dir="disabled")
    config.eval()
    model = to_pipelined(row.make_original().eval(), config)
    model.load_state_dict(original.state_dict())
    model.parallelize(for_generation=True, **chosen)
    generated = model.generate(**inputs, **wanted)
    torch.testing.assert_close(generated[:, : expected.shape[1]], expected)
