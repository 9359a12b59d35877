"""Exported ONNX files: what other implementations make of them, and what openipu itself makes of them again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import transformers
from export_models import Classifier, Sequences, make_images, train_eager
from onnx.reference import ReferenceEvaluator
from torch import nn

import openipu
import poptorch
from openipu.errors import ExportError
from openipu.export.onnx_file import rules, saving
from openipu.export.onnx_file.rules import TABLE
from openipu.jobs import PlanningJob
from openipu.model_files import run_file

TOKENS = torch.tensor([[1, 5, 9, 2], [3, 3, 7, 0]])


def make_bert() -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=20, **sizes)).eval()


def make_gpt2() -> Any:
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=20, use_cache=False, **sizes)).eval()


def make_vit() -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=16, patch_size=8, **sizes)).eval()


CASES: dict[str, tuple[Any, dict[str, torch.Tensor]]] = {
    "cnn": (lambda: Classifier().eval(), {"image": make_images()[0]}),
    "lstm": (lambda: Sequences().eval(), {"steps": torch.randn(2, 5, 4)}),
    "gru": (lambda: Sequences(nn.GRU).eval(), {"steps": torch.randn(2, 5, 4)}),
    "bert": (make_bert, {"input_ids": TOKENS, "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}),
    "gpt2": (make_gpt2, {"input_ids": TOKENS}),
    "vit": (make_vit, {"pixel_values": make_images()[0]}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_gives_its_results_in_onnx_and_back_in_openipu(tmp_path: Path, case: str) -> None:
    torch.manual_seed(0)
    make, inputs = CASES[case]
    model = make()
    report = openipu.export_program(PlanningJob(model=model, kwargs=inputs, name=case), tmp_path / "m.onnx")
    assert [entry.what for entry in report.comparisons] == ["outputs"]
    with torch.no_grad():
        expected = model(**inputs)
    expected = expected if isinstance(expected, torch.Tensor) else expected[0]
    evaluator = ReferenceEvaluator(str(tmp_path / "m.onnx"))
    found = evaluator.run(None, {name: inputs[name].numpy() for name in evaluator.input_names})
    torch.testing.assert_close(torch.as_tensor(found[0]), expected, rtol=1e-4, atol=1e-5)
    again = run_file(tmp_path / "m.onnx", inputs)
    torch.testing.assert_close(next(iter(again.values())), expected, rtol=1e-4, atol=1e-5)


def test_half_stays_half(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).half()
    x = torch.randn(4, 8).half()
    openipu.export_program(PlanningJob(model=model, args=x), tmp_path / "m.onnx")
    exported = onnx.load(tmp_path / "m.onnx")
    assert {tensor.data_type for tensor in exported.graph.initializer if tensor.dims} >= {onnx.TensorProto.FLOAT16}
    (found,) = ReferenceEvaluator(exported).run(None, {"input": x.numpy()})
    assert found.dtype.name == "float16"
    torch.testing.assert_close(torch.as_tensor(found), model(x), rtol=2e-2, atol=2e-2)


def test_training_in_onnx_gives_the_losses_of_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = Classifier(groups=1)  # ONNX's own evaluator knows no transposed convolution in groups
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    job = PlanningJob(model=model, args=make_images(), training=True, optimizer=optimizer)
    report = openipu.export_program(job, tmp_path / "m.onnx")
    assert [file.name for file in report.files] == ["m.onnx", "m.update.onnx"]
    micro, update = (ReferenceEvaluator(str(file)) for file in report.files)
    held: dict[str, Any] = {}
    losses = []
    for seed in range(3):
        image, label = make_images(seed)
        given = {"image": image.numpy(), "label": label.numpy()}
        found = _run(micro, {**given, **{name: value for name, value in held.items() if name in micro.input_names}})
        losses.append(float(found["loss"]))
        gradients = {name: value for name, value in found.items() if name.startswith("gradient:")}
        after = _run(update, {**gradients, **{key: value for key, value in held.items() if key in update.input_names}})
        held |= {name.removeprefix("new:"): value for name, value in {**found, **after}.items() if "new:" in name}
    batches = [make_images(seed) for seed in range(3)]
    expected = train_eager(eager, torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9), batches)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(torch.as_tensor(held[name]), value, rtol=1e-3, atol=1e-4, msg=name)


def _run(evaluator: ReferenceEvaluator, feeds: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(evaluator.output_names, evaluator.run(None, feeds), strict=True))


def test_a_recurrent_layer_in_training_is_written_out_with_its_gradients(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = Sequences()
    batch = (torch.randn(2, 3, 4), torch.tensor([0, 2]))
    expected = torch.autograd.grad(model(*batch)[1], list(model.parameters()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    job = PlanningJob(model=model, args=batch, training=True, optimizer=optimizer)
    openipu.export_program(job, tmp_path / "m.onnx", check=False)
    feeds = {"steps": batch[0].numpy(), "label": batch[1].numpy()}
    found = _run(ReferenceEvaluator(str(tmp_path / "m.onnx")), feeds)
    for (name, _), gradient in zip(model.named_parameters(), expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(found[f"gradient:{name}"]), gradient, rtol=1e-3, atol=1e-5)


def test_stages_and_ipus_stand_at_the_nodes_of_a_pipelined_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    model[2] = poptorch.BeginBlock(model[2], ipu_id=1)
    executor = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))
    x = torch.randn(2, 4)
    expected = executor(x)
    openipu.export_program(executor, tmp_path / "m.onnx")
    exported = onnx.load(tmp_path / "m.onnx")
    products = [node.doc_string for node in exported.graph.node if node.op_type == "MatMul"]
    assert "IPU" not in products[0]
    assert products[1].endswith("IPU 1, stage 1")
    (found,) = ReferenceEvaluator(exported).run(None, {"input": x[:1].numpy()})  # one micro-batch
    torch.testing.assert_close(torch.as_tensor(found), expected[:1], rtol=1e-5, atol=1e-6)


def test_loops_and_branches_become_onnxs(tmp_path: Path) -> None:
    class Looping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))

        def forward(self, x: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
            (looped,) = poptorch.for_loop(3, lambda value: value * self.weight + 1, [x])
            return poptorch.cond(choice, lambda v: v + 100, [looped], lambda v: v - 100, [looped])[0]

    executor = poptorch.inferenceModel(Looping())
    executor(torch.ones(2), torch.tensor([True]))
    openipu.export_program(executor, tmp_path / "m.onnx")
    exported = onnx.load(tmp_path / "m.onnx")
    assert {"Loop", "If"} <= {node.op_type for node in exported.graph.node}
    evaluator = ReferenceEvaluator(exported)
    for choice, shift in ((True, 100.0), (False, -100.0)):
        feeds = {"x": torch.ones(2).numpy(), "choice": torch.tensor([choice]).numpy()}
        (found,) = evaluator.run(None, feeds)
        assert found.tolist() == [15.0 + shift, 40.0 + shift]  # ((1 * 2 + 1) * 2 + 1) * 2 + 1; with 3: 4, 13, 40


def test_random_numbers_are_compared_by_shape_and_said_to_be(tmp_path: Path) -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x) + F.dropout(x, 0.5, training=True)

    report = openipu.export_program(PlanningJob(model=Noise(), args=torch.ones(1000)), tmp_path / "m.onnx")
    assert str(report.comparisons[0]) == "outputs: 1 results of the right shapes; their values are random"
    (found,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": torch.ones(1000).numpy()})
    assert 1.7 < found.mean() < 2.3  # 1 + noise of mean 0 + a half of the elements times 2


def test_weights_that_are_too_large_for_one_file_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "LARGEST_FILE", 1000)
    model = nn.Linear(64, 64)
    report = openipu.export_program(PlanningJob(model=model, args=torch.ones(1, 64)), tmp_path / "m.onnx")
    assert [file.name for file in report.files] == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 64 * 4
    (found,) = run_file(tmp_path / "m.onnx", {"input": torch.ones(1, 64)}).values()
    torch.testing.assert_close(found, model(torch.ones(1, 64)), rtol=1e-5, atol=1e-5)


def test_an_op_without_a_counterpart_is_refused_with_the_users_line(tmp_path: Path) -> None:
    class Decomposing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x)

    with pytest.raises(
        ExportError, match=r"_linalg_svd.*no counterpart in ONNX, at .*test_onnx_files\.py:\d+ in forward"
    ):
        openipu.export_program(PlanningJob(model=Decomposing(), args=torch.eye(3)), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_rule_is_found_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**TABLE, "aten.relu": TABLE["aten.sigmoid"]}
    monkeypatch.setattr(rules, "TABLE", wrong)
    with pytest.raises(ExportError, match="computes outputs 'output_0' otherwise than openipu: the largest difference"):
        openipu.export_program(PlanningJob(model=nn.ReLU(), args=torch.randn(5)), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_onnx_has_not_is_said(tmp_path: Path) -> None:
    class Bytes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.uint16)

    with pytest.raises(ExportError, match=r"no number format for torch\.uint16"):
        openipu.export_program(PlanningJob(model=Bytes(), args=torch.ones(2)), tmp_path / "m.onnx")
