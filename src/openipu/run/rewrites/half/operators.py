"""Operators that are computed in float32 when their operands are half precision.

In: the traits of the op table. Out: `WIDENED`, ATen operators in three families. `PRODUCTS` follow the IPU's rule: half
operands, float32 partials, one rounding to half. `WITHOUT_HALF_KERNEL` cannot be run otherwise. `SLOW_IN_HALF` have a
kernel for CPUs that takes one number at a time: 1.3 to 30 times as long as in float32, measured with PyTorch 2.13 and
AVX-512, and longer than with a conversion before and after. All other operators have half-precision kernels that
compute in float32 registers and round once, at about the speed of float32: they stay as they are.
"""

from __future__ import annotations

import torch

from openipu.ops import TRAITS, Trait

aten = torch.ops.aten

PRODUCTS = frozenset(
    getattr(aten, name.removeprefix("aten.")).default for name, traits in TRAITS.items() if Trait.PRODUCT in traits
)

WITHOUT_HALF_KERNEL = frozenset(
    {
        aten._cdist_backward.default,
        aten._cdist_forward.default,
        aten._ctc_loss.Tensor,
        aten._ctc_loss.default,
        aten._ctc_loss_backward.Tensor,
        aten._ctc_loss_backward.default,
        aten._pdist_backward.default,
        aten._pdist_forward.default,
        aten._standard_gamma.default,
        aten.avg_pool3d.default,
        aten.avg_pool3d_backward.default,
        aten.multi_margin_loss.default,
        aten.multi_margin_loss_backward.default,
        aten.multilabel_margin_loss_backward.default,
        aten.multilabel_margin_loss_forward.default,
        aten.rrelu_with_noise_backward.default,
        aten.rrelu_with_noise_functional.default,
    }
)

SLOW_IN_HALF = frozenset(
    {
        aten._adaptive_avg_pool3d.default,
        aten._adaptive_avg_pool3d_backward.default,
        aten._embedding_bag_backward.default,
        aten.adaptive_max_pool3d.default,
        aten.all.default,
        aten.all.dim,
        aten.amax.default,
        aten.amin.default,
        aten.any.default,
        aten.any.dim,
        aten.argmax.default,
        aten.argmin.default,
        aten.binary_cross_entropy.default,
        aten.binary_cross_entropy_backward.default,
        aten.bucketize.Tensor,
        aten.col2im.default,
        aten.cummax.default,
        aten.cummin.default,
        aten.dist.default,
        aten.erfc.default,
        aten.erfinv.default,
        aten.flip.default,
        aten.gelu.default,
        aten.gelu_backward.default,
        aten.glu.default,
        aten.glu_backward.default,
        aten.grid_sampler_2d.default,
        aten.grid_sampler_2d_backward.default,
        aten.histc.default,
        aten.huber_loss_backward.default,
        aten.kthvalue.default,
        aten.linalg_vector_norm.default,
        aten.logit.default,
        aten.max.dim,
        aten.max_pool2d_with_indices.default,
        aten.max_pool3d_with_indices.default,
        aten.median.default,
        aten.median.dim,
        aten.min.dim,
        aten.native_group_norm.default,
        aten.native_group_norm_backward.default,
        aten.nll_loss2d_forward.default,
        aten.norm.Scalar,
        aten.norm.ScalarOpt_dim,
        aten.pow.Tensor_Scalar,
        aten.prod.dim_int,
        aten.round.decimals,
        aten.smooth_l1_loss.default,
        aten.std.correction,
        aten.std_mean.correction,
        aten.upsample_trilinear3d.default,
        aten.upsample_trilinear3d_backward.default,
        aten.var.correction,
        aten.var_mean.correction,
        aten.xlogy.Tensor,
    }
)

WIDENED = PRODUCTS | WITHOUT_HALF_KERNEL | SLOW_IN_HALF
