"""What is known of an op besides its cost: the one place for facts that planning and running both need.

In: the name of an op, such as "aten.add.Tensor". Out: its `Trait`s. A line names an op for all its overloads, as a row
of the table does. What the host's PyTorch does well or badly is not a fact about the op: that stands with the runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Flag, auto
from functools import lru_cache
from types import MappingProxyType

from openipu.ops.rules.views import VIEWS, cost_view


class Trait(Flag):
    """Each says something that holds for every call of the op."""

    NONE = 0
    VIEW = auto()  # the results are other names for the operand's bytes
    KEEPS_ORDER = auto()  # a view in which the elements lie in the operand's order
    PRODUCT = auto()  # sums of products: half operands, float32 partials, one rounding to half
    MATMUL_OR_CONVOLUTION = auto()  # a product that an IPU computes with its matrix engine as one planned layer
    SERIALISABLE = auto()  # a matrix product that can be cut into pieces that run one after the other
    RECURRENT = auto()  # a whole recurrent layer
    NORM = auto()  # batch, layer, group or RMS normalisation; the length of a vector is none
    EXACT = auto()  # only moves, chooses or negates numbers: its half results need no rounding


_SERIALISABLE = ("mm", "addmm", "bmm")
_MATMULS_AND_CONVOLUTIONS = (*_SERIALISABLE, "baddbmm", "convolution", "convolution_backward", "linear", "matmul")
_PRODUCTS = (
    *_MATMULS_AND_CONVOLUTIONS,
    *("addbmm", "addmv", "addr", "dot", "mv", "vdot", "_euclidean_dist", "_trilinear"),
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
)
_NORMS = (
    *("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"),
    *("native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit"),
    *("_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training"),
    *("_fused_rms_norm", "_fused_rms_norm_backward"),
)
_ORDER_KEEPING = (
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "flatten", "alias", "detach"),
    "lift_fresh",
)
_EXACT = (
    *("abs", "amax", "amin", "flip", "max_pool2d_with_indices", "max_pool3d_with_indices", "neg", "relu"),
    *("_to_copy", "_unsafe_index", "adaptive_max_pool2d", "adaptive_max_pool3d", "arange"),
    *("cat", "clamp", "clamp_max", "clamp_min", "clone", "constant_pad_nd", "copy", "copysign", "embedding", "empty"),
    *("empty_like", "fill", "full", "full_like", "gather", "hardtanh", "index", "index_select", "lift_fresh_copy"),
    *("masked_fill", "masked_select", "max", "maximum", "min", "minimum", "nan_to_num", "native_dropout"),
    *("new_empty", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "pixel_shuffle", "pixel_unshuffle"),
    *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "replication_pad1d", "replication_pad2d"),
    *("replication_pad3d", "roll", "scalar_tensor", "scatter", "select_backward", "select_scatter", "sign"),
    *("slice_backward", "slice_scatter", "sort", "split_with_sizes_copy", "stack", "threshold", "threshold_backward"),
    *("topk", "tril", "triu", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "where", "zeros"),
    "zeros_like",
)


def _collect(facts: Mapping[Trait, Iterable[str]]) -> Mapping[str, Trait]:
    found: dict[str, Trait] = {}
    for trait, names in facts.items():
        for name in names:
            found[name] = found.get(name, Trait.NONE) | trait
    return MappingProxyType(found)


TRAITS: Mapping[str, Trait] = _collect(
    {
        Trait.VIEW: [name for name, rule in VIEWS.items() if rule is cost_view],
        Trait.KEEPS_ORDER: [f"aten.{name}" for name in _ORDER_KEEPING],
        Trait.PRODUCT: [f"aten.{name}" for name in _PRODUCTS],
        Trait.MATMUL_OR_CONVOLUTION: [f"aten.{name}" for name in _MATMULS_AND_CONVOLUTIONS],
        Trait.SERIALISABLE: [f"aten.{name}" for name in _SERIALISABLE],
        Trait.RECURRENT: [f"openipu.{cell}_layer" for cell in ("lstm", "gru", "rnn")],
        Trait.NORM: [f"aten.{name}" for name in _NORMS],
        Trait.EXACT: [f"aten.{name}" for name in _EXACT],
    }
)


@lru_cache(maxsize=4096)
def find_traits(op: str) -> Trait:
    """The traits of an op, by the name of an overload ("aten.add.Tensor") or of all of them, in place or not."""
    name = ".".join(op.split(".")[:2])
    return TRAITS.get(name, TRAITS.get(name.removesuffix("_"), Trait.NONE))


def has_trait(op: str, trait: Trait) -> bool:
    """Whether the op has this trait, or one of several."""
    return bool(find_traits(op) & trait)
