"""Every pass from a captured graph to one that runs, in order: as `plan/planner.py` lists those of a plan.

In: a `Draft` of the micro graph, and a `Setting`: what the passes may ask for. Out: the same draft, changed. Between
`MICRO` and the rest, several micro-batches may become one draft (`batching_choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openipu.graph import InputKind, OutputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.passes import Pass, by_rules
from openipu.run.drafts.rules import Rule
from openipu.run.engine.setting import (
    Setting,
    accumulates,
    checks,
    infers,
    is_unchecked,
    may_infer,
    may_use,
    trains,
    updates,
)
from openipu.run.kernels import Function, Kernel, Run
from openipu.run.kernels.catalog import (
    CHANNEL_NORMS,
    COMPUTE_GELU,
    DIRECT_CONVOLUTION,
    DROP,
    DROPOUT,
    GELU,
    GEMV,
    HALF_PRODUCTS,
    LSTM,
    MULTIPLY_IN_HALF,
    MULTIPLY_TRANSPOSED,
    MULTIPLY_VECTOR,
    ROUND,
    STOCHASTIC_ROUNDING,
    WEIGHT_GRADIENTS,
    WINOGRAD,
)
from openipu.run.optimization import Accuracy, Optimization
from openipu.run.rewrites.fusion import (
    attention,
    class_gradients,
    dropped_elements,
    gelu_kernel,
    trained_gelu,
    written_gelu,
)
from openipu.run.rewrites.half import rounded_products, stochastic_rounding, wide_weights
from openipu.run.rewrites.half.keep_wide import ROUNDED_WIDE
from openipu.run.rewrites.half.rounding import apply_number_options
from openipu.run.rewrites.images import direct_convolutions, joined_norms
from openipu.run.rewrites.images.layout import lay_out_images
from openipu.run.rewrites.images.packed_convolutions import pack_convolutions
from openipu.run.rewrites.in_place.accumulation import ADDED_ROWS, accumulate_gradients
from openipu.run.rewrites.in_place.bound_rounding import bind_rounding
from openipu.run.rewrites.in_place.buffers_in_place import write_in_place
from openipu.run.rewrites.in_place.reused_memory import reuse_memory
from openipu.run.rewrites.products import gemv, onednn_products, packed_weights, weight_gradients
from openipu.run.rewrites.pruning import prune_rows
from openipu.run.rewrites.random import dropout
from openipu.run.rewrites.recurrent import lstm_kernel, onednn_recurrent, packed_recurrent
from openipu.run.rewrites.semantics.delayed_weights import delay_weights
from openipu.run.rewrites.semantics.float_exceptions import check_arithmetic
from openipu.run.rewrites.semantics.loss_scale import add_statistics
from openipu.run.rewrites.simplify import PASSES as SIMPLIFY
from openipu.run.rewrites.simplify import own_outputs, simplify
from openipu.run.taps import add_taps
from openipu.run.update.in_graph import apply_updates, scale_gradients

# Rules outside of the lists, for `list_rules`.
BATCH_MICRO_BATCHES = "batch micro-batches"
GROUP_UPDATES = "update parameters together"
ACCUMULATE_PRODUCTS = "add products to accumulators in one call"
ELSEWHERE = (
    Optimization(
        BATCH_MICRO_BATCHES, accuracy=Accuracy.OTHER_ORDER, gains=("perceptron_loop_inference", "bert_loop_inference")
    ),
    Optimization(
        GROUP_UPDATES,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("checkpoint_training", "checkpoint_images_training"),
    ),
    Optimization(
        ACCUMULATE_PRODUCTS, accuracy=Accuracy.OTHER_ORDER, gains=("gpt2_accumulation", "perceptron_accumulation")
    ),
)

# Of one micro-batch. `simplify` has a list of its own, which the bodies of loops and update graphs go through as well.
MICRO: tuple[Pass[Setting], ...] = (
    Pass("add taps", lambda draft, setting: add_taps(draft, setting.program, setting.options.taps), needed=True),
    Pass("keep what a run needs", lambda draft, setting: keep_results(draft, setting.program), needed=True),
    Pass(
        "count gradients for the loss scale",
        lambda draft, setting: count_gradients(draft, setting.options),
        lambda setting: setting.options.loss_scale_control is not None,
        needed=True,
    ),
    Pass(
        "read weights of earlier updates",
        lambda draft, setting: delay_weights(draft),
        lambda setting: setting.options.continuous,
        needed=True,
    ),
    Pass(
        "simplify",
        lambda draft, setting: simplify(draft, without=setting.options.without_rules),
        needed=True,  # its own passes are rules
    ),
    # Arithmetic is checked of entries that are not read, too.
    Pass(
        "last-token pruning",
        lambda draft, setting: prune_rows(draft),
        lambda setting: not setting.options.floating_point_exceptions,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("electra_training", "vit_inference"),
    ),
    Pass(
        "round as the options say",
        lambda draft, setting: apply_number_options(draft, setting.options),
        needed=True,
    ),
    Pass(
        "read weights in float32",
        by_rules(lambda draft, setting: wide_weights.make_rules(draft, setting.program)),
        gains=("perceptron_half_inference", "vgg_half_inference"),
    ),
    Pass("own outputs", lambda draft, setting: own_outputs(draft), needed=True),
)


def _by_kernel(
    kernel: Kernel, function: Function, make_rules: Callable[[Run], Sequence[Rule]]
) -> Callable[[Draft, Setting], None]:
    """Rules that call a function of a kernel."""
    return by_rules(lambda draft, setting: make_rules(setting.library[kernel][function]))


# Once micro-batches are batched.
BATCHED: tuple[Pass[Setting], ...] = (
    Pass(
        "recurrent layers by oneDNN",
        by_rules(lambda draft, setting: onednn_recurrent.make_rules()),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("lstm_inference", "speech_inference"),
    ),
    Pass(
        "direct convolutions by a kernel",
        by_rules(lambda draft, setting: direct_convolutions.make_rules(draft, setting.device_memory, setting.library)),
        may_infer(DIRECT_CONVOLUTION),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("lenet_inference", "keyword_inference"),
    ),
    Pass(
        "Winograd convolutions by a kernel",
        lambda draft, setting: pack_convolutions(draft, setting.device_memory, setting.library[WINOGRAD]),
        may_infer(WINOGRAD),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("unet_inference", "large_images_inference"),
    ),
    Pass(
        "LSTM layers by a kernel",
        by_rules(lambda draft, setting: lstm_kernel.make_rules(draft, setting.device_memory, setting.library[LSTM])),
        may_infer(LSTM),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("lstm_inference", "speech_inference"),
    ),
    Pass(
        "matrix-vector products by a kernel",
        by_rules(
            lambda draft, setting: gemv.make_rules(draft, setting.device_memory, setting.library[GEMV][MULTIPLY_VECTOR])
        ),
        may_infer(GEMV),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("wide_row_inference", "generation_inference"),
    ),
)

_ACCUMULATE = Pass(
    "add gradients to their accumulators",
    lambda draft, setting: accumulate_gradients(
        draft,
        setting.device_updater.accumulators,
        setting.scale,
        single=checks(setting) or ACCUMULATE_PRODUCTS in setting.options.without_rules,
    ),
    accumulates,
    needed=True,
)

# With the memory that it will run on, and the updater.
BOUND: tuple[Pass[Setting], ...] = (
    Pass(
        "dropout masks by integer comparison",
        by_rules(lambda draft, setting: dropped_elements.make_rules(draft)),
        is_unchecked,
        gains=("keras_cnn_training", "keras_text_training"),
    ),
    Pass(
        "channels-last images",
        lambda draft, setting: lay_out_images(draft, setting.library[WINOGRAD] if may_use(WINOGRAD)(setting) else None),
        is_unchecked,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("checkpoint_images_training", "resnet_training"),
    ),
    _ACCUMULATE,
    Pass("weigh gradients", lambda draft, setting: scale_gradients(draft, setting.scale), updates, needed=True),
    Pass(
        "update as soon as a gradient is there",
        lambda draft, setting: apply_updates(
            draft, setting.device_updater.ready_buckets, frozenset(setting.device_updater.late_gradients)
        ),
        updates,
        needed=True,
    ),
    # Last: the passes above read the operators' schemas.
    Pass("check arithmetic", lambda draft, setting: check_arithmetic(draft), checks, needed=True),
    Pass(
        "gelu in one call",
        by_rules(written_gelu.RULES),
        infers,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("tiny_gpt2_inference", "gptj_inference"),
    ),
    Pass(
        "gelu and its gradient in one call each",
        by_rules(trained_gelu.RULES),
        trains,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("gptj_training", "tiny_gpt2_training"),
    ),
    Pass(
        "cross-entropy gradient in one call",
        by_rules(class_gradients.RULES),
        trains,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("gpt2_training", "roberta_training"),
    ),
    Pass(
        "norms of images by kernels",
        by_rules(lambda draft, setting: joined_norms.make_rules(setting.library[CHANNEL_NORMS])),
        lambda setting: trains(setting) and may_use(CHANNEL_NORMS)(setting),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("large_images_training", "checkpoint_images_training"),
    ),
    Pass(
        "attention in one call",
        by_rules(attention.RULES),
        infers,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("tiny_bert_inference", "tiny_gpt2_inference"),
    ),
    Pass(
        "write into buffers",
        lambda draft, setting: write_in_place(draft),
        infers,
        gains=("key_bank_inference", "generation_inference"),
    ),
    Pass(
        "pack convolutions of inference",
        lambda draft, setting: pack_convolutions(draft, setting.device_memory),
        infers,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("resnet_inference", "vit_inference"),
    ),
    Pass(
        "pack weights of inference",
        by_rules(lambda draft, setting: packed_weights.make_rules(draft, setting.device_memory)),
        infers,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("gpt2_inference", "bert_inference"),
    ),
    Pass(
        "pack recurrent layers of inference",
        by_rules(lambda draft, setting: packed_recurrent.make_rules(draft, setting.device_memory)),
        infers,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("lstm_language_inference", "small_lstm_inference"),
    ),
    Pass(
        "add rows in place",
        by_rules(ADDED_ROWS),
        is_unchecked,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("gpt2_short_training", "tied_language_training"),
    ),
    Pass(
        "stochastic rounding in one call",
        by_rules(stochastic_rounding.RULES),
        is_unchecked,
        gains=("gpt2_half_training", "perceptron_half_training"),
    ),
    Pass(
        "keep rounded values in float32",
        by_rules(ROUNDED_WIDE),
        is_unchecked,
        gains=("perceptron_half_training", "bert_exact_training"),
    ),
    Pass("drop unread weights", lambda draft, setting: draft.drop_unread_weights(), infers, needed=True),
    Pass(
        "products with half partials by a kernel",
        by_rules(
            lambda draft, setting: rounded_products.make_rules(
                setting.library[HALF_PRODUCTS][MULTIPLY_IN_HALF], updates=updates(setting)
            )
        ),
        may_use(HALF_PRODUCTS),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("bert_partials_training", "perceptron_partials_training"),
    ),
    Pass(
        "gradients of weights by a kernel",
        by_rules(
            lambda draft, setting: weight_gradients.make_rules(setting.library[WEIGHT_GRADIENTS][MULTIPLY_TRANSPOSED])
        ),
        may_use(WEIGHT_GRADIENTS),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("bert_training", "checkpoint_training"),
    ),
    Pass(
        "gelu by a kernel",
        _by_kernel(GELU, COMPUTE_GELU, gelu_kernel.make_rules),
        lambda setting: trains(setting) and may_use(GELU)(setting),
        accuracy=Accuracy.OTHER_ORDER,
        gains=("gptj_training", "gpt2_training"),
    ),
    Pass(
        "products by oneDNN",
        by_rules(lambda draft, setting: onednn_products.make_rules()),
        is_unchecked,
        accuracy=Accuracy.OTHER_ORDER,
        gains=("key_bank_inference", "checkpoint_training"),
    ),
    Pass(
        "dropout by a kernel",
        _by_kernel(DROPOUT, DROP, dropout.make_rules),
        may_use(DROPOUT),
        gains=("tiny_gpt2_training", "bert_exact_training"),
    ),
    Pass(
        "stochastic rounding by a kernel",
        lambda draft, setting: bind_rounding(draft.graph, setting.library[STOCHASTIC_ROUNDING][ROUND]),
        lambda setting: STOCHASTIC_ROUNDING in setting.library,
        gains=("perceptron_half_training", "bert_half_training"),
    ),
    # Behind all that read schemas, or whose functions may keep what they are given.
    Pass(
        "reuse dead memory",
        lambda draft, setting: reuse_memory(draft),
        is_unchecked,
        gains=("electra_training", "gpt2_classifier_inference"),
    ),
)


def list_rules() -> tuple[str, ...]:
    """Rules that may be switched off (`RunOptions.without_rules`), because they only save time; in order."""
    names: list[str] = []
    for stage in (MICRO, (), BATCHED, BOUND):
        for entry in stage:
            if entry.name == "simplify":
                names += [inner.name for inner in SIMPLIFY if not inner.needed]
            elif entry.apply is _ACCUMULATE.apply:
                names.append(ACCUMULATE_PRODUCTS)
            elif not entry.needed:
                names.append(entry.name)
        if not stage:
            names += [BATCH_MICRO_BATCHES, GROUP_UPDATES]
    return tuple(dict.fromkeys(names))


def list_updated(program: Program) -> frozenset[str]:
    """Parameters whose gradients the update reads."""
    if program.update is None:
        return frozenset()
    return frozenset(entry.name for entry in program.update.inputs_of(InputKind.GRADIENT))


def keep_results(draft: Draft, program: Program) -> None:
    """Return neither the loss nor gradients that no update reads."""
    gradients = list_updated(program)
    kept = [
        (node, entry)
        for node, entry in zip(draft.results, draft.outputs, strict=True)
        if entry.kind is not OutputKind.LOSS and (entry.kind is not OutputKind.GRADIENT or entry.name in gradients)
    ]
    draft.replace_results([node for node, _ in kept], [entry for _, entry in kept])


def count_gradients(draft: Draft, options: RunOptions) -> None:
    assert options.loss_scale_control is not None
    add_statistics(draft, options.loss_scale_control)
