"""A part of ONNX's own node cases, op by op and through the pipeline; tests/conformance runs all of them."""

from __future__ import annotations

import functools

import pytest
from onnx_cases import Case, check, list_cases, run_pipeline, run_plainly

NAMES = """
add add_bcast and_bcast3v1d argmax_keepdims_example attention_4d attention_4d_causal attention_4d_expanded
averagepool_2d_ceil averagepool_2d_same_upper basic_conv_with_padding batchnorm_epsilon cast_FLOAT_to_FLOAT16
cast_FLOAT_to_FLOAT8E4M3FN cast_no_saturate_FLOAT_to_FLOAT8E5M2 clip_default_int8_min col2im_5d compress_0
concat_3d_axis_1 constant_pad convtranspose_autopad_same cumsum_2d_axis_0 depthtospace_crd_mode_example dft
einsum_batch_matmul expand_dim_changed eyelike_with_dtype flatten_axis2 flexattention_causal_mask
gather_2d_indices gather_elements_1 gathernd_example_int32_batch_dim1 gelu_tanh_1 gemm_all_attributes
globalaveragepool gridsample_bilinear gru_with_initial_bias hardsigmoid if instancenorm_epsilon isinf
layer_normalization_4d_axis2_expanded leakyrelu logsoftmax_axis_0 loop11 lrn lstm_with_peepholes matmul_4d
maxpool_2d_ceil maxpool_with_argmax_2d_precomputed_pads maxunpool_export_with_output_shape melweightmatrix
mod_mixed_sign_int32 momentum nesterov_momentum adam adagrad_multiple nllloss_NCd1d2_with_weight_reduction_mean
nonmaxsuppression_two_batches nonzero_example onehot_with_axis prelu_broadcast range_int32_type_negative_delta
reduce_log_sum_exp_default_axes_keepdims_random reduce_max_keepdims_random reshape_zero_dim
resize_downsample_scales_cubic_A_n0p5_exclude_outside resize_tf_crop_and_resize resize_upsample_scales_nearest
reversesequence_batch rms_normalization_2d_axis0 roialign_aligned_false rotary_embedding_interleaved scan9_sum
scan_sum scatter_elements_with_reduction_max scatternd_add sce_mean shape_start_1 simple_rnn_defaults
slice_neg_steps softmax_axis_1 spacetodepth_crd_mode_example split_variable_parts_2d_opset18 squeeze_negative_axes
swish tensorscatter_circular tfidfvectorizer_tf_batch_uniandbigrams_skip5 tile top_k_smallest
transpose_all_permutations_3 tril_neg unique_sorted_with_axis unsqueeze_two_axes upsample_nearest where_example
""".split()  # noqa: SIM905 (a list of a hundred quoted words reads worse)


@functools.cache
def load_cases() -> dict[str, Case]:
    return {case.name.removeprefix("test_"): case for case in list_cases()}


@pytest.mark.parametrize("name", NAMES)
def test_a_node_case_gives_the_expected_results_in_both_ways(name: str) -> None:
    case = load_cases()[name]
    check(case, run_plainly(case))
    check(case, run_pipeline(case))


def test_the_cases_that_are_left_out_need_what_no_ipu_tensor_has() -> None:
    kinds = {case.other_type for case in load_cases().values()}
    assert kinds == {"", "string", "sequence", "optional", "quantised"}
    assert load_cases()["string_concat"].other_type == "string"
    assert load_cases()["reversesequence_time"].other_type == ""
