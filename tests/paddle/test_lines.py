"""Each op of a program, of its plan and of an error names the line of the script that made it."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np
import pytest

import paddle
from models import build, make_strategy
from openipu.errors import TranslationError
from paddle import static


def network():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "float32")
    wide = static.nn.fc(x, 4)
    hidden = paddle.tanh(wide)
    found = static.nn.fc(hidden, 1)
    return paddle.mean((found - y) ** 2)


def compile_network(make, optimizer=None):
    main, startup, result = build(make, optimizer)
    scope = static.Scope()
    with static.scope_guard(scope):
        static.Executor(paddle.CPUPlace()).run(startup)
        strategy = make_strategy(training=optimizer is not None)
        compiler = static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy)
        compiler.compile(["x", "y"], [result])
        current = compiler._backend.current
        if current.compiled is None:
            current.run({"x": np.zeros((2, 3), "float32"), "y": np.zeros((2, 1), "float32")}, [])
        return current.compiled


def quote(op):
    assert Path(op.line.file) == Path(__file__)
    return linecache.getline(op.line.file, op.line.line).strip()


def test_ops_of_a_plan_name_the_lines_of_the_script():
    plan = compile_network(network, lambda: paddle.optimizer.SGD(learning_rate=0.1)).plan
    quoted = {op.op.removeprefix("aten."): quote(op) for op in plan.ops if op.line is not None}
    assert quoted["tanh.default"] == "hidden = paddle.tanh(wide)"
    products = {text for op, text in quoted.items() if op.startswith(("mm.", "addmm."))}
    assert products <= {"wide = static.nn.fc(x, 4)", "found = static.nn.fc(hidden, 1)"}
    assert products
    assert quoted["tanh_backward.default"] == quoted["tanh.default"]
    assert "return paddle.mean((found - y) ** 2)" in quoted.values()


def unknown():
    x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 1], "float32")
    return paddle.mean(paddle.nn.functional.rrelu(x) * y)


def test_an_op_that_is_not_translated_is_refused_with_the_line_that_made_it():
    with pytest.raises(TranslationError, match=r"rrelu") as caught:
        compile_network(unknown)
    assert "return paddle.mean(paddle.nn.functional.rrelu(x) * y)" in str(caught.value)
