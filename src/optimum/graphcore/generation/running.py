"""Calls of a generating model, run as steps of static shapes.

In: a model and a sorted call. Out: the logits of the last token of each row. A prompt is read at once where it pays
(`prompts.py`), and goes through the program of single steps otherwise; where keys and values are not kept, each step
runs over all tokens.
"""

from __future__ import annotations

from typing import Any

import torch

from optimum.graphcore.generation.compiling import compile_decoder, compile_encoder
from optimum.graphcore.generation.decoder_call import DecoderCall, Tensors
from optimum.graphcore.generation.decoder_program import ENCODER_MASK, ENCODER_STATES
from optimum.graphcore.generation.device_cache import DeviceCache
from optimum.graphcore.generation.executors import CompiledProgram, fill_rows, report_into, sign_inputs, write_buffers
from optimum.graphcore.generation.prompts import count_tokens_at_once, read_prompt


def run_encoder(model: Any, inputs: Tensors) -> torch.Tensor:
    """The last hidden states of the encoder."""
    rows = len(inputs[model.main_input_name])
    if not model.encoder_reads_mask:
        inputs = {name: value for name, value in inputs.items() if name != ENCODER_MASK}
    program = model.generation_programs.encoder
    if program is None or not program.accepts(sign_inputs(inputs), rows, 0):
        program = compile_encoder(model, inputs)
    with report_into("encoder"):
        states: torch.Tensor = program.run(**fill_rows(inputs, program.rows))
    return states[:rows]


def run_decoder(model: Any, call: DecoderCall, cache: DeviceCache | None) -> torch.Tensor:
    """The logits (rows, 1, vocabulary) that follow the last token."""
    if not model.encoder_reads_mask:
        call = call.without(ENCODER_MASK)
    count = call.tokens.shape[1]
    if cache is None:
        length = max(model.uncached_length, count)
        return _run_step(model, call, call.list_tokens(0, length) | call.fill_mask(length), count - 1, None)
    if cache.length + count > cache.tokens:
        raise ValueError(
            f"{cache.length} tokens are on the device and {count} more come, but its cache holds {cache.tokens}. "
            "Raise max_length."
        )
    at_once = count_tokens_at_once(model, cache, count)
    if at_once:
        logits = _read_prompt(model, call, cache, at_once)
    for position in range(at_once, count):
        logits = _run_step(model, call, call.list_tokens(position, 1), cache.length, cache)
        cache.length += 1
    return logits


def _read_prompt(model: Any, call: DecoderCall, cache: DeviceCache, count: int) -> torch.Tensor:
    inputs = call.list_tokens(0, 1)
    program = _find_program(model, call, _order_beams(call, inputs, cache), 0, cache)
    logits = read_prompt(model, call, cache, count, program)
    if model.generation_settings.use_cross_cache:  # the first step makes what is kept of the encoder's output
        _run_step(model, call, inputs, 0, cache)
    return logits


def _order_beams(call: DecoderCall, inputs: Tensors, cache: DeviceCache | None) -> Tensors:
    """The inputs of a step, with the row that each row goes on from."""
    if cache is None or cache.num_beams == 1:
        return inputs
    order = cache.take_beam_order()
    return {**inputs, "beam_order": torch.arange(call.rows) if order is None else order.long()}


def _find_program(
    model: Any, call: DecoderCall, inputs: Tensors, step: int, cache: DeviceCache | None
) -> CompiledProgram:
    """The program of one step; only the first step of a sequence may need another one than there is."""
    signature = sign_inputs(inputs | call.held)
    found: CompiledProgram | None
    found = model.generation_programs.uncached if cache is None else model.generation_programs.decoder
    if found is not None and found.accepts(signature, call.rows, 0 if cache is None else cache.tokens):
        return found
    if cache is not None and step:
        raise ValueError("The inputs of `generate` changed their shapes between two tokens of a sequence.")
    return compile_decoder(model, call, inputs, cache)


def _run_step(model: Any, call: DecoderCall, inputs: Tensors, step: int, cache: DeviceCache | None) -> torch.Tensor:
    settings = model.generation_settings
    inputs = _order_beams(call, inputs, cache)
    program = _find_program(model, call, inputs, step, cache)
    if settings.use_encoder_output_buffer:
        _hold(program, call)
    else:
        inputs = inputs | call.held
    if cache is not None:
        inputs = inputs | call.fill_mask(program.tokens)
    filled = fill_rows(inputs, program.rows)
    if "beam_order" in filled:  # rows of one replica are numbered from 0
        filled["beam_order"] = filled["beam_order"] % (program.rows // program.replicas)
    if settings.use_cond_encoder:
        features = filled.pop(ENCODER_STATES)[:: 1 if cache is None else cache.num_beams]
        filled[model.main_input_name] = features.contiguous()
    with report_into("decoder" if call.held else ""):
        logits: torch.Tensor = program.run(step=torch.full((program.replicas,), step), **filled)
    return logits[: call.rows]


def _hold(program: CompiledProgram, call: DecoderCall) -> None:
    """Write what the encoder made to the decoder's IPUs, once a sequence."""
    states = call.held[ENCODER_STATES]
    if program.held is not states:
        write_buffers(program, fill_rows(call.held, program.rows))
        program.held = states
