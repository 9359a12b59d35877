"""LayerDrop with a static graph: every layer runs, and a random number decides whether its result counts.

In: a pipelined model, and the path of a module that calls its layers in a loop and leaves some out at random while it
trains. Out: the same model, whose loop leaves none out; with a probability above zero each layer's result is exchanged
for its input that often, by a random number that is drawn anew for every micro-batch. `deparallelize` undoes it.

Transformers writes the loop in two ways. Either the probability is an attribute, `layerdrop`, of the module: then it is
exchanged for one that no random number falls below. Or it stands in the shared configuration and is read while
`module.training`: then the module's own flag is off while its `forward` runs. Its children keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from optimum.graphcore.modeling.extension import Extension, extend_class
from optimum.graphcore.modeling.mixin import PipelineMixin

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


class _NeverDropped:
    """In comparisons smaller than any random number, which need not be known for that."""

    def __lt__(self, other: Any) -> bool:
        return True

    def __gt__(self, other: Any) -> bool:
        return False


class _CallsAllLayers(Extension):
    """A class of this and of a Transformers class leaves no layer out."""

    training: bool

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        was_training = self.training
        self.training = False
        try:
            return super().forward(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.training = was_training


class _DropLayer:
    """A hook on a layer: what went in comes out, as often as the probability says."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> Any:
        if not layer.training:
            return outputs
        hidden_states = args[0] if args else kwargs["hidden_states"]
        is_dropped = torch.rand([], device=hidden_states.device) < self.probability
        if isinstance(outputs, tuple):
            return (torch.where(is_dropped, hidden_states, outputs[0]), *outputs[1:])
        return torch.where(is_dropped, hidden_states, outputs)


def make_layer_drop_static(model: PipelineMixin, path: str, layers: Iterable[nn.Module]) -> None:
    """Let the module at `path` call all of its layers. Nothing to do for one without LayerDrop.

    `layers` are those whose results are dropped at random instead: layers that keep the shape of what they get.
    """
    assert isinstance(model, nn.Module)
    owner = model.get_submodule(path)
    own = getattr(owner, "layerdrop", None)
    shared = getattr(getattr(owner, "config", None), "layerdrop", None)
    if own is not None:
        model.change_attribute(path, "layerdrop", _NeverDropped())
    elif shared is not None:
        model.exchange_class(path, extend_class(_CallsAllLayers, type(owner)))
    probability = own if own is not None else shared or 0.0
    if probability > 0:
        model._hooks.extend(_drop_at_random(layer, probability) for layer in layers)


def _drop_at_random(layer: nn.Module, probability: float) -> RemovableHandle:
    return layer.register_forward_hook(_DropLayer(probability), with_kwargs=True)
