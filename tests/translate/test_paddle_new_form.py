"""Paddle's new form without Paddle: recorded programs compute the recorded values, damaged ones are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from openipu.errors import OpenIpuError, TranslationError
from openipu.jobs import capture_job
from openipu.model_files import load_file_job
from openipu.translate.foreign import TensorType
from openipu.translate.paddle.building import build_graph
from openipu.translate.paddle.module import PaddleModule
from openipu.translate.paddle.pir import read_pir
from openipu.translate.paddle.pir_table import ADAPTERS
from openipu.translate.paddle.table import TABLE

FOLDER = Path(__file__).parent
VALUES, PROGRAMS = np.load(FOLDER / "paddle_values.npz"), np.load(FOLDER / "paddle_new_form.npz")
NAMES = sorted({name.split("/")[0] for name in PROGRAMS.files})
CONVOLUTION = next(name for name in NAMES if name.endswith(" conv2d"))


def read_content(name):
    return PROGRAMS[f"{name}/new"].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_an_op_of_the_new_form_computes_what_paddle_does(name):
    read = read_pir(read_content(name))
    inputs = {key.split("/")[2]: torch.from_numpy(VALUES[key]) for key in VALUES.files if key.startswith(f"{name}/in/")}
    wanted = [VALUES[key] for key in VALUES.files if key.startswith(f"{name}/out/")]
    fetches = list(dict.fromkeys(each for place in PROGRAMS[f"{name}/fetched"].tolist() for each in read.names[place]))
    feeds = {key: TensorType(value.dtype, tuple(value.shape)) for key, value in inputs.items()}
    ops = [op for op in read.program.main.ops if op.type not in ("feed", "fetch")]
    results = PaddleModule(build_graph(read.program, ops, feeds, fetches).graph, {})(*inputs.values())
    for result, value in zip(results, wanted, strict=True):
        assert tuple(result.shape) == value.shape
        np.testing.assert_allclose(result.numpy(), value, rtol=2e-6, atol=5e-6)


def test_every_adapter_leads_to_a_rule_or_an_optimizer():
    from openipu.translate.paddle.optimizers import OPTIMIZERS

    known = {op for _, op in TABLE.list_ops()} | OPTIMIZERS
    assert {adapter.type for adapter in ADAPTERS.values()} <= known


def test_a_transformer_is_captured_without_paddle():
    job = load_file_job(FOLDER / "paddle_transformer.json")  # as `tests/paddle/new_form.py` saves it
    program = capture_job(job)
    assert [entry.shape for entry in program.micro.outputs if entry.kind.value == "output"] == [(2, 8, 20)]


def write_model(folder, change=lambda ops: ops):
    """A convolution as a saved model."""
    document = json.loads(read_content(CONVOLUTION))
    ops = document["program"]["regions"][0]["blocks"][0]["ops"]
    number = int(PROGRAMS[f"{CONVOLUTION}/fetched"][0])
    name = {"N": "name", "AT": {"#": "0.a_str", "D": "result"}}
    ops.append({"#": "1.fetch", "A": [name], "I": [{"%": number}], "O": [], "OA": []})
    document["program"]["regions"][0]["blocks"][0]["ops"] = change(ops)
    path = folder / "model.json"
    path.write_text(json.dumps(document))
    return path


def test_a_model_file_is_a_planning_job(tmp_path):
    job = load_file_job(write_model(tmp_path))
    assert [tuple(entry.shape) for entry in job.args] == [
        VALUES[f"{CONVOLUTION}/in/{name}"].shape for name in ("Input_0", "Filter_0")
    ]
    assert job.model.graph.outputs == ("result",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"[]", "holds what it should not"),
        (b'{"base_code": {"magic": "onnx"}}', "is not a program of Paddle"),
        (b'{"base_code": {"magic": "pir", "version": 99}}', "version 99"),
        (b'{"base_code": {"magic": "pir", "version": 1}}', "is damaged"),
    ],
)
def test_a_file_that_is_no_program_is_refused(tmp_path, content, said):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(TranslationError, match=said):
        load_file_job(path)


def test_an_unknown_op_is_named(tmp_path):
    def change(ops):
        return [{**op, "#": "1.conv9d" if op["#"] == "1.conv2d" else op["#"]} for op in ops]

    job = load_file_job(write_model(tmp_path, change))
    with pytest.raises(TranslationError, match=r"paddle\.conv9d"):
        job.model(*[torch.ones(entry.shape) for entry in job.args])


@pytest.mark.parametrize(
    ("name", "more", "said"), [("2.yield", {}, r"cf\.yield"), ("1.if", {"regions": [{"blocks": []}]}, r"pd_op\.if")]
)
def test_control_flow_is_refused_by_name(tmp_path, name, more, said):
    def change(ops):
        return [{**op, "#": name, **more} if op["#"] == "1.conv2d" else op for op in ops]

    with pytest.raises(TranslationError, match=said):
        load_file_job(write_model(tmp_path, change))


def test_a_value_that_nothing_makes_is_refused(tmp_path):
    with pytest.raises(TranslationError, match="nothing before it makes"):
        load_file_job(write_model(tmp_path, lambda ops: ops[1:]))


def test_mutated_files_make_errors_and_no_crash(tmp_path):
    draw = random.Random(5)
    content = write_model(tmp_path).read_bytes()
    path, refused = tmp_path / "mutated.json", 0
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(changed))
            changed[place : place + draw.randint(0, 3)] = draw.choice(
                [b"", b"0", b"-1", b"null", b"{}", b"[]", b"99999999999", b'"', b"true", b"1e999"]
            )
        path.write_bytes(changed)
        try:
            load_file_job(path)
        except OpenIpuError:
            refused += 1
    assert refused > 100
