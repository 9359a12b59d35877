"""The chain of layers of a model, found in its module tree.

In: any `torch.nn.Module`. Out: a `LayerChain`: the repeated layers in the order in which they stand in the tree, and
the modules around them where a pipeline begins and ends.

What counts as a chain: a `ModuleList` or `Sequential` of at least two modules with parameters, in which classes repeat.
Two cases need care. The experts of a mixture stand in such a list too, but inside the members of another one: the
outermost list counts. And a vision model keeps its blocks in stages of growing width: where the members of a list
differ much in size and each holds a list of its own, the lists inside are the chain, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from torch import nn

Layer: TypeAlias = tuple[str, nn.Module]  # the path from the model, and the module

# A second list of layers is part of the chain, as is a decoder after its encoder, if it weighs at least this share of
# the heaviest one. The convolutions before a speech encoder weigh far less: they stay with what comes before the chain.
_SMALLEST_SHARE = 0.2

# Members of a list of stages differ by more than this. The first block of T5 has a table that the others lack, which
# makes it no stage.
_STAGE_GROWTH = 1.5


@dataclass(frozen=True)
class LayerChain:
    """Where a model can be cut.

    `trunk` is the name of the child of the model that holds the first layer, or the empty string if the model holds its
    layers itself; `heads` are the children of the model that run after all layers.
    """

    layers: tuple[Layer, ...]
    trunk: str
    heads: tuple[Layer, ...]

    def __len__(self) -> int:
        return len(self.layers)


def find_layer_chain(model: nn.Module) -> LayerChain | None:
    """The layers of `model` that are alike and follow each other, or None if it has none."""
    lists = list(_walk_lists(model, ""))
    if not lists:
        return None
    weights = [sum(_count_parameters(layer) for _, layer in layers) for layers in lists]
    chain = [
        layer
        for layers, weight in zip(lists, weights, strict=True)
        if weight >= _SMALLEST_SHARE * max(weights)
        for layer in layers
    ]
    holders = [path.split(".")[0] for path, _ in chain]
    if _is_list(getattr(model, holders[0])):
        # Of the other children of a model that holds its layers itself, nothing says which come after them.
        return LayerChain(tuple(chain), "", ())
    return LayerChain(tuple(chain), holders[0], tuple(_find_heads(model, holders)))


def _walk_lists(module: nn.Module, path: str) -> Iterator[list[Layer]]:
    """The outermost lists of layers below `module`, in the order of the tree."""
    for name, child in module.named_children():
        child_path = f"{path}.{name}" if path else name
        if _is_list(child) and _is_list_of_stages(child):
            yield [layer for stage in _name_members(child, child_path) for layer in _open_stage(*stage)]
        elif _is_list(child) and _is_chain(child):
            yield _name_members(child, child_path)
        else:
            yield from _walk_lists(child, child_path)


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential))


def _is_chain(modules: nn.Module) -> bool:
    """Whether these are layers of one kind (or of a few that repeat), one after the other."""
    members = list(modules.children())
    if len({type(module) for module in members}) == len(members):
        return False
    return all(_count_parameters(module) for module in members)


def _is_list_of_stages(modules: nn.Module) -> bool:
    members = list(modules.children())
    if len(members) < 2 or any(_find_heaviest_list(module) is None for module in members):
        return False
    sizes = [_count_parameters(module) for module in members]
    return max(sizes) > _STAGE_GROWTH * min(sizes) or all(isinstance(module, nn.ModuleList) for module in members)


def _open_stage(path: str, stage: nn.Module) -> list[Layer]:
    """The blocks of a stage, even if there is a single one."""
    found = _find_heaviest_list(stage)
    assert found is not None
    inner_path, blocks = found
    return _name_members(blocks, f"{path}.{inner_path}" if inner_path else path)


def _find_heaviest_list(module: nn.Module) -> Layer | None:
    lists = [(path, child) for path, child in module.named_modules() if _is_list(child) and _count_parameters(child)]
    # `max` keeps the first of several equals, which is the outermost.
    return max(lists, key=lambda found: _count_parameters(found[1]), default=None)


def _name_members(modules: nn.Module, path: str) -> list[Layer]:
    return [(f"{path}.{name}", module) for name, module in modules.named_children()]


def _find_heads(model: nn.Module, holders: list[str]) -> Iterator[Layer]:
    """The children of the model that run after its layers, and have weights of their own.

    A Transformers model with a head names its base model, and calls all else after it. Without that name, the order
    of registration has to tell.
    """
    names = [name for name, _ in model.named_children()]
    base_model = getattr(model, "base_model_prefix", "")
    if set(holders) == {base_model}:
        candidates = [name for name in names if name != base_model]
    else:
        candidates = names[1 + max(names.index(holder) for holder in holders) :]
    for name in candidates:
        head = getattr(model, name)
        if _count_parameters(head):
            yield name, head


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
