"""The programs of one generating model, compiled for the shapes that `generate` brings.

In: the tensors of a step, of any number of rows up to those compiled for. Out: the logits of those rows. A program is
compiled at its first call, and again only where a shape does not fit the compiled one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from optimum.utils import logging
from torch import nn

import poptorch
from openipu.engine_options import read_engine_environment
from optimum.graphcore.generation.decoder_program import DecoderWrapper

logger = logging.get_logger(__name__)

Signature = tuple[tuple[str, tuple[int, ...], torch.dtype], ...]
ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
REPORT_DIRECTORY = "autoReport.directory"


@dataclass
class CompiledProgram:
    """A program and the shapes that it takes."""

    run: Any  # a PoplarExecutor, or the module itself where the environment asks for the host
    signature: Signature
    rows: int
    tokens: int  # whose keys and values fit; 0 where none are kept
    replicas: int
    search: str = ""  # what a search on the device was told, as text
    num_beams: int = 1  # of that search
    held: torch.Tensor | None = None  # what the encoder made, as last written to the program's buffers

    def accepts(self, signature: Signature, rows: int, tokens: int) -> bool:
        return self.signature == signature and rows <= self.rows and tokens <= self.tokens

    def detach(self) -> None:
        """Leave the device to other programs."""
        if isinstance(self.run, poptorch.PoplarExecutor) and self.run.isAttachedToDevice():
            self.run.detachFromDevice()

    def destroy(self) -> None:
        if isinstance(self.run, poptorch.PoplarExecutor):
            self.run.destroy()


def sign_inputs(inputs: Mapping[str, torch.Tensor]) -> Signature:
    """Names, shapes without rows, and number formats."""
    return tuple(sorted((name, tuple(value.shape[1:]), value.dtype) for name, value in inputs.items()))


def fill_rows(inputs: Mapping[str, torch.Tensor], rows: int) -> dict[str, torch.Tensor]:
    """Repeat the last row until a batch has as many rows as the program was compiled for."""
    return {
        name: value
        if len(value) == rows
        else torch.cat([value, value[-1:].expand(rows - len(value), *value.shape[1:])])
        for name, value in inputs.items()
    }


def wrap_program(program: nn.Module, options: poptorch.Options, host_variable: str) -> Any:
    """An executor, or the module itself if the environment variable asks for the host, to debug."""
    if os.environ.get(host_variable):
        logger.warning(f"{host_variable} is set: {type(program).__name__} runs on the host.")
        return program.eval()
    return poptorch.inferenceModel(program.eval(), options)


@contextmanager
def report_into(subdirectory: str) -> Iterator[None]:
    """Let a program that is compiled inside write its report to a directory of its own."""
    before = os.environ.get(ENGINE_OPTIONS)
    options = read_engine_environment()
    if not subdirectory or REPORT_DIRECTORY not in options:
        yield
        return
    options[REPORT_DIRECTORY] = os.path.join(options[REPORT_DIRECTORY], subdirectory)
    os.environ[ENGINE_OPTIONS] = json.dumps(options)
    try:
        yield
    finally:
        os.environ[ENGINE_OPTIONS] = before or ""


class GenerationPrograms:
    """The encoder's program and the decoder's, as long as the model is parallelized for generation."""

    def __init__(self) -> None:
        self.encoder: CompiledProgram | None = None
        self.prompt: CompiledProgram | None = None  # of several tokens, whose keys and values the decoder is handed
        self.decoder: CompiledProgram | None = None  # with a cache on the device
        self.uncached: CompiledProgram | None = None  # over all tokens in each step
        self.on_device: CompiledProgram | None = None  # several steps a call, the device chooses the tokens

    def __deepcopy__(self, memo: dict[int, Any]) -> GenerationPrograms:
        return GenerationPrograms()  # a copied model compiles its own

    def __reduce__(self) -> tuple[type[GenerationPrograms], tuple[()]]:
        return GenerationPrograms, ()

    def list_programs(self) -> list[CompiledProgram]:
        all_programs = (self.encoder, self.prompt, self.decoder, self.uncached, self.on_device)
        return [program for program in all_programs if program is not None]

    def detach(self) -> None:
        """Leave the device to other models."""
        for program in self.list_programs():
            program.detach()

    def destroy(self) -> None:
        for program in self.list_programs():
            program.destroy()
        self.encoder = self.prompt = self.decoder = self.uncached = self.on_device = None


def write_buffers(program: CompiledProgram, values: Mapping[str, torch.Tensor]) -> None:
    """Write inputs that stay on the device for a whole sequence."""
    wrapper = _find_wrapper(program)
    for name, value in values.items():
        wrapper.get_buffer(name).copy_(value)
    _upload_buffers(program)


def write_prompt(program: CompiledProgram, states: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Write the keys and values of the first tokens of each row, for each layer."""
    cache = _find_wrapper(program).cache
    assert cache is not None
    for name, value in fill_rows(cache.name_states(states), program.rows).items():
        buffer = cache.get_buffer(name)
        length = min(value.shape[2], buffer.shape[2])  # beyond are only tokens that filled up the prompt
        buffer[:, :, :length].copy_(value[:, :, :length])
    _upload_buffers(program)


def write_sequences(program: CompiledProgram, tokens: torch.Tensor) -> None:
    """Write the first tokens of each row to a program that chooses tokens itself; `write_prompt` uploads them."""
    module = _find_module(program)
    buffer = module.get_buffer(module.sequences_name)
    buffer.reshape(len(tokens), -1)[:, : tokens.shape[1]].copy_(tokens)


def _find_module(program: CompiledProgram) -> Any:
    return program.run.model if isinstance(program.run, poptorch.PoplarExecutor) else program.run


def _find_wrapper(program: CompiledProgram) -> DecoderWrapper:
    return next(part for part in _find_module(program).modules() if isinstance(part, DecoderWrapper))


def _upload_buffers(program: CompiledProgram) -> None:
    """To the device, if the program is there; else they come with its weights."""
    if isinstance(program.run, poptorch.PoplarExecutor) and program.run.isAttachedToDevice():
        program.run.copyNamedBuffersToDevice()
