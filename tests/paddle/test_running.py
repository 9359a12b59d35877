"""What `Executor.run` gives back on IPUs: shapes, batches per step, accumulation, replicas, schedules; and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import paddle
from models import image_feeds, make_strategy, run_steps, smooth
from openipu.errors import InputError, OptionError, TranslationError
from paddle import static


def sgd():
    return paddle.optimizer.SGD(learning_rate=0.05)


def join(feeds):
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def test_batches_per_step_are_as_many_updates():
    feeds = image_feeds(4)
    wanted, kept = run_steps(smooth, feeds, optimizer=sgd)
    strategy = make_strategy(options={"batches_per_step": 4})
    found, held = run_steps(smooth, [join(feeds)], optimizer=sgd, strategy=strategy, on_ipu=True)
    assert found[0].shape == (4,)
    np.testing.assert_allclose(found[0], np.ravel(wanted), rtol=1e-5)
    for name, value in kept.items():
        np.testing.assert_allclose(held[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def linear():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "float32")
    return paddle.mean((static.nn.fc(x, 1) - y) ** 2)


def linear_feeds(steps, batch):
    draw = np.random.RandomState(0)
    return [
        {"x": draw.rand(batch, 3).astype("float32"), "y": draw.rand(batch, 1).astype("float32")} for _ in range(steps)
    ]


def large_linear():
    x, y = static.data("x", [8, 3], "float32"), static.data("y", [8, 1], "float32")
    return paddle.mean((static.nn.fc(x, 1) - y) ** 2)


@pytest.mark.parametrize("reduction", [1, 0])
def test_accumulation_and_replicas_update_like_one_large_batch(reduction):
    feeds = linear_feeds(5, 8)
    rate = 0.1 if reduction else 0.1 / 4  # a sum of four gradients is four times their mean
    _, kept = run_steps(large_linear, feeds, optimizer=lambda: paddle.optimizer.SGD(learning_rate=0.1))
    options = {
        "enable_gradient_accumulation": True,
        "accumulation_factor": 2,
        "enable_replicated_graphs": True,
        "replicated_graph_count": 2,
        "accumulation_and_replication_reduction_type": reduction,
    }
    strategy = make_strategy(num_ipus=2, options=options)
    optimizer = lambda: paddle.optimizer.SGD(learning_rate=rate)  # noqa: E731
    found, held = run_steps(linear, feeds, optimizer=optimizer, strategy=strategy, on_ipu=True)
    assert found[0].shape == (2, 2)  # replicas, accumulation
    for name, value in kept.items():
        if "learning_rate" not in name:
            np.testing.assert_allclose(held[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def sharded():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "float32")
    with static.ipu_shard_guard(index=0, stage=0):
        hidden = paddle.tanh(static.nn.fc(x, 4))
    with static.ipu_shard_guard(index=1, stage=1):
        return paddle.mean((static.nn.fc(hidden, 1) - y) ** 2)


def test_a_pipeline_over_two_ipus_computes_the_same():
    feeds = linear_feeds(6, 2)
    wanted, _ = run_steps(sharded, feeds, optimizer=sgd)
    strategy = make_strategy(num_ipus=2, enable_manual_shard=True)
    strategy.set_pipelining_config(enable_pipelining=True, batches_per_step=6)
    found, _ = run_steps(sharded, [join(feeds)], optimizer=sgd, strategy=strategy, on_ipu=True)
    np.testing.assert_allclose(found[0], np.ravel(wanted), rtol=1e-5)


def test_the_learning_rate_follows_its_scheduler():
    def run(on_ipu):
        rate = paddle.optimizer.lr.ExponentialDecay(learning_rate=0.2, gamma=0.5)
        scope, main, startup = static.Scope(), static.Program(), static.Program()
        paddle.seed(1)
        with static.scope_guard(scope), paddle.utils.unique_name.guard(), static.program_guard(main, startup):
            loss = linear()
            paddle.optimizer.SGD(learning_rate=rate).minimize(loss)
            executor = static.Executor(paddle.CPUPlace())
            executor.run(startup)
            program = main
            if on_ipu:
                program = static.IpuCompiledProgram(main, ipu_strategy=make_strategy()).compile(["x", "y"], [loss])
            losses = []
            for feed in linear_feeds(6, 2):
                losses.append(float(np.ravel(executor.run(program, feed=feed, fetch_list=[loss])[0])[0]))
                rate.step()
        return losses

    np.testing.assert_allclose(run(True), run(False), rtol=1e-5)


def test_loss_scaling_is_undone_in_the_update():
    feeds = linear_feeds(5, 2)
    _, kept = run_steps(linear, feeds, optimizer=sgd)
    _, held = run_steps(
        linear, feeds, optimizer=sgd, strategy=make_strategy(options={"loss_scaling": 1024.0}), on_ipu=True
    )
    for name, value in kept.items():
        np.testing.assert_allclose(held[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_an_evaluation_changes_nothing():
    feeds = linear_feeds(1, 2) * 3
    strategy = make_strategy(options={"runtime_options.enable_eval": True})
    found, _ = run_steps(linear, feeds, optimizer=sgd, strategy=strategy, on_ipu=True)
    assert len({float(loss[0]) for loss in found}) == 1


def test_wrong_options_are_named():
    strategy = static.IpuStrategy()
    with pytest.raises(OptionError, match="Did you mean 'batches_per_step'"):
        strategy.set_options({"batch_per_step": 2})
    with pytest.raises(OptionError, match="of type double"):
        strategy.set_options({"loss_scaling": 2})
    with pytest.raises(OptionError, match="from 0 to 4"):
        strategy.set_options({"auto_recomputation": 9})
    with pytest.raises(RuntimeError, match="num_ipus > 1"):
        strategy.set_graph_config(num_ipus=1, enable_manual_shard=True)
    assert strategy.get_option("batches_per_step") == 1


def test_an_ipu_that_is_not_there_is_refused():
    strategy = make_strategy(num_ipus=2, enable_manual_shard=True, options={})

    def build():
        x = static.data("x", [2, 3], "float32")
        with static.ipu_shard_guard(index=5, stage=0):
            return paddle.mean(static.nn.fc(x, 2))

    feeds = [{"x": np.ones((2, 3), "float32")}]
    with pytest.raises(OptionError, match="IPU 5"):
        run_steps(build, feeds, optimizer=sgd, strategy=strategy, on_ipu=True)


def test_wrong_feeds_are_refused():
    with pytest.raises(InputError, match="x"):
        run_steps(
            linear, [{"x": np.ones((3, 3), "float32"), "y": np.ones((2, 1), "float32")}], optimizer=sgd, on_ipu=True
        )


def test_clipping_by_value_is_refused_by_name():
    optimizer = lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByValue(0.1))  # noqa: E731
    with pytest.raises(TranslationError, match="ClipGradByGlobalNorm"):
        run_steps(linear, linear_feeds(1, 2), optimizer=optimizer, on_ipu=True)


def test_a_program_without_optimizer_cannot_train():
    with pytest.raises(TranslationError, match="minimize"):
        run_steps(linear, linear_feeds(1, 2), strategy=make_strategy(training=True), on_ipu=True)


@pytest.mark.parametrize(
    "more",
    [{}, {"clip_bbox": False, "scale_x_y": 1.2}, {"iou_aware": True, "iou_aware_factor": 0.4}, {"conf_thresh": 0.6}],
)
def test_boxes_of_a_detector_are_those_of_paddle(more):
    def detect():
        channels = 2 * (5 + 3 + int(more.get("iou_aware", False)))
        x, size = static.data("x", [2, channels, 4, 3], "float32"), static.data("size", [2, 2], "int32")
        settings = {"anchors": [10, 13, 16, 30], "class_num": 3, "conf_thresh": 0.4, "downsample_ratio": 8, **more}
        boxes, scores = paddle.vision.ops.yolo_box(x, size, **settings)
        return paddle.concat([boxes, scores], -1)

    channels = 2 * (5 + 3 + int(more.get("iou_aware", False)))
    draw = np.random.RandomState(2)
    feeds = [
        {"x": draw.randn(2, channels, 4, 3).astype("float32"), "size": np.array([[32, 24], [40, 17]], dtype="int32")}
    ]
    (wanted,), _ = run_steps(detect, feeds)
    (found,), _ = run_steps(detect, feeds, on_ipu=True)
    assert (wanted[..., 4:] == 0).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
