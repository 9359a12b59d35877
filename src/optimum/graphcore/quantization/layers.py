"""The linear layers of a model in 4 bits, for inference.

In: a pipelined model and lists of its layers. Out: the same model with `GroupQuantLinear` in place of each `nn.Linear`
in them; `deparallelize` brings the original ones back, with the weights that they had.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from optimum.utils import logging
from torch import nn

from optimum.graphcore.modeling_utils import PipelineMixin
from optimum.graphcore.quantization.group_quantize import WEIGHTS_PER_BLOCK, GroupQuantLinear

logger = logging.get_logger(__name__)


def quantize_linear_layers(model: PipelineMixin, paths: Iterable[str], group_size: int = WEIGHTS_PER_BLOCK) -> int:
    """Compress all linear layers below these paths, in groups of so many weights; says how many layers."""
    assert isinstance(model, nn.Module)
    found = [
        (f"{path}.{name}", module)
        for path in paths
        for name, module in model.get_submodule(path).named_modules()
        if type(module) is nn.Linear
    ]
    for path, linear in found:
        groups = linear.in_features // group_size
        model.exchange_module(path, partial(GroupQuantLinear.from_model, num_groups=groups))
    logger.info(f"Group quantizing linear layers: {len(found)}")
    return len(found)
