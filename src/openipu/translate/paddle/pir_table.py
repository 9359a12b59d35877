"""Names of Paddle's new form beside those of the legacy one.

In: nothing. Out: `ADAPTERS`, by the op's new name: its legacy name, the legacy slots of its inputs and results in their
order, and attributes that are called otherwise. `@axis` is an attribute that the new form has as an input: a known
value becomes the attribute, any other goes to the slot behind the colon. `Slot=Other` is a result that replaces an
input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """One op of the new form in words of the legacy one."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


# X -> Out under the same name
_UNARY = """
abs acos acosh asin asinh assign atan atanh bitwise_not ceil celu cos cosh elu erf exp expm1 floor gelu identity_loss
increment log log10 log1p log2 log_softmax logical_not logsigmoid logsumexp maxout mish p_norm pixel_shuffle print
reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh soft_relu softmax softplus softsign sqrt square
squared_l2_norm stanh swish tan tanh tanh_shrink thresholded_relu trunc
"""

# X, Y -> Out under the same name
_BINARY = """
bitwise_and bitwise_or bitwise_xor bmm dist dot elementwise_pow equal equal_all greater_equal greater_than less_equal
less_than logical_and logical_or logical_xor not_equal
"""

# new name: legacy name, inputs -> results, attributes as new=legacy, attributes that are always so as name:=value
_OTHERS = """
accuracy: accuracy Out Indices Label -> Accuracy Correct Total
adadelta_: adadelta Param Grad AvgSquaredGrad AvgSquaredUpdate LearningRate MasterParam -> ParamOut
adagrad_: adagrad Param Grad Moment LearningRate MasterParam -> ParamOut
adam_: adam Param Grad LearningRate Moment1 Moment2 Moment2Max Beta1Pow Beta2Pow MasterParam SkipUpdate \
@beta1 @beta2 @epsilon -> ParamOut
adamax_: adamax Param Grad LearningRate Moment InfNorm Beta1Pow MasterParam -> ParamOut
adamw_: adamw Param Grad LearningRate Moment1 Moment2 Moment2Max Beta1Pow Beta2Pow MasterParam SkipUpdate \
@beta1 @beta2 @epsilon -> ParamOut
add: elementwise_add X Y -> Out
add_n: sum X -> Out
addmm: addmm Input X Y -> Out beta=Beta alpha=Alpha
affine_channel: affine_channel X Scale Bias -> Out data_format=data_layout
all: reduce_all X -> Out axis=dim keepdim=keep_dim
amax: reduce_amax X -> Out axis=dim keepdim=keep_dim
amin: reduce_amin X -> Out axis=dim keepdim=keep_dim
any: reduce_any X -> Out axis=dim keepdim=keep_dim
arange: range Start End Step -> Out
argmax: arg_max X @axis:Axis -> Out
argmin: arg_min X @axis:Axis -> Out
argsort: argsort X -> Out Indices
assign_out_: assign X Target -> Out=Target
assign_value: assign_value -> Out
assign_value_: assign_value Target -> Out=Target
atan2: atan2 X1 X2 -> Out
batch_norm: batch_norm X Mean Variance Scale Bias \
-> Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace data_format=data_layout
batch_norm_: batch_norm X Mean Variance Scale Bias \
-> Y MeanOut=Mean VarianceOut=Variance SavedMean SavedVariance ReserveSpace data_format=data_layout
bce_loss: bce_loss X Label -> Out
bicubic_interp: bicubic_interp_v2 X OutSize SizeTensor Scale -> Out data_format=data_layout
bilinear_interp: bilinear_interp_v2 X OutSize SizeTensor Scale -> Out data_format=data_layout
broadcast_tensors: broadcast_tensors X -> Out
cast: cast X -> Out dtype=out_dtype
clip: clip X @min:Min @max:Max -> Out
concat: concat X @axis:AxisTensor -> Out
conv2d: conv2d Input Filter -> Output
conv2d_transpose: conv2d_transpose Input Filter @output_size:OutputSizeTensor -> Output
conv3d: conv3d Input Filter -> Output
conv3d_transpose: conv3d_transpose Input Filter -> Output
cross_entropy_with_softmax: softmax_with_cross_entropy Logits Label -> Softmax Loss
cumprod: cumprod X -> Out
cumsum: cumsum X @axis:AxisTensor -> Out
depthwise_conv2d: depthwise_conv2d Input Filter -> Output
depthwise_conv2d_transpose: depthwise_conv2d_transpose Input Filter @output_size:OutputSizeTensor -> Output
divide: elementwise_div X Y -> Out
dropout: dropout X Seed @dropout_prob -> Out Mask mode=dropout_implementation
einsum: einsum Operands -> Out InnerCache XShape
embedding: lookup_table_v2 Ids W -> Out sparse=is_sparse
expand: expand_v2 X @shape:Shape -> Out
expand_as: expand_as_v2 X Y -> Out
eye: eye @num_rows @num_columns -> Out
flatten: flatten_contiguous_range X -> Out
flip: flip X -> Out
floor_divide: elementwise_floordiv X Y -> Out
fmax: elementwise_fmax X Y -> Out
fmin: elementwise_fmin X Y -> Out
frobenius_norm: frobenius_norm X @dim:AxisTensor -> Out keepdim=keep_dim
full: fill_constant -> Out
full_batch_size_like: fill_constant_batch_size_like Input -> Out
full_int_array: assign_value -> Out value=values
full_like: fill_any_like X @value -> Out
full_with_tensor: fill_constant ValueTensor @shape:ShapeTensor -> Out
gather: gather X Index @axis:Axis -> Out
gather_nd: gather_nd X Index -> Out
gaussian: gaussian_random @shape:ShapeTensor -> Out
group_norm: group_norm X Scale Bias -> Y Mean Variance data_format=data_layout
hardshrink: hard_shrink X -> Out
hardsigmoid: hard_sigmoid X -> Out
hardswish: hard_swish X -> Out
hardtanh: brelu X -> Out
huber_loss: huber_loss X Y -> Out Residual
index_select: index_select X Index -> Out axis=dim
instance_norm: instance_norm X Scale Bias -> Y SavedMean SavedVariance
isfinite: isfinite_v2 X -> Out
isinf: isinf_v2 X -> Out
isnan: isnan_v2 X -> Out
kldiv_loss: kldiv_loss X Target -> Loss
lamb_: lamb Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow MasterParam SkipUpdate -> ParamOut
layer_norm: layer_norm X Scale Bias -> Y Mean Variance
leaky_relu: leaky_relu X -> Out negative_slope=alpha
legacy_matmul: matmul X Y -> Out transpose_x=transpose_X transpose_y=transpose_Y
linear_interp: linear_interp_v2 X OutSize SizeTensor Scale -> Out data_format=data_layout
linspace: linspace Start Stop Num -> Out
log_loss: log_loss Predicted Labels -> Loss
matmul: matmul_v2 X Y -> Out transpose_x=trans_x transpose_y=trans_y
matmul_with_flatten: mul X Y -> Out
max: reduce_max X @dim:AxisTensor -> Out keepdim=keep_dim
max_pool2d_with_index: max_pool2d_with_index X -> Out Mask kernel_size=ksize
maximum: elementwise_max X Y -> Out
mean: reduce_mean X @dim:AxisTensor -> Out axis=dim keepdim=keep_dim
mean_all: mean X -> Out
meshgrid: meshgrid X -> Out
min: reduce_min X @dim:AxisTensor -> Out keepdim=keep_dim
minimum: elementwise_min X Y -> Out
momentum_: momentum Param Grad Velocity LearningRate MasterParam -> ParamOut
multiply: elementwise_mul X Y -> Out
mv: mv X Vec -> Out
nearest_interp: nearest_interp_v2 X OutSize SizeTensor Scale -> Out data_format=data_layout
nll_loss: nll_loss X Label Weight -> Out Total_weight
norm: norm X -> Out Norm
numel: size Input -> Out
one_hot: one_hot_v2 X @depth:depth_tensor -> Out num_classes=depth
pad: pad X @pad_value -> Out
pad3d: pad3d X @paddings:Paddings -> Out pad_value=value
pool2d: pool2d X @ksize:KSize -> Out kernel_size=ksize
pool3d: pool3d X -> Out kernel_size=ksize
pow: pow X -> Out y=factor
prelu: prelu X Alpha -> Out
prod: reduce_prod X @dim:AxisTensor -> Out keepdim=keep_dim
remainder: elementwise_mod X Y -> Out
reshape: reshape2 X @shape:Shape -> Out
reverse: reverse X @axis -> Out
rmsprop_: rmsprop Param MeanSquare Grad Moment LearningRate MeanGrad MasterParam -> ParamOut
rnn: rnn Input PreState WeightList SequenceLength dropout_state_in -> Out DropoutState State Reserve
roll: roll X @shifts:ShiftsTensor -> Out
scale: scale X @scale:ScaleTensor -> Out
scatter: scatter X Ids Updates -> Out
scatter_nd_add: scatter_nd_add X Index Updates -> Out
sgd_: sgd Param LearningRate Grad MasterParam -> ParamOut
shape: shape Input -> Out
shape64: shape64 Input -> Out
share_data_: share_data X -> Out=X
sigmoid_cross_entropy_with_logits: sigmoid_cross_entropy_with_logits X Label pos_weight -> Out
slice: slice Input @starts:StartsTensor @ends:EndsTensor -> Out
softshrink: softshrink X -> Out threshold=lambda
split: split X @sections:SectionsTensorList @axis:AxisTensor -> Out
split_with_num: split X @axis:AxisTensor -> Out
squeeze: squeeze2 X @axes:AxesTensor -> Out
stack: stack X -> Y
strided_slice: strided_slice Input @starts:StartsTensor @ends:EndsTensor @strides:StridesTensor -> Out
subtract: elementwise_sub X Y -> Out
sum: reduce_sum X @dim:AxisTensor -> Out dtype=out_dtype keepdim=keep_dim
sync_batch_norm_: sync_batch_norm X Mean Variance Scale Bias \
-> Y MeanOut=Mean VarianceOut=Variance SavedMean SavedVariance ReserveSpace data_format=data_layout
take_along_axis: take_along_axis Input Index -> Result axis=Axis
tile: tile X @repeat_times:RepeatTimes -> Out
topk: top_k_v2 X @k:K -> Out Indices
transpose: transpose2 X -> Out perm=axis
tril: tril_triu X -> Out lower:=1
trilinear_interp: trilinear_interp_v2 X OutSize SizeTensor Scale -> Out data_format=data_layout
triu: tril_triu X -> Out lower:=0
unbind: unbind X -> Out
uniform: uniform_random @shape:ShapeTensor @min @max -> Out
unsqueeze: unsqueeze2 X @axes:AxesTensor -> Out
unstack: unstack X -> Y
warpctc: warpctc Logits Label LogitsLength LabelLength -> Loss WarpCTCGrad
where: where Condition X Y -> Out
yolo_box: yolo_box X ImgSize -> Boxes Scores
"""


def _parse(line: str) -> tuple[str, Adapter]:
    name, rest = line.split(": ", 1)
    left, _, right = rest.partition("->")
    words = right.split()
    more = [word for word in words if "=" in word and word[0].islower()]
    kind, *inputs = left.split()
    renamed = dict(word.split("=") for word in more if ":=" not in word)
    fixed = {key: int(value) for key, value in (word.split(":=") for word in more if ":=" in word)}
    outputs = tuple(word for word in words if word not in more)
    return name, Adapter(kind, tuple(inputs), outputs, renamed, fixed)


ADAPTERS: Mapping[str, Adapter] = {
    **{name: Adapter(name, ("X",), ("Out",)) for name in _UNARY.split()},
    **{name: Adapter(name, ("X", "Y"), ("Out",)) for name in _BINARY.split()},
    **dict(_parse(line) for line in _OTHERS.strip().splitlines()),
}
