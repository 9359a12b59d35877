"""Which kernels a program is worth compiling for.

In: the draft of a micro-batch, and the options. Out: the kernels, those that gain most first.
"""

from __future__ import annotations

from torch import fx

from openipu.graph import RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import could_apply
from openipu.run.kernels import Kernel
from openipu.run.kernels.catalog import (
    CHANNEL_NORMS,
    DROPOUT,
    GELU,
    GEMV,
    HALF_PRODUCTS,
    LSTM,
    STOCHASTIC_ROUNDING,
    WEIGHT_GRADIENTS,
    WINOGRAD,
)
from openipu.run.optimization import Accuracy
from openipu.run.rewrites.fusion.gelu_kernel import find_gelus
from openipu.run.rewrites.half.rounded_products import has_chunks
from openipu.run.rewrites.images.direct_convolutions import list_geometries
from openipu.run.rewrites.images.joined_norms import find_norms
from openipu.run.rewrites.images.layout import find_winograd
from openipu.run.rewrites.images.packed_convolutions import is_worth_winograd
from openipu.run.rewrites.products import weight_gradients
from openipu.run.rewrites.products.gemv import is_worth_gemv
from openipu.run.rewrites.random.dropout import compares_bits, draws_masks
from openipu.run.rewrites.recurrent.lstm_kernel import is_worth_lstm


def list_kernels(graph: fx.Graph, options: RunOptions) -> tuple[Kernel, ...]:
    """Kernels that take the place of operators of this graph, beside those of inference alone."""
    rounding = {STOCHASTIC_ROUNDING: options.stochastic_rounding}
    if options.floating_point_exceptions:  # whose checks look at single operators
        found = rounding
    else:
        found = {
            **rounding,
            HALF_PRODUCTS: options.half_partials and has_chunks(graph),
            WINOGRAD: find_winograd(graph),
            CHANNEL_NORMS: options.training and find_norms(graph),
            WEIGHT_GRADIENTS: could_apply(graph, weight_gradients.make_rules(None)),
            GELU: options.training and find_gelus(graph),
            DROPOUT: draws_masks(graph) or (options.stochastic_rounding and compares_bits(graph)),
        }
    exact = options.deterministic
    return tuple(
        kernel for kernel, used in found.items() if used and (not exact or kernel.accuracy is Accuracy.SAME_BITS)
    )


def list_inference_kernels(draft: Draft) -> tuple[Kernel, ...]:
    """Kernels of inference alone."""
    geometries = [geometry.kernel_record for geometry in list_geometries(draft)]
    found = {LSTM: is_worth_lstm(draft), GEMV: is_worth_gemv(draft), WINOGRAD: is_worth_winograd(draft)}
    return (*geometries, *(kernel for kernel, is_worth in found.items() if is_worth))
