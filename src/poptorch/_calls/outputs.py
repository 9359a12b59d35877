"""Results on their way out: in the containers that `forward` returned, in formats that an IPU has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from openipu.graph import OutputTree
from poptorch.errors import createPoptorchError

_RETURNED = {torch.int64: torch.int32, torch.float64: torch.float32}


def _refuse_backward(*args: Any, **kwargs: Any) -> NoReturn:
    raise createPoptorchError(
        "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a trainingModel, the "
        "backwards pass is performed automatically when invoking the model. If you're using an inferenceModel, you "
        "should use a trainingModel instead."
    )


def build_outputs(leaves: Sequence[Any], tree: OutputTree) -> Any:
    """Rebuild what forward returned from the results of one call; host values stay as they are."""
    finished = [leaf if index in tree.host_leaves else _finish(leaf) for index, leaf in enumerate(leaves)]
    spec = tree.spec
    if spec.is_leaf():
        return finished[0]
    if spec.type in (list, tuple) and spec.num_children == len(finished) == spec.num_leaves == spec.num_nodes - 1:
        return spec.type(finished)  # the usual ones, without a walk over a tree
    return pytree.tree_unflatten(finished, tree.spec)


def _finish(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    made = leaf.detach()
    narrow = _RETURNED.get(leaf.dtype)
    if narrow is not None:
        made = made.to(narrow)
    made.backward = _refuse_backward  # type: ignore[method-assign]
    return made
