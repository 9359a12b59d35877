"""How a model lies on IPUs, as data: parts in the order of `forward`, and what is exchanged for what.

In: a `PipelineLayout`, one literal for each class, and a model with its `IPUConfig`. Out: the model with blocks on its
parts, large layers in pieces, quicker classes in place of slow ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from torch import nn

from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError, IPUConfig
from optimum.graphcore.modeling.hooks import outline_attribute
from optimum.graphcore.modeling.serialized import SerializedEmbedding, SerializedLinear, SplitProjection

if TYPE_CHECKING:
    from optimum.graphcore.modeling.mixin import PipelineMixin


class Place(Enum):
    """An IPU by its role."""

    FIRST = auto()  # with the embeddings; where a projection is that shares their weights
    LAST = auto()


@dataclass(frozen=True)
class Part:
    """A submodule that begins a block. A path that holds None in this model is left out."""

    path: str
    name: str
    place: Place = Place.LAST
    optional: bool = False  # some configurations of the class have no such submodule


@dataclass(frozen=True)
class Layers:
    """A list of layers, spread as `layers_per_ipu` says."""

    path: str
    name: str = "Encoder"


@dataclass(frozen=True)
class PipelineLayout:
    """Where each part of a class goes."""

    parts: tuple[Part | Layers, ...]
    word_embeddings: str | None = None  # in several tables, if embedding_serialization_factor says so
    projection: str | None = None  # hidden states to the vocabulary; in parts, if projection_serialization_factor …
    outlined: str | None = None  # a module whose code is to be its own; it would share that of the layers
    exchanges: Mapping[type[nn.Module], type[nn.Module]] = field(default_factory=dict)

    def add(self, *parts: Part | Layers, projection: str | None = None) -> PipelineLayout:
        """This layout with more parts after it."""
        return replace(self, parts=(*self.parts, *parts), projection=projection or self.projection)

    def nest(self, prefix: str) -> PipelineLayout:
        """The same for a model that holds this one as a submodule."""

        def lengthen(path: str | None) -> Any:
            return None if path is None else f"{prefix}.{path}"

        return replace(
            self,
            parts=tuple(replace(part, path=lengthen(part.path)) for part in self.parts),
            word_embeddings=lengthen(self.word_embeddings),
            projection=lengthen(self.projection),
            outlined=lengthen(self.outlined),
        )

    def apply(self, model: PipelineMixin) -> None:
        """Change the model; it remembers how to undo it."""
        model.exchange_classes(dict(self.exchanges))
        self._serialize(model)
        if self.outlined is not None:
            assert isinstance(model, nn.Module)
            model._hooks.extend(outline_attribute(model.get_submodule(self.outlined), "embeddings"))
        places = [part.place for part in self.parts if isinstance(part, Part)]
        last_ipu = model.ipu_config._ipus_per_replica - 1
        for part in self.parts:
            if isinstance(part, Layers):
                model.begin_layers(part.path, part.name, keep_last=places[-1] is Place.FIRST)
            elif not part.optional or has_module(model, part.path):
                model.begin_block(part.path, part.name, 0 if part.place is Place.FIRST else last_ipu)

    def _serialize(self, model: PipelineMixin) -> None:
        config = model.ipu_config
        assert isinstance(model, nn.Module)
        embedding_factor, embedding_splits = read_serialization(config, "embedding")
        projection_factor, projection_splits = read_serialization(config, "projection")
        projection_path = self.projection
        if projection_path is not None and not has_module(model, projection_path):
            if max(embedding_factor, projection_factor) > 1:
                raise IncompatibleIPUConfigError(
                    f"{type(model).__name__} has no projection of its own in this configuration ({projection_path}): "
                    "it multiplies with the word embeddings, which have to stay whole. Leave the serialization factors "
                    "at 1."
                )
            return
        if projection_path is not None and self.word_embeddings is not None:
            projection, embedding = model.get_submodule(projection_path), model.get_submodule(self.word_embeddings)
            if projection.weight is embedding.weight:
                # One table for both: the product is what needs the memory, and the table stays whole.
                _refuse_splits(config, embedding_splits, "embedding")
                _refuse_splits(config, projection_splits, "projection")
                projection_factor = max(projection_factor, embedding_factor)
                embedding_factor = 1
        if self.word_embeddings is not None and embedding_factor > 1:
            tables = model.exchange_module(
                self.word_embeddings, lambda layer: SerializedEmbedding.from_model(layer, embedding_factor)
            )
            if embedding_splits is not None:
                tables.parallelize(embedding_splits)
        if projection_path is not None and projection_factor > 1:
            if projection_splits is None:
                model.exchange_module(
                    projection_path, lambda layer: SerializedLinear.from_model(layer, projection_factor)
                )
            else:
                pieces = model.exchange_module(
                    projection_path, lambda layer: SplitProjection.from_model(layer, projection_factor)
                )
                pieces.parallelize(projection_splits)


def has_module(model: nn.Module | PipelineMixin, path: str) -> bool:
    """Whether the model has a module at this path."""
    found: Any = model
    for name in path.split("."):
        found = getattr(found, name, None)
    return isinstance(found, nn.Module)


def read_serialization(config: IPUConfig, layer: str) -> tuple[int, list[int] | None]:
    """In how many pieces the "embedding" or "projection" is, in the present mode, and how many each IPU takes."""
    splits: list[int] | None = getattr(config, f"_serialized_{layer}_splits_per_ipu")
    factor: int | None = getattr(config, f"_{layer}_serialization_factor")
    return (sum(splits), splits) if splits is not None else (factor or 1, None)


def _refuse_splits(config: IPUConfig, splits: list[int] | None, layer: str) -> None:
    if splits is not None:
        name = config._get_managed_attr_mode_name(f"serialized_{layer}_splits_per_ipu")
        factor = config._get_managed_attr_mode_name(f"{layer}_serialization_factor")
        raise IncompatibleIPUConfigError(
            f"{name}={splits} puts pieces on several IPUs, but the embedding and the projection of this model share "
            f"their weight, which has to stay whole. Use {factor}={sum(splits)}, or a model with "
            "config.tie_word_embeddings=False."
        )
