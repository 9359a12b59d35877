"""Modules in the order of `forward` as one sequence that `layers_per_ipu` counts, for models without a plain list.

In: a pipelined model and paths. Out: the model, whose modules begin blocks on their IPUs; the IPU of each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import nn

from optimum.graphcore.modeling.hooks import recomputation_checkpoint
from optimum.graphcore.modeling.layer_split import get_layer_ipu
from optimum.graphcore.modeling.mixin import PipelineMixin


def begin_sequence(
    model: PipelineMixin, modules: Sequence[tuple[str, str]], checkpoints: Collection[str] = ()
) -> list[int]:
    """Let every module of (path, name) begin a block, as `layers_per_ipu` spreads them.

    With recompute_checkpoint_every_layer, what the modules at the paths `checkpoints` return is kept for backward.
    """
    assert isinstance(model, nn.Module)
    places = get_layer_ipu(model.ipu_config, len(modules))
    for (path, name), ipu in zip(modules, places, strict=True):
        if path in checkpoints and model.ipu_config.recompute_checkpoint_every_layer:
            model._hooks.append(recomputation_checkpoint(model.get_submodule(path)))
        model.begin_block(path, name, ipu)
    return places


def name_layers(model: PipelineMixin, path: str, name: str) -> list[tuple[str, str]]:
    """(path, name) of each member of a list, numbered."""
    assert isinstance(model, nn.Module)
    count = len(list(model.get_submodule(path).children()))
    return [(f"{path}.{index}", f"{name}{index}") for index in range(count)]
