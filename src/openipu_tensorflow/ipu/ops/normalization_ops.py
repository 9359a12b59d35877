"""`ipu.normalization_ops`: group, layer and instance norms.

In: a tensor with its channels on some axis. Out: it, normalised over each group of channels. Channels of a group are
interleaved over the channels by default: group g holds channels g, g + groups, … .
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EPSILON = 1.53e-5


def group_norm(
    inputs: Any,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> Any:
    """Normalise over groups of channels. `training` changes nothing: the statistics are always those of the batch."""
    return _normalise(
        inputs,
        groups,
        channels_axis,
        (center, scale, epsilon, param_initializers, trainable),
        (reuse, variables_collections, scope, "GroupNorm"),
        strided_channel_grouping,
    )


def layer_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """All channels are one group."""
    return _normalise(
        inputs,
        1,
        channels_axis,
        (center, scale, epsilon, param_initializers, trainable),
        (reuse, variables_collections, scope, "LayerNorm"),
        False,
    )


def instance_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = EPSILON,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Each channel is a group."""
    from tensorflow.python.framework import ops

    tensor = ops.convert_to_tensor(inputs)
    channels = _find_channels(tensor, channels_axis)
    return _normalise(
        tensor,
        channels,
        channels_axis,
        (center, scale, epsilon, param_initializers, trainable),
        (reuse, variables_collections, scope, "InstanceNorm"),
        False,
    )


def _find_channels(tensor: Any, axis: int) -> int:
    rank = tensor.shape.rank
    if rank is None:
        raise ValueError(f"Inputs {tensor.name} have undefined rank.")
    if not -rank <= axis < rank:
        raise ValueError(f"Axis is out of bounds: channels_axis is {axis}, and the inputs have {rank} dimensions.")
    channels = tensor.shape.as_list()[axis]
    if channels is None:
        raise ValueError(f"Inputs {tensor.name} have undefined channel dimension: {tensor.shape}.")
    return int(channels)


def _normalise(
    inputs: Any,
    groups: int,
    channels_axis: int,
    affine: tuple[bool, bool, float, Mapping[str, Any] | None, bool],
    place: tuple[Any, Any, Any, str],
    strided: bool,
) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import variable_scope

    center, scale, epsilon, initializers, trainable = affine
    reuse, collections, scope, kind = place
    tensor = ops.convert_to_tensor(inputs)
    channels = _find_channels(tensor, channels_axis)
    if groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
    with variable_scope.variable_scope(scope, kind, [tensor], reuse=reuse):
        made = normalise_groups(tensor, groups, channels_axis % tensor.shape.rank, epsilon, strided)
        shape = [1] * tensor.shape.rank
        shape[channels_axis] = channels
        names = (("gamma", scale, 1.0), ("beta", center, 0.0))
        for name, wanted, default in names:
            if wanted:
                variable = _make_parameter(name, channels, tensor, default, initializers, collections, trainable)
                made = _apply(made, name, variable, shape)
        return made


def normalise_groups(tensor: Any, groups: int, axis: int, epsilon: float, strided: bool) -> Any:
    """Mean 0 and variance 1 in each group of channels of each sample; the variance is the biased one."""
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import array_ops, math_ops

    shape = [-1 if size is None else size for size in tensor.shape.as_list()]
    size = shape[axis] // groups
    parts = [size, groups] if strided else [groups, size]
    split = [*shape[:axis], *parts, *shape[axis + 1 :]]
    group_axis = axis + 1 if strided else axis
    value = math_ops.cast(array_ops.reshape(tensor, split), dtypes.float32)
    over = [place for place in range(1, len(split)) if place != group_axis]
    mean = math_ops.reduce_mean(value, over, keepdims=True)
    centred = value - mean
    variance = math_ops.reduce_mean(math_ops.square(centred), over, keepdims=True)
    made = centred * math_ops.rsqrt(variance + epsilon)
    return math_ops.cast(array_ops.reshape(made, shape), tensor.dtype)


def _make_parameter(
    name: str,
    channels: int,
    tensor: Any,
    default: float,
    initializers: Mapping[str, Any] | None,
    collections: Any,
    trainable: bool,
) -> Any:
    from tensorflow.python.ops import init_ops, variable_scope

    chosen = (initializers or {}).get(name, init_ops.constant_initializer(default))
    groups = collections.get(name) if isinstance(collections, dict) else collections
    return variable_scope.get_variable(
        name,
        shape=[channels],
        dtype=tensor.dtype,
        initializer=chosen,
        collections=groups,
        trainable=trainable,
        use_resource=True,
    )


def _apply(tensor: Any, name: str, variable: Any, shape: list[int]) -> Any:
    from tensorflow.python.ops import array_ops

    value = array_ops.reshape(variable, shape)
    return tensor * value if name == "gamma" else tensor + value
