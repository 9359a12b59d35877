"""The host's side of a search on the device.

In: what Transformers gives to its greedy search or beam search. Out: the same tokens, from calls of several steps each;
the host looks at each step of a call, and leaves out what the device did after the search had ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

from optimum.graphcore.generation.compiling import build_step, give_up
from optimum.graphcore.generation.decoder_call import DecoderCall, Tensors
from optimum.graphcore.generation.decoder_program import ENCODER_MASK, ENCODER_STATES, DecoderWrapper
from optimum.graphcore.generation.device_cache import DeviceCache
from optimum.graphcore.generation.device_logits import DeviceProcessor, build_device_processors
from optimum.graphcore.generation.executors import (
    CompiledProgram,
    fill_rows,
    report_into,
    sign_inputs,
    wrap_program,
    write_buffers,
    write_sequences,
)
from optimum.graphcore.generation.on_device import OnDeviceGreedySearch
from optimum.graphcore.generation.on_device_beams import BeamRules, OnDeviceBeamSearch
from optimum.graphcore.generation.prompts import count_tokens_at_once, read_prompt

Results = tuple[torch.Tensor, ...]  # of one device iteration


def search_on_device(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    synced_gpus: bool = False,
    streamer: Any = None,
    **model_kwargs: Any,
) -> torch.Tensor:
    """Sequences of greedy search or beam search: the prompt and what follows it."""
    _check_request(generation_config, stopping_criteria, streamer)
    steps = model.generation_settings.on_device_generation_steps
    prompt, longest = input_ids.shape[1], stopping_criteria.max_length
    tokens = longest - 1  # the one at the last position needs no step
    inputs = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **model_kwargs)
    inputs.pop("past_key_values", None)
    call = DecoderCall.read(inputs, bool(model.config.is_encoder_decoder))
    if not model.encoder_reads_mask:
        call = call.without(ENCODER_MASK)
    timeline = _fill_timeline(call, tokens)
    program = _find_program(model, call, timeline, tokens, logits_processor, generation_config)
    if model.generation_settings.use_encoder_output_buffer:
        write_buffers(program, fill_rows(call.held, program.rows))
    start = _read_prompt(model, call, program)
    results = (
        result
        for first in range(start, tokens, steps)
        for result in _run_steps(model, program, call, timeline, first, steps)
    )
    if (generation_config.num_beams or 1) > 1:
        return _read_beams(results, start, prompt, call.rows, generation_config).to(input_ids.dtype)
    sequences = input_ids
    for position, (chosen,) in enumerate(results, start):
        if position >= prompt - 1:
            sequences = torch.cat([sequences, chosen[: call.rows].to(input_ids.dtype)], dim=1)
            if stopping_criteria(sequences, ()).all() or _all_ended(sequences[:, prompt:], generation_config):
                break
    return sequences


def _read_prompt(model: Any, call: DecoderCall, program: CompiledProgram) -> int:
    """Read the tokens of the prompt that are read at once, and return the position to go on from: their last one."""
    cache = DeviceCache(program.tokens, program.num_beams)
    count = count_tokens_at_once(model, cache, call.tokens.shape[1])
    if not count or model.generation_settings.use_cross_cache:  # the first step makes what is kept of the encoder
        return 0
    write_sequences(program, fill_rows({"tokens": call.tokens[:, :count]}, program.rows)["tokens"])
    read_prompt(model, call, cache, count, program)
    return count - 1


def _read_beams(
    results: Iterator[Results], start: int, prompt: int, rows: int, config: GenerationConfig
) -> torch.Tensor:
    """The finished sequences of the first step after which nothing is to be gained."""
    texts = rows // config.num_beams
    for position, result in enumerate(results, start):
        if position < prompt - 1:
            continue
        sequences, lengths, may_improve, is_finished, ends = (part[:texts] for part in result)
        full = config.early_stopping is True and bool(is_finished.all())
        if full or not may_improve.any() or bool(ends.all()):
            break
    kept = config.num_return_sequences or 1
    length = prompt + int(lengths[:, :kept].max())
    return sequences[:, :kept, :length].flatten(0, 1)


def _check_request(config: GenerationConfig, criteria: StoppingCriteriaList, streamer: Any) -> None:
    if config.do_sample:
        raise NotImplementedError("On device sampling is not supported: use on_device_generation_steps=0.")
    if config.return_dict_in_generate or streamer is not None:
        raise NotImplementedError(
            "On device generation returns sequences only: leave out return_dict_in_generate and streamer, or use "
            "on_device_generation_steps=0."
        )
    other = [type(each).__name__ for each in criteria if not isinstance(each, MaxLengthCriteria | EosTokenCriteria)]
    if other:
        raise NotImplementedError(f"On device generation stops at end tokens and max_length, not by {other}.")


def _all_ended(generated: torch.Tensor, config: GenerationConfig) -> bool:
    """Whether each row has an end token somewhere: the device fills the rest of a row with padding."""
    ends = config._eos_token_tensor
    return ends is not None and bool(torch.isin(generated, ends).any(dim=1).all())


def _fill_timeline(call: DecoderCall, length: int) -> Tensors:
    """Tokens, positions and the mask for all steps, as (rows, length). Positions count on after the prompt."""
    filled = call.list_tokens(0, length)
    beyond = (torch.arange(length) - call.tokens.shape[1] + 1).clamp(min=0)
    for name in call.by_token:
        if name.endswith("position_ids"):
            filled[name] = filled[name] + beyond
    return filled


def _find_program(
    model: Any,
    call: DecoderCall,
    timeline: Tensors,
    tokens: int,
    processors: LogitsProcessorList,
    config: GenerationConfig,
) -> CompiledProgram:
    programs, steps = model.generation_programs, model.generation_settings.on_device_generation_steps
    told = [(type(each).__name__, sorted(vars(each).items())) for each in processors]
    search = repr([_read_rules(config), told])
    signature = sign_inputs({name: value[:, :1] for name, value in timeline.items()} | call.held)
    found: CompiledProgram | None = programs.on_device
    if found is not None and found.accepts(signature, call.rows, tokens) and found.search == search:
        return found
    give_up(found, "decoder")
    step = build_step(model, call, tokens, config.num_beams or 1)
    own_rows = step.rows // step.replicas
    module = _build_search(step.wrapper, call, own_rows, tokens + 1, build_device_processors(processors), config)
    if step.replicas == 1:
        held = call.held if model.generation_settings.use_encoder_output_buffer else {}
        assert step.wrapper.cache is not None
        inner = [*held, *(f"cache.{name}" for name, _ in step.wrapper.cache.named_buffers())]
        step.options.updatableNamedBuffers([*(f"step_program.{name}" for name in inner), module.sequences_name])
    run = wrap_program(module, step.options.deviceIterations(steps), "DEBUG_RUN_DECODER_ON_CPU")
    made = CompiledProgram(run, signature, step.rows, tokens, step.replicas, search, config.num_beams or 1)
    programs.on_device = made
    return made


def _read_rules(config: GenerationConfig) -> BeamRules:
    ends = () if config._eos_token_tensor is None else tuple(config._eos_token_tensor.reshape(-1).tolist())
    padding = 0 if config._pad_token_tensor is None else int(config._pad_token_tensor)
    if (config.num_beams or 1) > 1 and ends:
        padding = padding or ends[0]  # as on the host
    return BeamRules(
        config.num_beams or 1, ends, padding, config.max_length, config.length_penalty or 1.0, config.early_stopping
    )


def _build_search(
    wrapper: DecoderWrapper,
    call: DecoderCall,
    rows: int,
    length: int,
    processors: list[DeviceProcessor],
    config: GenerationConfig,
) -> OnDeviceGreedySearch | OnDeviceBeamSearch:
    rules = _read_rules(config)
    if rules.num_beams > 1:
        return OnDeviceBeamSearch(wrapper, call.token_name, rows, length, rules, processors)
    return OnDeviceGreedySearch(wrapper, call.token_name, rows, length, rules.end_tokens, rules.padding, processors)


def _run_steps(
    model: Any, program: CompiledProgram, call: DecoderCall, timeline: Tensors, first: int, steps: int
) -> Iterator[Results]:
    """What the program returns for each position from `first` on. What is left of a call repeats the last position."""
    prompt, end = call.tokens.shape[1], timeline[call.token_name].shape[1]
    by_step = []
    for position in (min(first + offset, end - 1) for offset in range(steps)):
        inputs = {name: value[:, position : position + 1] for name, value in timeline.items()}
        inputs |= call.fill_mask(program.tokens)
        if not model.generation_settings.use_encoder_output_buffer:
            inputs |= call.held
        filled = fill_rows(inputs, program.rows)
        if model.generation_settings.use_cond_encoder:
            filled[model.main_input_name] = filled.pop(ENCODER_STATES)[:: program.num_beams].contiguous()
        filled["step"] = torch.full((program.replicas,), position)
        filled["given"] = torch.full((program.rows,), int(position < prompt))
        if program.num_beams > 1:
            filled["prompt"] = torch.full((program.replicas,), prompt)
        by_step.append(filled)
    together = {name: torch.cat([inputs[name] for inputs in by_step]) for name in by_step[0]}
    with report_into("decoder" if call.held else ""):
        made = program.run(**together)
    parts = (made,) if isinstance(made, torch.Tensor) else made
    yield from zip(*(part.unflatten(0, (steps, -1)) for part in parts), strict=True)
