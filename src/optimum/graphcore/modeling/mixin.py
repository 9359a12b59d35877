"""`PipelineMixin`: a Transformers model that knows how to spread itself over IPUs, and back.

In: a model and an `IPUConfig`. Out: the same model, the same results; after `parallelize` its modules begin blocks on
their IPUs, large layers may be in pieces, and after `deparallelize` its state dict is that of the original class.

A class describes itself with a `layout` (see `layout.py`), or overrides `parallelize`, calls `super().parallelize()`
first and then uses `begin_block`, `begin_layers`, `exchange_class`, `exchange_module` and `change_attribute`, all of
which `deparallelize` undoes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from optimum.utils import logging
from torch import nn
from torch.utils.hooks import RemovableHandle
from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

import poptorch
from optimum.graphcore.ipu_configuration import IPUConfig
from optimum.graphcore.modeling.changes import AttributeChange, Change, ClassChange, ModuleChange, find_owner
from optimum.graphcore.modeling.hooks import recomputation_checkpoint
from optimum.graphcore.modeling.layer_split import get_layer_ipu
from optimum.graphcore.modeling.layout import PipelineLayout

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.get_logger(__name__)

_RULE = "-" * 20


class PipelineMixin:
    """To be named before the Transformers class: `class PipelinedX(PipelineMixin, X)`. After it works as well."""

    layout: ClassVar[PipelineLayout | None] = None

    _ipu_config: IPUConfig | None = None
    _hooks: list[RemovableHandle]
    _changes: list[Change]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Transformers looks up by the name of the class what to record of a model, such as hidden states, and only a
        # constructor enters it. A copy of another model becomes one of this class without one.
        _CAN_RECORD_REGISTRY[str(cls)] = getattr(cls, "_can_record_outputs", None)

    @classmethod
    def from_transformers(cls, model: PreTrainedModel, ipu_config: IPUConfig) -> Self:
        """A pipelined copy of a Transformers model: its weights, number formats, frozen parameters and mode."""
        if issubclass(cls, type(model)) and cls.__init__ is type(model).__init__:
            made = copy.deepcopy(model)  # quicker than to make random weights and to load over them
            made.__class__ = cls
        else:
            made = cls(copy.deepcopy(model.config)).to(model.dtype)  # type: ignore[call-arg, attr-defined]
            made.load_state_dict(model.state_dict())
            for name, parameter in model.named_parameters():
                made.get_parameter(name).requires_grad_(parameter.requires_grad)
            if getattr(model, "generation_config", None) is not None:
                made.generation_config = copy.deepcopy(model.generation_config)
            made.train(model.training)
        made.ipu_config = copy.deepcopy(ipu_config)
        return made

    @classmethod
    def from_pretrained_transformers(
        cls, model_name_or_path: str, ipu_config: IPUConfig, *model_args: Any, **kwargs: Any
    ) -> Self:
        """A pipelined model from a checkpoint, by `from_pretrained` of the Transformers class."""
        made: Self = cls.from_pretrained(model_name_or_path, *model_args, **kwargs)  # type: ignore[attr-defined]
        made.ipu_config = copy.deepcopy(ipu_config)
        return made

    @classmethod
    def from_model(cls, model: nn.Module) -> Self:
        """A pipelined copy of any module, with a default `IPUConfig`: everything on one IPU."""
        made = copy.deepcopy(model)
        made.__class__ = cls  # type: ignore[assignment]
        made.ipu_config = IPUConfig()
        return made  # type: ignore[return-value]

    @property
    def ipu_config(self) -> IPUConfig:
        """The `IPUConfig` of the model."""
        self._has_ipu_config_check()
        assert self._ipu_config is not None
        return self._ipu_config

    @ipu_config.setter
    def ipu_config(self, value: IPUConfig) -> None:
        if not isinstance(value, IPUConfig):
            raise TypeError(f"ipu_config must be an instance of IPUConfig, but {type(value)} was provided")
        self._ipu_config = value

    def _has_ipu_config_check(self) -> None:
        if self._ipu_config is None:
            raise AttributeError("No IPUConfig was found. Please set the ipu_config attribute")

    @property
    def is_parallelized(self) -> bool:
        """Whether `parallelize` was called and not undone."""
        return "_changes" in self.__dict__

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        self._has_ipu_config_check()
        if self.is_parallelized:
            self.deparallelize()
        self._hooks = []
        self._changes = []
        if self.layout is not None:
            logger.info(f"{_RULE} Device Allocation {_RULE}")
            try:
                self.layout.apply(self)
            except BaseException:
                PipelineMixin.deparallelize(self)  # no model is left half changed
                raise
            logger.info("-" * (2 * len(_RULE) + len(" Device Allocation ")))
        return self

    def deparallelize(self) -> Self:
        """Undo what `parallelize` did: the state dict has the names and shapes of the original class again."""
        for handle in self.__dict__.pop("_hooks", []):
            handle.remove()
        assert isinstance(self, nn.Module)
        for child in self.children():
            poptorch.removeBlocks(child)
        for change in reversed(self.__dict__.pop("_changes", [])):
            change.undo(self)
        return self

    def begin_block(self, path: str, name: str, ipu: int) -> None:
        """Let the module begin a block on this IPU. A module that this model lacks (None) is left out."""
        module = _find_module(self, path)
        if module is not None:
            logger.info(f"{name:<10} --> IPU {ipu}")
            poptorch.BeginBlock(module, name, ipu_id=ipu)

    def begin_layers(self, path: str, name: str, layer_ipu: Sequence[int] | None = None, *, keep_last: bool) -> None:
        """Let every layer of a list begin a block, on the IPU of `layer_ipu` or else as `layers_per_ipu` says.

        With recompute_checkpoint_every_layer what a layer returns is kept for backward; the last one only if
        `keep_last`, because what comes after it on the same IPU reads it anyhow.
        """
        layers = _find_module(self, path)
        assert isinstance(layers, nn.ModuleList), f"{path} is not a list of layers"
        places = get_layer_ipu(self.ipu_config, layers) if layer_ipu is None else layer_ipu
        for index, (layer, ipu) in enumerate(zip(layers, places, strict=True)):
            if self.ipu_config.recompute_checkpoint_every_layer and (keep_last or index != len(layers) - 1):
                self._hooks.append(recomputation_checkpoint(layer))
            logger.info(f"{name} {index:<2} --> IPU {ipu}")
            poptorch.BeginBlock(layer, f"{name}{index}", ipu_id=ipu)

    def exchange_class(self, path: str, new: type[nn.Module]) -> None:
        """Let a module work by another class, which must do with the same attributes."""
        assert isinstance(self, nn.Module)
        module = self.get_submodule(path)
        self._changes.append(ClassChange(path, type(module)))
        module.__class__ = new

    def exchange_classes(self, pairs: dict[type[nn.Module], type[nn.Module]]) -> None:
        """Let all modules of exactly these classes work by other ones."""
        assert isinstance(self, nn.Module)
        for path, module in list(self.named_modules()):
            if type(module) in pairs:
                self.exchange_class(path, pairs[type(module)])

    def exchange_module(self, path: str, build: Callable[[Any], nn.Module]) -> Any:
        """Put what `build` makes of a module in its place. It needs a method `to_model`, for the way back."""
        assert isinstance(self, nn.Module)
        current = self.get_submodule(path)
        made = build(current).train(current.training)
        self.set_submodule(path, made)
        self._changes.append(ModuleChange(path))
        return made

    def change_attribute(self, path: str, name: str, value: Any) -> None:
        """Set an attribute of the module at `path` ("" is the model), for example `config.use_cache`."""
        assert isinstance(self, nn.Module)
        owner, last = find_owner(self.get_submodule(path), name)
        self._changes.append(AttributeChange(path, name, getattr(owner, last)))
        setattr(owner, last, value)

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """How many numbers the parameters hold; tied parameters count once."""
        assert isinstance(self, nn.Module)
        left_out = (
            {id(module.weight) for module in self.modules() if isinstance(module, nn.Embedding)}
            if exclude_embeddings
            else set()
        )
        return sum(
            parameter.numel()
            for parameter in self.parameters()
            if id(parameter) not in left_out and (parameter.requires_grad or not only_trainable)
        )

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Write a checkpoint of the original Transformers class. The model itself stays as it is."""
        plain: Any = copy.deepcopy(self).deparallelize() if self.is_parallelized else copy.copy(self)
        original = find_original_class(type(plain))
        if original is None or original.__name__ == "PreTrainedModel":  # pipelined from the start
            super(PipelineMixin, plain).save_pretrained(*args, **kwargs)
            return
        plain.__class__ = original  # its name goes into config.json
        plain.save_pretrained(*args, **kwargs)


def find_original_class(pipelined: type) -> type | None:
    """The class that a pipelined class was made from: its first base that is not pipelined."""
    for base in pipelined.__mro__:
        if base is not object and issubclass(base, nn.Module) and not issubclass(base, PipelineMixin):
            return base
    return None


def _find_module(model: Any, path: str) -> nn.Module | None:
    """The module, or None where the model has None in that place."""
    found = model
    for name in path.split(".") if path else []:
        found = getattr(found, name)
        if found is None:
            return None
    assert isinstance(found, nn.Module), f"{path} is not a module"
    return found
