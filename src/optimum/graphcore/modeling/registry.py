"""Which pipelined class stands for which Transformers class.

In: a model and an `IPUConfig`. Out: a pipelined copy of the model, by a registered class, by its own if it is pipelined
already, or by the way for all other models.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from optimum.utils import logging
from torch import nn

from optimum.graphcore.ipu_configuration import IPUConfig
from optimum.graphcore.modeling.mixin import PipelineMixin, find_original_class

logger = logging.get_logger(__name__)

Pipelined = TypeVar("Pipelined", bound=type)
GenericBuilder = Callable[[nn.Module, IPUConfig, bool], PipelineMixin | None]  # model, configuration, force

_PRETRAINED_TO_PIPELINED_REGISTRY: dict[type, type[Any]] = {}
_generic_builders: list[GenericBuilder] = []


def register(transformers_cls: type | None = None) -> Callable[[Pipelined], Pipelined]:
    """A decorator: the class is the pipelined version of `transformers_cls`, or else of its first plain base."""

    def enter(pipelined: Pipelined) -> Pipelined:
        original = transformers_cls or find_original_class(pipelined)
        if original is None:
            raise ValueError(f"Was not able to find original transformers class for {pipelined}")
        _PRETRAINED_TO_PIPELINED_REGISTRY[original] = pipelined
        return pipelined

    return enter


def register_generic(builder: GenericBuilder) -> GenericBuilder:
    """A decorator: this function is tried for models without a class. It returns None for those it cannot do."""
    _generic_builders.append(builder)
    return builder


def find_pipelined_class(model_class: type) -> type[Any] | None:
    """The registered class. What Optimum Graphcore has for the model's family is imported first."""
    packages = model_class.__module__.split(".")
    if packages[:2] == ["transformers", "models"]:
        _import_family(packages[2])
    return _PRETRAINED_TO_PIPELINED_REGISTRY.get(model_class)


def _import_family(name: str) -> None:
    """Importing a family registers its classes. There need not be one."""
    family = f"optimum.graphcore.models.{name}"
    try:
        importlib.import_module(family)
    except ModuleNotFoundError as error:
        if error.name != family:
            raise  # the family is there, and something that it needs is not


def to_pipelined(model: nn.Module, ipu_config: IPUConfig, force: bool = False) -> Any:
    """A pipelined copy of a model. With `force` a model without a list of layers goes to the first IPU as a whole."""
    model_class = type(model)
    pipelined_class = find_pipelined_class(model_class)
    if pipelined_class is not None:
        return pipelined_class.from_transformers(model, ipu_config)
    if isinstance(model, PipelineMixin):
        clone = copy.deepcopy(model)
        clone.ipu_config = copy.deepcopy(ipu_config)
        return clone
    _import_family("generic")
    for builder in _generic_builders:
        made = builder(model, ipu_config, force)
        if made is not None:
            return made
    if not force:
        raise KeyError(
            f"{model_class.__name__} pipelined version not found in registry. Derive a class from it and "
            "PipelineMixin, or ask for one with force=True."
        )
    logger.warning(
        f"No pipelined version exists for {model_class.__name__}, creating it dynamically so it might not work as "
        "expected."
    )
    dynamic = type(f"Pipelined{model_class.__name__}", (model_class, PipelineMixin), {})
    return dynamic.from_model(model)
