"""Trains a classifier of digits with PaddlePaddle on an IPU, verifies it and saves it for inference.

python examples/paddle/mnist_train.py [--epochs 12]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import digits
import numpy as np

import openipu_paddle  # noqa: F401 (puts IPUs into Paddle)
import paddle
from paddle import static

HERE = Path(__file__).parent
BATCH, BATCHES_PER_STEP = 8, 8


def build_model() -> tuple[Any, Any, Any, Any]:
    """Image, label, prediction and loss."""
    image = static.data(name="img", shape=[-1, 1, 28, 28], dtype="float32")
    label = static.data(name="label", shape=[-1, 1], dtype="int64")
    hidden = static.nn.conv2d(image, num_filters=20, filter_size=5, act="relu")
    hidden = paddle.nn.functional.max_pool2d(hidden, kernel_size=2, stride=2)
    hidden = static.nn.batch_norm(hidden)
    hidden = static.nn.conv2d(hidden, num_filters=50, filter_size=5, act="relu")
    hidden = paddle.nn.functional.max_pool2d(hidden, kernel_size=2, stride=2)
    prediction = static.nn.fc(hidden, size=10, activation="softmax")
    loss = paddle.mean(paddle.nn.functional.cross_entropy(prediction, label, use_softmax=False))
    return image, label, prediction, loss


def compile_for_ipu(program: Any, feeds: list[str], fetches: list[str], *, training: bool) -> tuple[Any, Any]:
    """The program for one IPU, and its compiler, which knows the way of the weights."""
    strategy = static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=training, micro_batch_size=BATCH)
    strategy.set_pipelining_config(batches_per_step=BATCHES_PER_STEP)
    if training:
        strategy.set_options({"compilation_progress_logger": show_progress})
    print("start compiling model for ipu, it will need some minutes")
    compiler = static.IpuCompiledProgram(program, ipu_strategy=strategy)
    compiled = compiler.compile(feeds, fetches)
    print("finish model compiling!")
    return compiled, compiler


def show_progress(progress: int, total: int) -> None:
    if progress and progress % 20 == 0:
        print(f"Graph compilation: {progress}/{total}")


def list_steps(images: np.ndarray, labels: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Whole steps; what is left over is left out."""
    size = BATCH * BATCHES_PER_STEP
    starts = range(0, len(images) - size + 1, size)
    return [{"img": images[start : start + size], "label": labels[start : start + size]} for start in starts]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    paddle.enable_static()
    paddle.seed(2022)
    training, verification = digits.load()
    main_program, startup = static.Program(), static.Program()
    with static.program_guard(main_program, startup):
        image, label, prediction, loss = build_model()
        test_program = main_program.clone(for_test=True)
        paddle.optimizer.Adam(learning_rate=1e-3).minimize(loss)
    executor = static.Executor(paddle.IPUPlace())
    executor.run(startup)
    feeds, fetches = [image.name, label.name], [prediction.name, loss.name]

    print("start training")
    program, compiler = compile_for_ipu(main_program, feeds, fetches, training=True)
    draw = np.random.RandomState(0)
    step = 0
    for _ in range(arguments.epochs):
        order = draw.permutation(len(training[0]))
        for feed in list_steps(training[0][order], training[1][order]):
            _, losses = executor.run(program, feed=feed, fetch_list=fetches)
            if step % 40 == 0:
                print(f"step: {step}, loss: {np.mean(losses)}")
            step += 1
    print("finish training!")
    compiler._backend.weights_to_host()

    print("start verifying")
    program, _ = compile_for_ipu(test_program, feeds, fetches, training=False)
    right = []
    for feed in list_steps(*verification):
        found, _ = executor.run(program, feed=feed, fetch_list=fetches)
        right.append(np.argmax(found.reshape(-1, 10), 1) == feed["label"].reshape(-1))
    print(f"top1 score: {np.mean(right)}")
    (HERE / "model").mkdir(exist_ok=True)
    with static.program_guard(test_program):
        path = str(HERE / "model" / "mnist")
        static.save_inference_model(
            path, [image], [test_program.global_block().var(prediction.name)], executor, program=test_program
        )


if __name__ == "__main__":
    main()
