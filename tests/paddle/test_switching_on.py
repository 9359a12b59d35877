"""The ways in which IPUs come into Paddle, in processes of their own; and the names that they bring."""

from __future__ import annotations

import os
import subprocess
import sys

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


TODAY = """
import numpy as np
import paddle
SECOND
paddle.enable_static()
paddle.seed(4)
x, y = paddle.static.data("x", [4, 3], "float32"), paddle.static.data("y", [4, 1], "int64")
net = paddle.nn.Sequential(paddle.nn.Linear(3, 8), paddle.nn.GELU(), paddle.nn.LayerNorm(8), paddle.nn.Linear(8, 2))
logits = net(paddle.exp(x))
loss = paddle.nn.functional.cross_entropy(logits, y)
paddle.optimizer.AdamW(0.01).minimize(loss)
executor = paddle.static.Executor(paddle.IPUPlace())
executor.run(paddle.static.default_startup_program())
compiler = paddle.static.IpuCompiledProgram(ipu_strategy=paddle.static.IpuStrategy())
program = compiler.compile([x, y], [loss])
feed = {"x": np.linspace(0, 1, 12, dtype="float32").reshape(4, 3), "y": np.array([[0], [1], [1], [0]])}
losses = [float(executor.run(program, feed=feed, fetch_list=[loss])[0][0]) for _ in range(4)]
print("form", type(paddle.static.default_main_program()).__module__, "losses", [round(loss, 5) for loss in losses])
"""


def test_a_script_of_today_runs_in_both_forms_however_it_is_switched_on(tmp_path):
    script, second = tmp_path / "script.py", tmp_path / "second.py"
    script.write_text(TODAY.replace("SECOND", ""))
    second.write_text(TODAY.replace("SECOND", "import openipu_paddle"))
    legacy = ask("-m", "openipu", "run", str(script))
    chosen = ask("-m", "openipu", "run", str(script), FLAGS_enable_pir_api="1")
    later = ask(str(second))  # Paddle was imported first: its own choice stays
    forms = [found.partition("form ")[2].split()[0] for found in (legacy, chosen, later)]
    assert forms == ["paddle.base.framework", "paddle.base.libpaddle.pir", "paddle.base.libpaddle.pir"]
    losses = {found.partition("losses ")[2].splitlines()[0] for found in (legacy, chosen, later)}
    assert len(losses) == 1
    values = [float(word) for word in losses.pop().strip("[]").split(", ")]
    assert values == sorted(values, reverse=True)


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
    assert losses[-1] < losses[0]
