"""Any Transformers model on several IPUs: a pipelined class made from the class of the model.

In: a Transformers model without a pipelined class of its own, and an `IPUConfig`. Out: a copy of the model whose class
is `Pipelined` + the name of the original one. `parallelize` finds the chain of layers in the module tree and spreads it
as `layers_per_ipu` says: what comes before the chain on the first IPU, what comes after it on the last one, and a head
that shares a weight with the embeddings on the first.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

import torch
from optimum.utils import logging
from torch import nn
from transformers import GenerationMixin, PreTrainedModel

from optimum.graphcore.generation import IPUGenerationMixin, supports_kv_cache
from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError, IPUConfig
from optimum.graphcore.modeling.hooks import recomputation_checkpoint
from optimum.graphcore.modeling.layer_drop import make_layer_drop_static
from optimum.graphcore.modeling.layer_split import get_layer_ipu
from optimum.graphcore.modeling.layout import PipelineLayout
from optimum.graphcore.modeling.mixin import PipelineMixin, find_original_class
from optimum.graphcore.modeling.registry import register_generic
from optimum.graphcore.models.generic.chain import LayerChain, find_layer_chain

logger = logging.get_logger(__name__)


class GenericPipelineMixin(PipelineMixin):
    """A pipeline along the chain of layers that the module tree shows."""

    _may_stay_whole = False  # whether a model without such a chain goes to the first of several IPUs

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        assert isinstance(self, nn.Module)
        try:
            self._serialize_vocabulary()
            chain = find_layer_chain(self)
            if chain is None:
                self._keep_whole()
            else:
                self._place(chain)
        except BaseException:
            self.deparallelize()  # no model is left half changed
            raise
        return self

    def _serialize_vocabulary(self) -> None:
        """The embedding of words and the projection on them in pieces, if the configuration says so."""
        assert isinstance(self, PreTrainedModel)
        try:
            embedding, projection = self.get_input_embeddings(), self.get_output_embeddings()
        except NotImplementedError:  # a model of images or sound
            return
        paths = {id(module): path for path, module in self.named_modules()}
        PipelineLayout(
            (),
            word_embeddings=paths.get(id(embedding)) if isinstance(embedding, nn.Embedding) else None,
            projection=paths.get(id(projection)) if isinstance(projection, nn.Linear) else None,
        ).apply(self)

    def _place(self, chain: LayerChain) -> None:
        assert isinstance(self, nn.Module)
        layer_ipu = get_layer_ipu(self.ipu_config, len(chain))
        for path in dict.fromkeys(path.rpartition(".")[0] for path, _ in chain.layers):
            layers = self.get_submodule(path)
            if isinstance(layers, nn.ModuleList):
                make_layer_drop_static(self, path.rpartition(".")[0], layers)
        tied = _find_weights_outside(self, chain)
        last_ipu = self.ipu_config._ipus_per_replica - 1
        heads = [(name, 0 if _share_weights(head, tied) else last_ipu) for name, head in chain.heads]
        if chain.trunk:
            self.begin_block(chain.trunk, "Embedding", 0)
        for index, ((path, layer), ipu) in enumerate(zip(chain.layers, layer_ipu, strict=True)):
            is_last = index == len(chain) - 1
            # What follows the last layer on its IPU keeps its result anyhow.
            reads_on = is_last and all(head_ipu == ipu for _, head_ipu in heads)
            if self.ipu_config.recompute_checkpoint_every_layer and not reads_on:
                self._hooks.append(recomputation_checkpoint(layer))
            self.begin_block(path, f"Layer{index}", ipu)
        for name, ipu in heads:
            self.begin_block(name, f"Head {name}", ipu)

    def _keep_whole(self) -> None:
        ipus = self.ipu_config._ipus_per_replica
        if ipus == 1:
            return
        name = self.ipu_config._get_managed_attr_mode_name("ipus_per_replica")
        problem = f"{name}={ipus}, but {_name_original(type(self))} has no list of layers to spread over IPUs"
        advice = f"Use {name}=1, or derive a class from it and PipelineMixin that says where its modules go."
        if not self._may_stay_whole:
            raise IncompatibleIPUConfigError(f"{problem}. {advice}")
        logger.warning(f"{problem}: all of it runs on IPU 0, and the others are idle. {advice}")


class GenericGenerationMixin(GenericPipelineMixin, IPUGenerationMixin):
    """The same for a model that generates text."""

    def parallelize(self, for_generation: bool = False, **kwargs: Any) -> Self:
        """For training and evaluation, or with `for_generation` for `generate`: see `GenerationSettings`."""
        settings = self.read_generation_settings(for_generation, kwargs)
        with self.use_generation_config(for_generation):
            super().parallelize()
        if for_generation:
            self.encoder_ipu_config = self.decoder_ipu_config
        self.set_generation_settings(settings)
        return self

    def deparallelize(self) -> Self:
        """Undo what `parallelize` did, and give up what was compiled for `generate`."""
        super().deparallelize()
        self.set_generation_settings(None)
        return self


@functools.cache
def make_pipelined_class(model_class: type[PreTrainedModel]) -> type[Any]:
    """The pipelined class of a Transformers class, always the same one."""
    generates = issubclass(model_class, GenerationMixin)
    made = type(
        f"Pipelined{model_class.__name__}",
        (GenericGenerationMixin if generates else GenericPipelineMixin, model_class),
        {
            "forward": _make_forward_static(model_class.forward),
            "__module__": "optimum.graphcore.models.generic",
            "__doc__": f"{model_class.__name__} on IPUs, by the chain of layers that its module tree shows.",
        },
    )
    # A model with a state of its own kind has no keys and values to keep.
    return supports_kv_cache(made) if generates and not model_class._is_stateful else made


@register_generic
def to_generic_pipelined(model: nn.Module, ipu_config: IPUConfig, force: bool) -> Any:
    """A pipelined copy of a Transformers model, or None for any other module."""
    if not isinstance(model, PreTrainedModel):
        return None
    logger.info(f"{type(model).__name__} has no pipelined class of its own: its layers are found in its module tree.")
    made = make_pipelined_class(type(model)).from_transformers(model, ipu_config)
    made._may_stay_whole = force
    return made


def _make_forward_static(forward: Any) -> Any:
    """`forward` of a Transformers class with defaults that suit a static graph. What the caller says counts.

    Keys and values for later calls would go to the host and never be used. And a class may look at labels to see what
    kind of problem they are of, which their type tells as well.
    """
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        if "use_cache" in signature.parameters and bound.arguments.get("use_cache") is None:
            bound.arguments["use_cache"] = False
        labels = bound.arguments.get("labels")
        if labels is not None and "ForSequenceClassification" in type(self).__name__:
            self.config.problem_type = self.config.problem_type or _name_problem(self.config.num_labels, labels)
        return forward(*bound.args, **bound.kwargs)

    return call


def _name_problem(label_count: int, labels: torch.Tensor) -> str:
    if label_count == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def _find_weights_outside(model: nn.Module, chain: LayerChain) -> set[int]:
    """The parameters of the trunk that are not in its layers: embeddings, mostly."""
    trunk = model.get_submodule(chain.trunk)
    inside = {id(parameter) for _, layer in chain.layers for parameter in layer.parameters()}
    return {id(parameter) for parameter in trunk.parameters()} - inside


def _share_weights(head: nn.Module, weights: set[int]) -> bool:
    return any(id(parameter) in weights for parameter in head.parameters())


def _name_original(pipelined: type) -> str:
    original = find_original_class(pipelined)
    return original.__name__ if original is not None else pipelined.__name__
