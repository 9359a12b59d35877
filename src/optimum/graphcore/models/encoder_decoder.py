"""What pipelined encoder-decoder models share: where their parts go, for training and for generation.

In: the paths of a family's modules, as an `EncoderDecoderLayout`. Out: a model whose encoder layers and decoder layers
follow each other over the IPUs. For generation both get IPUs of their own, because they are programs of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import nn

from optimum.graphcore.generation import IPUGenerationMixin, serialize_attention
from optimum.graphcore.modeling.layer_drop import make_layer_drop_static
from optimum.graphcore.modeling_utils import (
    PipelineLayout,
    PipelineMixin,
    get_layer_ipu,
    split_encoder_decoder_ipu_config,
)
from optimum.graphcore.models.shared_words import Retie
from optimum.graphcore.quantization import quantize_linear_layers


@dataclass(frozen=True)
class EncoderDecoderLayout:
    """Paths of modules. Those of `encoder_start` are on the encoder's first IPU, its end on its last one."""

    encoder: str
    decoder: str
    layers: str  # the list of layers in the encoder and in the decoder
    encoder_start: tuple[tuple[str, str], ...]  # (path, name of the block)
    encoder_end: tuple[tuple[str, str], ...] = ()
    decoder_end: tuple[tuple[str, str], ...] = ()
    word_embeddings: str | None = None
    tied_embeddings: tuple[str, ...] = ()  # other modules with the same table
    decoder_embeddings: str = ""  # begins the decoder where it is a program of its own
    embeddings_with_decoder: bool = False  # the words are those of the decoder alone, and stand with its first layer
    projection: str | None = None  # to the vocabulary, with the embeddings if it shares their weight
    head: tuple[str, str] | None = None  # of a classifier: on the last IPU


class EncoderDecoderPipelineMixin(PipelineMixin):
    """Places the parts of an encoder-decoder model."""

    parts: ClassVar[EncoderDecoderLayout]

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        assert isinstance(self, nn.Module)
        super().parallelize()
        try:
            encoder_layers, decoder_layers = self._list_layers()
            layer_ipu = get_layer_ipu(self.ipu_config, len(encoder_layers) + len(decoder_layers))
            self._place(layer_ipu[: len(encoder_layers)], layer_ipu[len(encoder_layers) :])
        except BaseException:
            self.deparallelize()  # no model is left half changed
            raise
        return self

    def _list_layers(self) -> tuple[nn.ModuleList, nn.ModuleList]:
        assert isinstance(self, nn.Module)
        stacks = [
            self.get_submodule(f"{path}.{self.parts.layers}") for path in (self.parts.encoder, self.parts.decoder)
        ]
        encoder_layers, decoder_layers = stacks
        assert isinstance(encoder_layers, nn.ModuleList)
        assert isinstance(decoder_layers, nn.ModuleList)
        return encoder_layers, decoder_layers

    def _place(self, encoder_ipu: Sequence[int], decoder_ipu: Sequence[int]) -> None:
        assert isinstance(self, nn.Module)
        parts = self.parts
        for path, layers in zip((parts.encoder, parts.decoder), self._list_layers(), strict=True):
            make_layer_drop_static(self, path, layers)
        for path in ("", parts.encoder, parts.decoder):
            self.change_attribute(path, "config.use_cache", False)  # a program returns tensors, no cache
        PipelineLayout((), word_embeddings=parts.word_embeddings, projection=parts.projection).apply(self)
        if parts.word_embeddings is not None:
            self._changes.insert(0, Retie(parts.word_embeddings, parts.tied_embeddings))  # undone last
        words_ipu = decoder_ipu[0] if parts.embeddings_with_decoder else 0
        for path, name in parts.encoder_start:
            self.begin_block(path, name, 0)
        self.begin_layers(f"{parts.encoder}.{parts.layers}", "Encoder", encoder_ipu, keep_last=False)
        for path, name in parts.encoder_end:
            self.begin_block(path, name, encoder_ipu[-1])
        if parts.decoder_embeddings:
            self.begin_block(parts.decoder_embeddings, "Decoder Embedding", words_ipu)
        self.begin_layers(f"{parts.decoder}.{parts.layers}", "Decoder", decoder_ipu, keep_last=False)
        for path, name in parts.decoder_end:
            self.begin_block(path, name, decoder_ipu[-1])
        if parts.projection is not None:
            self.begin_block(
                parts.projection, "LM Head Output", self._choose_projection_ipu(words_ipu, decoder_ipu[-1])
            )
        if parts.head is not None:
            self.begin_block(*parts.head, decoder_ipu[-1])

    def _choose_projection_ipu(self, words_ipu: int, last_ipu: int) -> int:
        """With the words if both share their weight, else where the last layer is."""
        assert isinstance(self, nn.Module)
        assert self.parts.projection is not None
        weight = getattr(self.get_submodule(self.parts.projection), "weight", None)
        words = getattr(self.get_submodule(self.parts.decoder_embeddings), "weight", None)
        return words_ipu if weight is not None and weight is words else last_ipu


class ConditionalGenerationMixin(EncoderDecoderPipelineMixin, IPUGenerationMixin):
    """An encoder-decoder model with `generate`. In training it returns the loss only."""

    def parallelize(self, for_generation: bool = False, **kwargs: Any) -> Self:
        """For training and evaluation, or with `for_generation` for `generate`: see `GenerationSettings`."""
        settings = self.read_generation_settings(for_generation, kwargs)
        if settings is None:
            return super().parallelize()
        with self.use_generation_config(for_generation):
            if settings.use_cond_encoder:  # one program, on all IPUs
                super().parallelize()
            else:
                self._parallelize_as_two_programs()
        stacks = [f"{path}.{self.parts.layers}" for path in (self.parts.encoder, self.parts.decoder)]
        if settings.use_group_quantized_linears:
            quantize_linear_layers(self, stacks)
        serialize_attention(self, stacks[0], settings)
        self.set_generation_settings(settings)
        return self

    def _parallelize_as_two_programs(self) -> None:
        PipelineMixin.parallelize(self)
        try:
            counts = [len(layers) for layers in self._list_layers()]
            if self.ipu_config._ipus_per_replica == 1:  # both programs use it in turn
                configs = copy.deepcopy(self.ipu_config), copy.deepcopy(self.ipu_config)
            else:
                configs = split_encoder_decoder_ipu_config(self.ipu_config, counts[0], counts[1])
            self.encoder_ipu_config, self.decoder_ipu_config = configs
            self._place(get_layer_ipu(configs[0], counts[0]), get_layer_ipu(configs[1], counts[1]))
        except BaseException:
            self.deparallelize()  # no model is left half changed
            raise

    def deparallelize(self) -> Self:
        """Undo what `parallelize` did, and give up what was compiled for `generate`."""
        self.set_generation_settings(None)
        return super().deparallelize()
