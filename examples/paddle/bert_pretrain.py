"""Pre-trains a tiny BERT with PaddlePaddle over four IPUs: sharding by hand, a pipeline, accumulation, Lamb, half.

python examples/paddle/bert_pretrain.py [--steps 20] [--fp32]

The text is generated: sentences of a small grammar, some words masked.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import openipu_paddle  # noqa: F401 (puts IPUs into Paddle)
import paddle
from paddle import nn, static

WORDS, LENGTH, HIDDEN, HEADS, LAYERS = 64, 16, 32, 4, 4
MASK = WORDS - 1
MICRO_BATCH, ACCUMULATION = 2, 8


class Attention(nn.Layer):
    """Every word looks at every other."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))

    def split(self, x: Any) -> Any:
        return paddle.transpose(paddle.reshape(x, [MICRO_BATCH, LENGTH, HEADS, HIDDEN // HEADS]), [0, 2, 1, 3])

    def forward(self, x: Any) -> Any:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = paddle.matmul(query, key, transpose_y=True) * (HIDDEN // HEADS) ** -0.5
        mixed = paddle.transpose(paddle.matmul(nn.functional.softmax(scores), value), [0, 2, 1, 3])
        return self.out(paddle.reshape(mixed, [MICRO_BATCH, LENGTH, HIDDEN]))


class Block(nn.Layer):
    """Attention and a feed-forward layer, each with a norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.wide, self.narrow = (
            Attention(),
            nn.Linear(HIDDEN, 4 * HIDDEN),
            nn.Linear(4 * HIDDEN, HIDDEN),
        )
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def forward(self, x: Any) -> Any:
        x = self.first(x + self.attention(x))
        return self.second(x + self.narrow(nn.functional.gelu(self.wide(x))))


def build_model() -> Any:
    """The loss of masked words: embeddings on IPU 0, a block on each, the classifier on IPU 3."""
    words = static.data("words", [MICRO_BATCH, LENGTH], "int64")
    places = static.data("places", [MICRO_BATCH, LENGTH], "int64")
    labels = static.data("labels", [MICRO_BATCH, LENGTH, 1], "int64")
    with static.ipu_shard_guard(index=0, stage=0):
        hidden = nn.LayerNorm(HIDDEN)(nn.Embedding(WORDS, HIDDEN)(words) + nn.Embedding(LENGTH, HIDDEN)(places))
    for number in range(LAYERS):
        with static.ipu_shard_guard(index=number, stage=number):
            hidden = Block()(hidden)
    with static.ipu_shard_guard(index=3, stage=3):
        logits = nn.Linear(HIDDEN, WORDS)(hidden)
        each = nn.functional.softmax_with_cross_entropy(logits, labels, ignore_index=-100)
        return paddle.incubate.identity_loss(paddle.mean(each), reduction="none")


def make_strategy(fp16: bool) -> Any:
    """The options that IPU BERT of PaddleNLP sets, as far as they say something for a tiny model."""
    strategy = static.IpuStrategy()
    strategy.set_graph_config(num_ipus=4, is_training=True, micro_batch_size=MICRO_BATCH, enable_manual_shard=True)
    strategy.set_pipelining_config(
        enable_pipelining=True,
        batches_per_step=1,
        enable_gradient_accumulation=True,
        accumulation_factor=ACCUMULATION,
    )
    strategy.set_precision_config(enable_fp16=fp16)
    strategy.set_options(
        {
            "loss_scaling": 128.0,
            "max_weight_norm": 65504.0,
            "available_memory_proportion": 0.28,
            "enable_half_partial": True,
            "auto_recomputation": 3,
            "enable_stochastic_rounding": False,
            "enable_prefetch_datastreams": True,
            "enable_outlining": True,
            "subgraph_copying_strategy": 1,
            "outline_threshold": 10.0,
            "accumulate_outer_fragment": {0: []},
            "group_host_sync": True,
            "disable_grad_accumulation_tensor_streams": True,
            "schedule_non_weight_update_gradient_consumers_early": True,
            "cache_path": "paddle_cache",
            "random_seed": 42,
        }
    )
    strategy.enable_pattern("TiedGather")
    return strategy


def draw_batch(draw: np.random.RandomState) -> dict[str, np.ndarray]:
    """Sentences in which each word is the one before it plus the sentence's own step; one word in six is masked."""
    count = MICRO_BATCH * ACCUMULATION
    start, step = draw.randint(0, WORDS - 1, (count, 1)), draw.randint(1, 4, (count, 1))
    words = (start + step * np.arange(LENGTH)) % (WORDS - 1)
    masked = draw.rand(count, LENGTH) < 1 / 6
    labels = np.where(masked, words, -100)
    places = np.tile(np.arange(LENGTH), (count, 1))
    return {"words": np.where(masked, MASK, words), "places": places, "labels": labels[..., None]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--fp32", action="store_true", help="compute in float32")
    arguments = parser.parse_args()
    paddle.enable_static()
    paddle.seed(42)
    main_program, startup = static.Program(), static.Program()
    with static.program_guard(main_program, startup):
        loss = build_model()
        rate = paddle.optimizer.lr.PolynomialDecay(learning_rate=2e-2, decay_steps=400, end_lr=1e-3)
        optimizer = paddle.optimizer.Lamb(learning_rate=rate, lamb_weight_decay=0.01)
        optimizer.minimize(loss)
    executor = static.Executor(paddle.IPUPlace())
    executor.run(startup)
    if not arguments.fp32:
        lists = static.amp.CustomOpLists()
        lists.unsupported_list = {"scale"}
        halved = static.amp.cast_model_to_fp16(main_program, lists, use_fp16_guard=False)
        static.amp.cast_parameters_to_fp16(paddle.CPUPlace(), main_program, to_fp16_var_names=halved)
    compiler = static.IpuCompiledProgram(main_program, ipu_strategy=make_strategy(not arguments.fp32))
    program = compiler.compile(["words", "places", "labels"], [loss.name])
    draw = np.random.RandomState(0)
    for step in range(arguments.steps):
        (losses,) = executor.run(program, feed=draw_batch(draw), fetch_list=[loss])
        if step % 10 == 0 or step == arguments.steps - 1:
            print(f"step {step}: loss {losses.astype('float32').mean():.4f}, rate {rate.last_lr:.5f}")
        rate.step()
    compiler._backend.weights_to_host()


if __name__ == "__main__":
    main()
