"""Greedy generation and beam search with GPT-2: by plain Transformers, and by openipu's programs with static caches.

In: a way and a size, by name, and a number of beams. Out: seconds of one `generate`, and its tokens, so that both can
be compared. Weights are random, and no token ends a sequence: both make the same number of steps.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from bench.work.process_figures import wait_until_idle

SIZES: dict[str, dict[str, int]] = {
    "gpt2_small": {"n_layer": 4, "n_embd": 256, "n_head": 4},
    "gpt2": {},
}
PLAIN = "transformers"
# Tokens that the device chooses between two calls.
WAYS: dict[str, int] = {PLAIN: 0, "openipu": 0, "openipu, 16 tokens a call": 16}
SETTLING_SECONDS = 8.0  # single functions are compiled after three seconds of steps
PROMPT, NEW = 16, 49  # the prompt's own step and three calls of sixteen


class GenerationRunner:
    """A model that continues a prompt when its turn comes."""

    def __init__(self, way: str, size: str, beams: int = 1, batch: int = 1) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(0)
        config = GPT2Config(eos_token_id=None, bos_token_id=None, pad_token_id=0, **SIZES[size])  # type: ignore[arg-type]
        self._model: Any = GPT2LMHeadModel(config).eval()
        self._prompt = torch.randint(1, 50000, (batch, PROMPT))
        if way != PLAIN:
            self._model = place_on_ipu(self._model, batch, beams, WAYS[way])
        self._beams = beams

    def settle(self, limit_seconds: float = 120.0) -> None:
        """Generate until nothing goes on behind it: native code that is compiled for it is there then."""
        started, busy = time.perf_counter(), True
        while busy and time.perf_counter() - started < limit_seconds:
            warmed = time.perf_counter()
            while time.perf_counter() - warmed < SETTLING_SECONDS:
                self._continue()
            busy = wait_until_idle(limit_seconds, alone=True)
        self._continue()

    def generate(self) -> float:
        """Seconds of one call."""
        started = time.perf_counter()
        self._continue()
        return time.perf_counter() - started

    def list_tokens(self) -> list[list[int]]:
        """Of each sequence."""
        found: list[list[int]] = self._continue().tolist()
        return found

    def _continue(self) -> torch.Tensor:
        with torch.inference_mode(False), torch.no_grad():
            found: torch.Tensor = self._model.generate(
                self._prompt,
                attention_mask=torch.ones_like(self._prompt),
                max_length=PROMPT + NEW,
                do_sample=False,
                num_beams=self._beams,
            )
        return found


def place_on_ipu(model: Any, batch: int, beams: int, tokens: int) -> Any:
    """The same model with compiled programs behind `generate`."""
    from optimum.graphcore import IPUConfig
    from optimum.graphcore.modeling_utils import to_pipelined

    pipelined = to_pipelined(model, IPUConfig(layers_per_ipu=[model.config.n_layer], enable_half_partials=False))
    pipelined.show_compilation_progress = False
    settings = {"batch_size": batch, "num_beams": beams, "max_length": PROMPT + NEW, "prompt_length": PROMPT}
    pipelined.parallelize(for_generation=True, on_device_generation_steps=tokens, **settings)
    return pipelined.eval()
