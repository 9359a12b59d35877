"""`generate` on IPUs: Transformers' own search, with the model's calls answered by compiled programs.

In: a pipelined model and the arguments of `generate`. Out: what plain Transformers returns. The host runs the search
(greedy, sampling, beams) and so decides exactly as Transformers does; each call of the model that it makes goes to a
program of static shapes, which keeps the keys and values of seen tokens in buffers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from optimum.utils import logging
from torch import nn
from transformers import GenerationConfig, GenerationMixin
from transformers.generation.configuration_utils import GenerationMode
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, Seq2SeqLMOutput

from optimum.graphcore.generation.decoder_call import DecoderCall
from optimum.graphcore.generation.decoder_program import ENCODER_MASK
from optimum.graphcore.generation.device_cache import DeviceCache
from optimum.graphcore.generation.encoder_inputs import check_encoder_length, fill_encoder_inputs, select
from optimum.graphcore.generation.executors import GenerationPrograms
from optimum.graphcore.generation.on_device_search import search_on_device
from optimum.graphcore.generation.running import run_decoder, run_encoder
from optimum.graphcore.generation.settings import GenerationSettings
from optimum.graphcore.ipu_configuration import IPUConfig

logger = logging.get_logger(__name__)

MODELS_SUPPORTING_KV_CACHE: set[type] = set()
Pipelined = TypeVar("Pipelined", bound=type)


def supports_kv_cache(pipelined_cls: Pipelined) -> Pipelined:
    """A decorator: the model's attention takes a Transformers `Cache`, so that one on the device can be given to it."""
    MODELS_SUPPORTING_KV_CACHE.add(pipelined_cls)
    return pipelined_cls


class IPUGenerationMixin(GenerationMixin):
    """To be named before the Transformers class, beside `PipelineMixin`."""

    _supported_generation_modes: ClassVar[list[GenerationMode]] = [
        GenerationMode.GREEDY_SEARCH,
        GenerationMode.SAMPLE,
        GenerationMode.BEAM_SEARCH,
        GenerationMode.BEAM_SAMPLE,
    ]
    cross_projection_names: ClassVar[tuple[str, ...]] = ()  # ends of paths: what projects the encoder's output
    encoder_reads_mask: ClassVar[bool] = True
    show_compilation_progress: bool = True  # a bar while the programs of `generate` are compiled

    if TYPE_CHECKING:  # what the Transformers class and `PipelineMixin` have
        config: Any
        main_input_name: str
        ipu_config: IPUConfig
        parallelize: Callable[..., Any]

    _generation_settings: GenerationSettings | None = None  # None: not parallelized for generation
    encoder_ipu_config: IPUConfig
    decoder_ipu_config: IPUConfig
    uncached_length: int = 0  # of the sequences of the present call, where no keys and values are kept
    _answering: bool = False  # calls of the model go to programs

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, nn.Module):
            cls.__call__ = IPUGenerationMixin.__call__  # type: ignore[method-assign]  # wherever this class stands among the bases

    @property
    def generation_programs(self) -> GenerationPrograms:
        """What was compiled for `generate`."""
        return self.__dict__.setdefault("_generation_programs", GenerationPrograms())  # type: ignore[no-any-return]

    @property
    def generation_settings(self) -> GenerationSettings:
        """What `parallelize` was told."""
        assert self._generation_settings is not None, "the model is not parallelized for generation"
        return self._generation_settings

    @property
    def poptorch_encoder(self) -> Any:
        """The executor of the encoder. There is none before the first call of `generate`."""
        return _require(self.generation_programs.encoder, "poptorch_encoder")

    @property
    def poptorch_decoder(self) -> Any:
        """The executor of the decoder. There is none before the first call of `generate`."""
        programs = self.generation_programs
        return _require(programs.on_device or programs.decoder or programs.uncached, "poptorch_decoder")

    @property
    def kv_cache_enabled(self) -> bool:
        """Whether keys and values of seen tokens stay on the device."""
        settings = self._generation_settings
        return settings is not None and settings.use_cache

    def read_generation_settings(self, for_generation: bool, arguments: dict[str, Any]) -> GenerationSettings | None:
        """What `parallelize` of a class calls first: its arguments, or None if it is not for generation."""
        settings = GenerationSettings.read(type(self), arguments)
        settings.check_model(type(self), bool(self.config.is_encoder_decoder), self.encoder_reads_mask)
        self.set_generation_settings(None)
        return settings if for_generation else None

    def set_generation_settings(self, settings: GenerationSettings | None) -> None:
        """What `parallelize` calls last, and `deparallelize` with None. Programs of before are given up."""
        self.generation_programs.destroy()
        self._generation_settings = settings

    @contextmanager
    def use_generation_config(self, for_generation: bool) -> Iterator[None]:
        """While this lasts, the model is spread as for inference, if it is to generate."""
        config: IPUConfig = self.ipu_config
        mode = config.mode
        if for_generation:
            config.eval()
            self.decoder_ipu_config = config
        try:
            yield
        finally:
            config.mode = mode

    def detachFromDevice(self) -> None:  # noqa: N802 (the name that users know)
        """Leave the IPUs to other models; what was compiled is kept."""
        self.generation_programs.detach()

    def destroy(self) -> None:
        """Give up what was compiled for `generate`."""
        self.generation_programs.destroy()

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """See `transformers.GenerationMixin.generate`. A model that is not parallelized for generation is, first."""
        if self._generation_settings is None:
            logger.info("The model is not parallelized for generation: calling parallelize(for_generation=True).")
            self.parallelize(for_generation=True)
        with torch.no_grad(), self._answer_by_programs():
            return super().generate(*args, **kwargs)

    @contextmanager
    def _answer_by_programs(self) -> Iterator[None]:
        assert isinstance(self, nn.Module)
        before, modes = self._answering, [(module, module.training) for module in self.modules()]
        self._answering = True
        self.eval()
        try:
            yield
        finally:
            self._answering = before
            for module, training in modes:
                module.training = training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(self, nn.Module)
        if not self._answering or args:
            return nn.Module.__call__(self, *args, **kwargs)
        return self._answer(kwargs)

    def _answer(self, inputs: dict[str, Any]) -> Any:
        """One call of the model that the search makes."""
        for name in ("output_attentions", "output_hidden_states"):
            if inputs.pop(name, None):
                raise NotImplementedError(
                    f"`generate` returns no attentions and no hidden states on IPUs, only logits: leave out {name}."
                )
        cache = inputs.pop("past_key_values", None)
        if cache is not None and not isinstance(cache, DeviceCache):
            raise ValueError(
                f"`generate` keeps the cache on the device; a {type(cache).__name__} of the host cannot be used. Leave "
                "out past_key_values."
            )
        encoder_decoder = bool(self.config.is_encoder_decoder)
        if encoder_decoder and inputs.get("encoder_outputs") is None:
            given = {self.main_input_name: inputs.pop(self.main_input_name)} | select(inputs, ENCODER_MASK)
            inputs["encoder_outputs"] = (self._encode(given),)
        logits = run_decoder(self, DecoderCall.read(inputs, encoder_decoder), cache)
        if encoder_decoder:
            return Seq2SeqLMOutput(logits=logits, past_key_values=cache)
        return CausalLMOutputWithPast(logits=logits, past_key_values=cache)

    def _encode(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The encoder's last hidden states, or what a decoder with its own encoder reads instead."""
        if self.generation_settings.use_cond_encoder:
            return inputs[self.main_input_name]
        states = run_encoder(self, inputs)
        check_encoder_length(states.shape[1], self.generation_settings.encoder_max_length)
        return states

    def _prepare_generation_config(self, *args: Any, **kwargs: Any) -> tuple[GenerationConfig, dict[str, Any]]:
        config, model_kwargs = super()._prepare_generation_config(*args, **kwargs)
        if self._answering:
            if config.use_cache and not self._may_cache():
                config.use_cache = False
            config.disable_compile = True  # poptorch compiles
        return config, model_kwargs

    def _may_cache(self) -> bool:
        return self.kv_cache_enabled and any(kind in MODELS_SUPPORTING_KV_CACHE for kind in type(self).__mro__)

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        if not self._answering:
            super()._prepare_cache_for_generation(
                generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
            )
            return
        settings, num_beams = self.generation_settings, generation_config.num_beams or 1
        settings.check_call(num_beams, max_cache_length + 1, batch_size)
        length = max(max_cache_length, (settings.max_length or 1) - 1)
        self.uncached_length = length + 1
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = DeviceCache(length, num_beams)

    def _prepare_text_encoder_decoder_kwargs_for_generation(
        self,
        inputs_tensor: torch.Tensor,
        model_kwargs: dict[str, Any],
        model_input_name: str | None,
        generation_config: GenerationConfig,
    ) -> dict[str, Any]:
        if not self._answering:
            made: dict[str, Any] = super()._prepare_text_encoder_decoder_kwargs_for_generation(
                inputs_tensor, model_kwargs, model_input_name, generation_config
            )
            return made
        name = model_input_name or self.main_input_name
        inputs = {name: inputs_tensor} | select(model_kwargs, ENCODER_MASK)
        if self.encoder_reads_mask:
            inputs = fill_encoder_inputs(inputs, name, self.generation_settings.encoder_max_length)
            model_kwargs |= select(inputs, ENCODER_MASK)
        model_kwargs["encoder_outputs"] = BaseModelOutput(last_hidden_state=self._encode(inputs))
        return model_kwargs

    def _sample(self, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self._answering or not self.generation_settings.on_device_generation_steps:
            return super()._sample(input_ids, *args, **kwargs)
        return search_on_device(self, input_ids, *args, **kwargs)

    def _beam_search(self, input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self._answering or not self.generation_settings.on_device_generation_steps:
            return super()._beam_search(input_ids, *args, **kwargs)
        return search_on_device(self, input_ids, *args, **kwargs)


def _require(program: Any, name: str) -> Any:
    if program is None:
        raise AttributeError(f"{name}: nothing is compiled yet. Call `generate` first.")
    return program.run
