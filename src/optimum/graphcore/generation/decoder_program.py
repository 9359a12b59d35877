"""One step of a decoder as a module that poptorch compiles, and the encoder beside it.

In: a Transformers model as it is, buffers for what stays on the device, and tensors of one shape in every step. Out:
the logits of the step's token alone. The model's own code runs; what differs on a device is put around it while
`forward` is captured, and taken away again, so that its modules and its state dict never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

import poptorch
from optimum.graphcore.generation.device_cache import KeyValueBuffers

ENCODER_STATES = "encoder_hidden_states"  # the encoder's result, as an input or a buffer of a decoder's program
ENCODER_MASK = "attention_mask"  # in an encoder-decoder model this is the encoder's


@dataclass(frozen=True)
class DecoderParts:
    """What a step is made of besides the model."""

    cache: KeyValueBuffers | None = None  # None: each step runs over all tokens
    cross_projections: Sequence[Any] = ()  # keys and values of the encoder's output, made once
    encoder_states: torch.Tensor | None = None  # the shape and number format of what the encoder makes
    encoder: nn.Module | None = None  # inside the decoder's program, run in the first step only
    encoder_input: str = ""  # the name of what that encoder reads
    num_beams: int = 1
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict)  # inputs that are written once a sequence
    constants: Mapping[str, Any] = field(default_factory=dict)  # arguments of the model that are no tensors


class EncoderProgram(nn.Module):
    """An encoder that returns its last hidden states and nothing else."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.encoder(**inputs, return_dict=True).last_hidden_state
        return states


class DecoderWrapper(nn.Module):
    """One step of a decoder."""

    def __init__(self, model: Any, parts: DecoderParts) -> None:
        super().__init__()
        self.pipelined_model: Any = model
        self.cache = parts.cache
        self._parts = parts
        self._encoder_decoder = bool(model.config.is_encoder_decoder)
        for name, value in parts.buffers.items():
            self.register_buffer(name, value.clone(), persistent=False)
        states = parts.encoder_states
        if parts.encoder is not None and states is not None:
            self.register_buffer(ENCODER_STATES, torch.zeros_like(states).contiguous(), persistent=False)
        self._projections = tuple(parts.cross_projections)
        for index, projection in enumerate(self._projections):
            assert states is not None
            kept = states.new_zeros(*states.shape[:-1], projection.out_features)
            self.register_buffer(f"cross_{index}", kept, persistent=False)

    def forward(
        self, step: torch.Tensor, beam_order: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> torch.Tensor:
        """The logits (rows, 1, vocabulary) that follow the token at position `step`."""
        arguments: dict[str, Any] = {**inputs, **{name: self.get_buffer(name) for name in self._parts.buffers}}
        if self._parts.encoder is not None:
            arguments[ENCODER_STATES] = self._run_encoder_once(step, arguments.pop(self._parts.encoder_input))
        states = arguments.pop(ENCODER_STATES, None)
        if states is not None:
            arguments["encoder_outputs"] = BaseModelOutput(last_hidden_state=states)
        with ExitStack() as around:
            if self.cache is not None:
                arguments["past_key_values"] = self.cache.open(step, beam_order, self._encoder_decoder)
            else:
                around.enter_context(keep_one_token(self.pipelined_model.get_output_embeddings(), step))
            for index, projection in enumerate(self._projections):
                around.enter_context(_project_once(projection, self.get_buffer(f"cross_{index}"), step))
            # the model's own __call__ may lead back to this program
            result = nn.Module.__call__(self.pipelined_model, **arguments, **self._parts.constants, return_dict=True)
        logits: torch.Tensor = result.logits
        return logits

    def _run_encoder_once(self, step: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        encoder, kept = self._parts.encoder, self.get_buffer(ENCODER_STATES)
        assert encoder is not None

        def run(given: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = encoder(given).last_hidden_state
            return made.repeat_interleave(self._parts.num_beams, dim=0)

        return _make_once(kept, step, run, features)


def _make_once(
    kept: torch.Tensor, step: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor], source: torch.Tensor
) -> torch.Tensor:
    """Fill a buffer in the first step of a sequence; in the others the device skips the work."""
    made = poptorch.cond(
        step == 0, lambda given, old: make(given), [source, kept], lambda given, old: old, [source, kept]
    )
    kept.copy_(made[0])
    return kept


@contextmanager
def _project_once(projection: nn.Module, kept: torch.Tensor, step: torch.Tensor) -> Iterator[None]:
    """While this lasts, a projection of the encoder's output is computed in the first step only."""
    project = projection.forward

    def read_or_project(states: torch.Tensor) -> torch.Tensor:
        return _make_once(kept, step, project, states)

    projection.forward = read_or_project
    try:
        yield
    finally:
        del projection.forward  # the one of its class again


@contextmanager
def keep_one_token(head: nn.Module, step: torch.Tensor) -> Iterator[None]:
    """While this lasts, the vocabulary projection sees the token at `step` and no other."""

    def select(module: nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (poptorch.dynamic_slice(arguments[0], 1, step, 1, 1),)

    handle = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()
