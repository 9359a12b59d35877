"""Losses over some classes of many: those that are drawn, and the right ones."""

from __future__ import annotations

from typing import Any


def compute_sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    subtract_log_q: bool = True,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Logits and labels [batch, num_true + num_sampled] of the right classes and of the drawn ones."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import candidate_sampling_ops, nn_impl

    classes = ops.convert_to_tensor(labels)
    if sampled_values is None:
        from tensorflow.python.ops import math_ops

        sampled_values = candidate_sampling_ops.log_uniform_candidate_sampler(
            true_classes=math_ops.cast(classes, dtypes.int64),
            num_true=num_true,
            num_sampled=num_sampled,
            unique=True,
            range_max=num_classes,
            seed=seed,
        )
    drawn = [ops.convert_to_tensor(value) for value in sampled_values]
    return nn_impl._compute_sampled_logits(
        weights=weights,
        biases=biases,
        labels=classes,
        inputs=inputs,
        num_sampled=num_sampled,
        num_classes=num_classes,
        num_true=num_true,
        sampled_values=drawn,
        subtract_log_q=subtract_log_q,
        remove_accidental_hits=False,
        partition_strategy="div",
        name=name,
    )


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Any:
    """The cross entropy [batch] over the right and the drawn classes."""
    from tensorflow.python.ops import array_ops, nn_ops

    logits, targets = compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, name, seed
    )
    return nn_ops.softmax_cross_entropy_with_logits_v2(labels=array_ops.stop_gradient(targets), logits=logits)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str = "nce_loss",
) -> Any:
    """Noise-contrastive estimation [batch]: each class by itself, right or drawn."""
    from tensorflow.python.ops import math_ops, nn_impl

    logits, targets = compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True, name
    )
    return math_ops.reduce_sum(nn_impl.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), axis=1)
