"""The ways in which IPUs come into Paddle, in processes of their own; and the names that they bring."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import openipu_paddle
import paddle
from models import image_feeds
from paddle import static

ASK = "import paddle; print(paddle.is_compiled_with_ipu(), paddle.get_flags(['FLAGS_enable_pir_api']))"


def ask(*command, **environment):
    clean = {
        name: value for name, value in os.environ.items() if name not in ("OPENIPU_PADDLE", "FLAGS_enable_pir_api")
    }
    done = subprocess.run(
        [sys.executable, *command],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    return done.stdout


def test_the_variable_switches_it_on_and_nothing_else_does():
    assert "True {'FLAGS_enable_pir_api': False}" in ask("-c", ASK, OPENIPU_PADDLE="1")
    assert "False {'FLAGS_enable_pir_api': True}" in ask("-c", ASK)


def test_openipu_run_switches_it_on(tmp_path):
    (tmp_path / "script.py").write_text(ASK)
    assert "True {'FLAGS_enable_pir_api': False}" in ask("-m", "openipu", "run", str(tmp_path / "script.py"))


def test_activating_twice_changes_nothing():
    run = static.Executor.run
    openipu_paddle.activate()
    assert static.Executor.run is run


def test_devices_are_those_of_the_pod():
    assert paddle.base.core.get_ipu_device_count() >= 1
    assert "ipu:0" in repr(paddle.set_device("ipu"))
    paddle.set_device("cpu")


def test_a_script_of_2022_builds_with_fluid():
    from paddle import fluid

    main, startup = fluid.Program(), fluid.Program()
    with paddle.utils.unique_name.guard(), fluid.program_guard(main, startup):
        image = fluid.data("image", [8, 1, 28, 28], "float32")
        label = fluid.data("label", [8, 1], "int64")
        hidden = fluid.nets.simple_img_conv_pool(image, 4, 5, 2, 2, act="relu")
        prediction = fluid.layers.fc(fluid.layers.batch_norm(hidden), 10, act="softmax")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, label))
        fluid.optimizer.Adam(learning_rate=1e-3).minimize(loss)
    scope = static.Scope()
    with static.scope_guard(scope):
        executor = fluid.Executor(fluid.IPUPlace())
        executor.run(startup)
        strategy = fluid.IpuStrategy()
        program = fluid.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(["image", "label"], [loss])
        feed = image_feeds(1)[0]
        losses = [executor.run(program, feed=feed, fetch_list=[loss])[0][0] for _ in range(5)]
    assert np.all(np.diff(losses) < 0)


def test_to_static_trains_as_the_dynamic_mode_does():
    def train(on_ipu):
        paddle.seed(5)
        model = paddle.nn.Linear(3, 1)
        optimizer = paddle.optimizer.Adam(learning_rate=0.05, parameters=model.parameters())

        def step(x, y):
            return paddle.mean((model(x) - y) ** 2)

        call = paddle.jit.to_static(step, full_graph=True)
        draw = np.random.RandomState(0)
        x, y = (paddle.to_tensor(draw.rand(4, size).astype("float32")) for size in (3, 1))
        losses = []
        if on_ipu:
            strategy = static.IpuStrategy()
            strategy.set_graph_config(is_training=True, micro_batch_size=4)
            strategy.set_optimizer(optimizer)
        for _ in range(10):
            loss = call(x, y)
            losses.append(float(np.ravel(loss.numpy())[0]))
            if not on_ipu:
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
        if on_ipu:
            strategy.release_patch()
        return losses, [value.numpy() for value in model.parameters()]

    paddle.disable_static()
    try:
        (wanted, kept), (found, held) = train(False), train(True)
    finally:
        paddle.enable_static()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for own, other in zip(held, kept, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-6)
