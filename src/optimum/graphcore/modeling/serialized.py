"""Large tables and projections in pieces: exactly the original layer, with less memory in use at a time.

In: an `nn.Embedding` or `nn.Linear`. Out: a module with the same results; `to_model` gives the plain layer back, with
the weights as they are then.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from optimum.utils import logging
from torch import nn

import poptorch
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError

logger = logging.get_logger(__name__)

OUTPUT_CHANNELS = poptorch.MatMulSerializationMode.OutputChannels
REDUCING_DIM = poptorch.MatMulSerializationMode.ReducingDim


class SerializedEmbedding(nn.Module):
    """An embedding in several tables of consecutive rows, looked up one after the other."""

    def __init__(self, embedding: nn.Embedding, serialization_factor: int) -> None:
        super().__init__()
        self.num_embeddings = embedding.num_embeddings
        self.embedding_dim = embedding.embedding_dim
        self.padding_idx = embedding.padding_idx
        self.serialization_factor = serialization_factor
        if not 1 <= serialization_factor <= self.num_embeddings:
            raise IncompatibleIPUConfigError(
                f"An embedding with {self.num_embeddings} rows cannot be split into {serialization_factor} tables: "
                f"choose an embedding_serialization_factor between 1 and {self.num_embeddings}."
            )
        self.split_size = -(-self.num_embeddings // serialization_factor)  # the last table may be shorter
        tables: list[nn.Embedding] = []
        for rows in embedding.weight.detach().split(self.split_size):
            first = len(tables) * self.split_size
            padding = None if self.padding_idx is None else self.padding_idx - first
            table = nn.Embedding.from_pretrained(
                rows.clone(),
                freeze=not embedding.weight.requires_grad,
                padding_idx=padding if padding in range(len(rows)) else None,
            )
            tables.append(table)
        self.split_embeddings = nn.ModuleList(tables)

    @classmethod
    def from_model(cls, embedding: nn.Embedding, serialization_factor: int) -> SerializedEmbedding:
        return cls(embedding, serialization_factor)

    def to_model(self) -> nn.Embedding:
        """One table again."""
        tables = [table.weight.detach() for table in self.split_embeddings]
        return nn.Embedding.from_pretrained(
            torch.cat(tables), freeze=not self.split_embeddings[0].weight.requires_grad, padding_idx=self.padding_idx
        )

    def parallelize(self, splits_per_ipu: Sequence[int]) -> SerializedEmbedding:
        """Put the first tables on the first IPU that takes some, and so on."""
        _begin_blocks(self.split_embeddings, splits_per_ipu, "Embedding")
        return self

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor | None = None
        for position, table in enumerate(self.split_embeddings):
            local = indices - position * self.split_size
            inside = (local >= 0) & (local < table.num_embeddings)
            rows = table(local.clamp(0, table.num_embeddings - 1)) * inside.unsqueeze(-1).to(table.weight.dtype)
            total = rows if total is None else total + rows
        assert total is not None  # there is at least one table
        return total


class SerializedLinear(nn.Linear):
    """A linear layer whose product is computed in `factor` parts, one after the other."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        factor: int,
        bias: bool = False,
        mode: poptorch.MatMulSerializationMode = OUTPUT_CHANNELS,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.factor = factor
        self.mode = mode

    @classmethod
    def from_model(
        cls, model: nn.Linear, factor: int, mode: poptorch.MatMulSerializationMode = OUTPUT_CHANNELS
    ) -> SerializedLinear:
        """The layer's own parameters are used, so that what is tied to them stays tied."""
        size = {OUTPUT_CHANNELS: model.out_features, REDUCING_DIM: model.in_features}.get(mode)
        if size is not None and size % factor:
            raise IncompatibleIPUConfigError(
                f"A projection of {model.in_features} to {model.out_features} features cannot be serialized in "
                f"{factor} equal parts ({mode.name}): choose a serialization factor that divides {size}."
            )
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.in_features, made.out_features = model.in_features, model.out_features
        made.weight, made.bias = model.weight, model.bias
        made.factor, made.mode = factor, mode
        return made.train(model.training)

    def to_model(self) -> nn.Linear:
        """The plain layer, with the same parameters."""
        made = nn.Linear.__new__(nn.Linear)
        nn.Module.__init__(made)
        made.in_features, made.out_features = self.in_features, self.out_features
        made.weight, made.bias = self.weight, self.bias
        return made.train(self.training)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # the name that nn.Linear has
        product = poptorch.serializedMatMul(input, self.weight.t(), self.mode, self.factor)
        return product if self.bias is None else product + self.bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, factor={self.factor}, mode={self.mode.name}"


class SplitProjection(nn.Module):
    """A linear layer in several layers of their own, which may be on different IPUs."""

    def __init__(
        self,
        linear: nn.Linear,
        serialization_factor: int,
        serialization_mode: poptorch.MatMulSerializationMode = OUTPUT_CHANNELS,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.serialization_mode = serialization_mode
        if serialization_mode not in (OUTPUT_CHANNELS, REDUCING_DIM):
            raise ValueError(
                f"`SplitProjection` `serialization_mode` can only be {OUTPUT_CHANNELS} or {REDUCING_DIM}. "
                f"You provided: {serialization_mode}"
            )
        self._split_dimension = 0 if serialization_mode is OUTPUT_CHANNELS else 1  # of the weight: [out, in]
        size = linear.weight.shape[self._split_dimension]
        if size % serialization_factor:
            name = "out_features" if serialization_mode is OUTPUT_CHANNELS else "in_features"
            raise ValueError(
                f"linear.{name}={size} must be divisible by serialization_factor={serialization_factor}: choose splits "
                "that add up to a divisor of it."
            )
        self.split_size = size // serialization_factor
        self.split_linear_layers = nn.ModuleList(
            _make_linear(piece.clone(), None, linear.weight.requires_grad)
            for piece in linear.weight.detach().split(self.split_size, self._split_dimension)
        )
        self.bias = None
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach().clone(), linear.bias.requires_grad)

    @classmethod
    def from_model(
        cls,
        linear: nn.Linear,
        serialization_factor: int,
        serialization_mode: poptorch.MatMulSerializationMode = OUTPUT_CHANNELS,
    ) -> SplitProjection:
        return cls(linear, serialization_factor, serialization_mode)

    def to_model(self) -> nn.Linear:
        """One layer again."""
        weights = [layer.weight for layer in self.split_linear_layers]
        weight = torch.cat([piece.detach() for piece in weights], self._split_dimension)
        return _make_linear(weight, self.bias, weights[0].requires_grad)

    def parallelize(self, splits_per_ipu: Sequence[int]) -> SplitProjection:
        """Put the first layers on the first IPU that takes some, and so on."""
        _begin_blocks(self.split_linear_layers, splits_per_ipu, "Linear")
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.serialization_mode is OUTPUT_CHANNELS:
            total = torch.cat([layer(x) for layer in self.split_linear_layers], -1)
        else:
            pieces = x.split(self.split_size, -1)
            total = self.split_linear_layers[0](pieces[0])
            for layer, piece in zip(self.split_linear_layers[1:], pieces[1:], strict=True):
                total = total + layer(piece)
        return total if self.bias is None else total + self.bias


class SharedEmbedding(nn.Module):
    """One embedding for an encoder and a decoder: both sequences are looked up at once."""

    def __init__(self, shared: nn.Module) -> None:
        super().__init__()
        self.shared = shared

    def forward(
        self,
        input_ids: torch.Tensor | None,
        decoder_input_ids: torch.Tensor | None,
        encoder_embed_scale: float | None = None,
        decoder_embed_scale: float | None = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        given = [ids for ids in (input_ids, decoder_input_ids) if ids is not None]
        lengths = [ids.shape[1] for ids in given]
        found = iter(self.shared(torch.cat(given, dim=1)).split(lengths, dim=1))
        encoder = next(found) if input_ids is not None else None
        decoder = next(found) if decoder_input_ids is not None else None
        return _scale(encoder, encoder_embed_scale), _scale(decoder, decoder_embed_scale)


def _scale(embeds: torch.Tensor | None, factor: float | None) -> torch.Tensor | None:
    return embeds if embeds is None or not factor else embeds * factor


def _make_linear(weight: torch.Tensor, bias: nn.Parameter | None, trainable: bool) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    made.weight = nn.Parameter(weight, trainable)
    made.bias = bias
    return made


def _begin_blocks(pieces: nn.ModuleList, splits_per_ipu: Sequence[int], name: str) -> None:
    if sum(splits_per_ipu) != len(pieces):
        raise IncompatibleIPUConfigError(
            f"{list(splits_per_ipu)} places {sum(splits_per_ipu)} splits, but there are {len(pieces)}: make the "
            "numbers add up to that."
        )
    first = 0
    for ipu, count in enumerate(splits_per_ipu):
        if count:
            numbers = str(first) if count == 1 else f"{first}-{first + count - 1}"
            logger.info(f"{name} splits: {numbers} --> IPU {ipu}")
            poptorch.BeginBlock(pieces[first], user_id=f"{name}-{numbers}", ipu_id=ipu)
            first += count


__all__ = ["SerializedEmbedding", "SerializedLinear", "SharedEmbedding", "SplitProjection"]
