"""Each op of Paddle's table against what Paddle computed: values that `record_paddle.py` wrote down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from openipu.errors import TranslationError
from openipu.graph import RunOptions
from openipu.session import plan_model
from openipu.translate.foreign import TensorType
from openipu.translate.paddle.building import build_graph
from openipu.translate.paddle.legacy import read_legacy
from openipu.translate.paddle.module import PaddleModule
from openipu.translate.paddle.table import TABLE

VALUES = np.load(Path(__file__).parent / "paddle_values.npz")
NAMES = sorted({name.split("/")[0] for name in VALUES.files})


def open_case(name):
    """The module of a case, its inputs and the results that Paddle has."""
    program = read_legacy(VALUES[f"{name}/program"].tobytes())
    inputs = {key.split("/")[2]: torch.from_numpy(VALUES[key]) for key in VALUES.files if key.startswith(f"{name}/in/")}
    wanted = {key.split("/")[2]: VALUES[key] for key in VALUES.files if key.startswith(f"{name}/out/")}
    feeds = {key: TensorType(value.dtype, tuple(value.shape)) for key, value in inputs.items()}
    graph = build_graph(program, program.main.ops, feeds, list(wanted)).graph
    return PaddleModule(graph, {}), inputs, wanted


@pytest.mark.parametrize("name", NAMES)
def test_an_op_computes_what_paddle_does(name):
    module, inputs, wanted = open_case(name)
    results = module(*inputs.values())
    for result, (key, value) in zip(results, wanted.items(), strict=True):
        assert tuple(result.shape) == value.shape, key
        np.testing.assert_allclose(result.numpy(), value, rtol=2e-6, atol=5e-6, err_msg=key)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(("shape", "fill_constant"))])
def test_an_op_is_captured_and_planned(name):
    module, inputs, wanted = open_case(name)
    empty = [value.to("meta") for value in inputs.values()]
    program, plan = plan_model(module, empty, options=RunOptions())
    shapes = [entry.shape for entry in program.micro.outputs if entry.kind.value == "output"]
    assert shapes == [value.shape for value in wanted.values()]
    assert plan.fit.fits


def test_identity_which_paddle_itself_has_only_on_ipus_hands_its_input_through():
    name = next(name for name in NAMES if name.endswith(" softsign"))
    program = read_legacy(VALUES[f"{name}/program"].tobytes().replace(b"softsign", b"identity"))
    x = torch.from_numpy(VALUES[f"{name}/in/X_0"])
    graph = build_graph(program, program.main.ops, {"X_0": TensorType(x.dtype, tuple(x.shape))}, ["out_Out_0"]).graph
    (found,) = PaddleModule(graph, {})(x)
    torch.testing.assert_close(found, x)


def test_an_unknown_op_is_named():
    program = read_legacy(VALUES[f"{NAMES[0]}/program"].tobytes().replace(b"abs", b"abz"))
    graph = build_graph(program, program.main.ops, {"X_0": TensorType(torch.float32, (2, 5))}, ["out_Out_0"]).graph
    with pytest.raises(TranslationError, match=r"paddle\.abz"):
        PaddleModule(graph, {})(torch.ones(2, 5))


def test_most_ops_of_the_table_have_a_recorded_value():
    recorded = {name.split(" ")[1] for name in NAMES}
    known = {op for _, op in TABLE.list_ops()}
    assert recorded <= known
    assert len(recorded) > 0.55 * len(known)
