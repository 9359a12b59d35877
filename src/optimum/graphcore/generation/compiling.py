"""Programs for `generate`, made for the shapes of the present call.

In: a model that is parallelized for generation, and the inputs of its first step. Out: a `CompiledProgram`, also kept
with the model. poptorch compiles it when it is first run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from optimum.utils import logging
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

import poptorch
from optimum.graphcore.generation.decoder_call import DecoderCall, Tensors
from optimum.graphcore.generation.decoder_program import (
    ENCODER_STATES,
    DecoderParts,
    DecoderWrapper,
    EncoderProgram,
)
from optimum.graphcore.generation.device_cache import (
    DeviceCache,
    KeyValueBuffers,
    PromptCache,
    TokenShape,
    UncachedCrossAttention,
)
from optimum.graphcore.generation.executors import CompiledProgram, fill_rows, sign_inputs, wrap_program
from optimum.graphcore.generation.prompt_program import PromptProgram
from optimum.graphcore.generation.settings import check_replication

logger = logging.get_logger(__name__)


def compile_encoder(model: Any, inputs: Tensors) -> CompiledProgram:
    """A program of the encoder alone."""
    programs, replicas = model.generation_programs, model.encoder_ipu_config.inference_replication_factor
    give_up(programs.encoder, "encoder")
    rows = _choose_rows(model, len(inputs[model.main_input_name]), 1, replicas)
    options = model.encoder_ipu_config.to_options(for_inference=True).deviceIterations(1)
    options.showCompilationProgressBar(model.show_compilation_progress)
    run = wrap_program(EncoderProgram(model.get_encoder()), options, "DEBUG_RUN_ENCODER_ON_CPU")
    made = CompiledProgram(run, sign_inputs(inputs), rows, 0, replicas)
    programs.encoder = made
    return made


def compile_decoder(model: Any, call: DecoderCall, inputs: Tensors, cache: DeviceCache | None) -> CompiledProgram:
    """A program of one decoder step, with a cache or over all tokens."""
    programs, beams = model.generation_programs, 1 if cache is None else cache.num_beams
    give_up(programs.uncached if cache is None else programs.decoder, "decoder")
    step = build_step(model, call, 0 if cache is None else cache.tokens, beams)
    if step.replicas == 1 and step.wrapper.cache is not None:  # a prompt that was read at once is written there
        cached = [f"cache.{name}" for name, _ in step.wrapper.cache.named_buffers()]
        held = call.held if model.generation_settings.use_encoder_output_buffer else {}
        step.options.updatableNamedBuffers([*held, *cached])
    run = wrap_program(step.wrapper, step.options.deviceIterations(1), "DEBUG_RUN_DECODER_ON_CPU")
    made = CompiledProgram(run, sign_inputs(inputs | call.held), step.rows, step.tokens, step.replicas)
    if cache is None:
        programs.uncached = made
    else:
        programs.decoder = made
    return made


def compile_prompt(model: Any, call: DecoderCall, tokens: int) -> CompiledProgram:
    """A program of the decoder for prompts of up to so many tokens."""
    programs = model.generation_programs
    give_up(programs.prompt, "prompt's program")
    options = model.decoder_ipu_config.to_options(for_inference=True).deviceIterations(1)
    options.showCompilationProgressBar(model.show_compilation_progress)
    run = wrap_program(PromptProgram(model, call.constants), options, "DEBUG_RUN_DECODER_ON_CPU")
    signature = sign_inputs(call.list_tokens(0, 1) | call.held)
    made = CompiledProgram(run, signature, _choose_rows(model, call.rows, 1, 1), tokens, 1)
    programs.prompt = made
    return made


@dataclass(frozen=True)
class DecoderStep:
    """One step of a decoder, and what it is compiled with."""

    wrapper: DecoderWrapper
    options: poptorch.Options
    rows: int  # of all replicas
    replicas: int
    tokens: int  # whose keys and values are kept; 0: none


def build_step(model: Any, call: DecoderCall, tokens: int, num_beams: int = 1) -> DecoderStep:
    """A step for the shapes of this call. Without `tokens` to keep, it runs over all of them."""
    settings, config = model.generation_settings, model.decoder_ipu_config
    replicas = config.inference_replication_factor
    check_replication(replicas, settings)
    rows = _choose_rows(model, call.rows, num_beams, replicas)
    own_rows = rows // replicas
    encoded = _encode_one_row(model, call)
    held = fill_rows(call.held, rows) if settings.use_encoder_output_buffer else {}
    parts = DecoderParts(
        cache=KeyValueBuffers(_find_shapes(model, call, encoded), own_rows, tokens) if tokens else None,
        cross_projections=_list_cross_projections(model) if settings.use_cross_cache else (),
        encoder_states=None if encoded is None else encoded.expand(own_rows, *encoded.shape[1:]),
        encoder=model.get_encoder() if settings.use_cond_encoder else None,
        encoder_input=model.main_input_name,
        num_beams=num_beams,
        buffers=held,
        constants={**call.constants, "use_cache": tokens > 0},
    )
    options = config.to_options(for_inference=True)
    options.showCompilationProgressBar(model.show_compilation_progress)
    if held:
        options.updatableNamedBuffers(list(held))
    if replicas > 1:
        options.broadcastBuffers(False)  # each replica has rows of its own, and so keys and values of its own
    return DecoderStep(DecoderWrapper(model, parts), options, rows, replicas, tokens)


def give_up(program: CompiledProgram | None, name: str) -> None:
    """A program that does not fit leaves the device."""
    if program is not None:
        logger.info(
            f"The shapes of the inputs do not fit the compiled {name}: it is compiled again. Pad inputs to one length, "
            "and give `parallelize` the largest batch_size and max_length, to compile once."
        )
        program.destroy()


def _choose_rows(model: Any, rows: int, beams: int, replicas: int) -> int:
    """Rows to compile for: at least those that `parallelize` was told, and all beams of a sequence on one replica."""
    fixed = (model.generation_settings.batch_size or 0) * beams
    unit = beams * replicas
    return -(-max(rows, fixed) // unit) * unit


def _encode_one_row(model: Any, call: DecoderCall) -> torch.Tensor | None:
    """The shape and number format of what the encoder makes, with one row."""
    states = call.held.get(ENCODER_STATES)
    if states is None or not model.generation_settings.use_cond_encoder:
        return None if states is None else states[:1]
    made: torch.Tensor = model.get_encoder()(states[:1]).last_hidden_state
    return made


def _find_shapes(model: Any, call: DecoderCall, encoded: torch.Tensor | None) -> list[TokenShape]:
    """What each layer keeps of a token: seen on one token that runs on the host."""
    probe = PromptCache()
    arguments: dict[str, Any] = {name: value[:1] for name, value in call.list_tokens(0, 1).items()}
    arguments["past_key_values"] = probe
    if encoded is not None:
        arguments["past_key_values"] = EncoderDecoderCache(probe, UncachedCrossAttention())
        arguments["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
    nn.Module.__call__(model, **arguments, **call.constants, use_cache=True, return_dict=True)
    return probe.list_shapes()


def _list_cross_projections(model: Any) -> list[nn.Module]:
    names: tuple[str, ...] = model.cross_projection_names
    found = [module for path, module in model.get_decoder().named_modules() if path.endswith(names)] if names else []
    if not found:
        raise NotImplementedError(
            f"{type(model).__name__} has no cross-attention that `use_cross_cache` could keep: leave it out."
        )
    return found
