"""The prompt of a sequence, read at once.

In: the first call of a sequence, and the program of single steps that will go on with it. Out: the logits of the last
token of the prompt; its keys and values stand in the buffers of that program, as if it had read them one by one.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.pod import find_pod
from optimum.graphcore.generation.compiling import compile_prompt
from optimum.graphcore.generation.decoder_call import DecoderCall
from optimum.graphcore.generation.device_cache import DeviceCache
from optimum.graphcore.generation.executors import (
    CompiledProgram,
    fill_rows,
    report_into,
    sign_inputs,
    write_prompt,
)

FEW_TOKENS = 8  # fewer go through the program of single steps: a program of their own would not pay for its compilation


def count_tokens_at_once(model: Any, cache: DeviceCache, count: int) -> int:
    """How many of the `count` tokens of a call are read at once; 0: each is a step."""
    settings = model.generation_settings
    if cache.length or count < 2 or settings.use_cond_encoder:  # the encoder is in the program of steps, and only there
        return 0
    if model.decoder_ipu_config.inference_replication_factor > 1:  # all replicas would be handed the same rows
        return 0
    if settings.prompt_length is None:
        return count if count >= FEW_TOKENS else 0
    return min(count, settings.prompt_length) if settings.prompt_length > 1 else 0


def read_prompt(
    model: Any, call: DecoderCall, cache: DeviceCache, count: int, step_program: CompiledProgram
) -> torch.Tensor:
    """The logits (rows, 1, vocabulary) that follow the first `count` tokens of the call."""
    beams = cache.num_beams
    texts = call.take_every(beams)  # the beams of a text are still the same
    program = model.generation_programs.prompt
    if program is None or not program.accepts(sign_inputs(texts.list_tokens(0, 1) | texts.held), texts.rows, count):
        program = compile_prompt(model, texts, _choose_length(model, cache, count))
    inputs = texts.list_tokens(0, program.tokens) | texts.fill_mask(program.tokens) | texts.held
    takes_turns = not find_pod().open  # where IPUs are counted, both programs use the same ones
    if takes_turns:
        step_program.detach()
    with report_into("prompt"):
        made: tuple[torch.Tensor, ...] = program.run(last=torch.tensor([count - 1]), **fill_rows(inputs, program.rows))
    if takes_turns:
        program.detach()
    logits, *states = (tensor[: texts.rows].repeat_interleave(beams, dim=0) for tensor in made)
    write_prompt(step_program, list(zip(states[::2], states[1::2], strict=True)))
    cache.length = count
    return logits


def _choose_length(model: Any, cache: DeviceCache, count: int) -> int:
    """Tokens to compile for. Where prompts grow, each length is twice the last one, so that few are compiled."""
    fixed: int | None = model.generation_settings.prompt_length
    if fixed is not None:
        return fixed
    before: CompiledProgram | None = model.generation_programs.prompt
    if before is None or count <= before.tokens:
        return count
    return max(count, min(2 * before.tokens, cache.tokens))
