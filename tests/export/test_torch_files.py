"""Exported PyTorch files compute what the model itself computes, without openipu."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from export_models import Classifier, Sequences, import_file, make_images, train_eager
from torch import nn

import openipu
import poptorch
from openipu.errors import ExportError, OptionError
from openipu.export import export_snapshot, snapshot_job
from openipu.export.torch_file import functions
from openipu.export.torch_file.expressions import write_call
from openipu.graph import Reduction, RunOptions
from openipu.jobs import PlanningJob
from openipu.model_files import load_file_job


def test_an_inference_file_gives_the_models_results_and_runs_where_openipu_cannot_be_imported(tmp_path: Path) -> None:
    model, (images, _) = Classifier().eval(), make_images()
    report = openipu.export_program(PlanningJob(model=model, args=images), tmp_path / "model.py")
    assert [file.name for file in report.files] == ["model.py", "model.pt"]
    assert report.comparisons[0].difference <= 1e-6  # by a process of its own, in which `import openipu` fails
    exported = import_file(report.files[0])
    torch.testing.assert_close(exported(images), model(images), rtol=1e-5, atol=1e-6)
    assert "openipu" not in re.sub(r'""".*?"""', "", report.files[0].read_text(), flags=re.DOTALL)


def test_its_weights_are_named_as_the_models_so_that_either_loads_the_others(tmp_path: Path) -> None:
    model, (images, _) = Classifier().eval(), make_images()
    files = openipu.export_program(PlanningJob(model=model, args=images), tmp_path / "m.py", check=False).files
    exported, other = import_file(files[0]), Classifier().eval()
    exported.load_state_dict(other.state_dict())
    torch.testing.assert_close(exported(images), other(images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["sgd", "adamw", "rmsprop"])
def test_three_train_steps_give_the_losses_and_weights_of_pytorch(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(1)
    model = Classifier()
    make = {
        "sgd": lambda of: torch.optim.SGD(of.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01),
        "adamw": lambda of: torch.optim.AdamW(of.parameters(), lr=0.01),
        "rmsprop": lambda of: torch.optim.RMSprop(of.parameters(), lr=0.01),
    }[kind]
    eager = copy.deepcopy(model)
    job = PlanningJob(model=model, args=make_images(), training=True, optimizer=make(model))
    exported = import_file(openipu.export_program(job, tmp_path / "m.py", check=False).files[0])
    batches = [make_images(seed) for seed in range(3)]
    expected = train_eager(eager, make(eager), batches)
    found = [float(exported.train_step(*batch)[1]) for batch in batches]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    for name, value in exported.state_dict().items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-3, atol=1e-4, msg=name)


def test_accumulated_gradients_are_averaged_as_the_options_say(tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 3))

    class WithLoss(nn.Module):
        def __init__(self, body: nn.Module) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = self.body(x)
            return scores, F.mse_loss(scores, y)

    whole = WithLoss(model)
    eager = copy.deepcopy(whole)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.5)
    job = PlanningJob(
        model=whole,
        args=(torch.randn(2, 4), torch.randn(2, 3)),
        training=True,
        optimizer=optimizer,
        options=RunOptions(training=True, gradient_accumulation=3, reduction=Reduction.MEAN),
    )
    report = openipu.export_program(job, tmp_path / "m.py")
    assert [entry.what for entry in report.comparisons] == ["outputs", "weights after 3 updates"]
    exported = import_file(report.files[0])
    batches = [(torch.randn(6, 4), torch.randn(6, 3)) for _ in range(3)]
    expected = train_eager(eager, torch.optim.SGD(eager.parameters(), lr=0.5), batches, parts=3)
    found = [float(result[1]) for batch in batches for result in exported.train_step(*batch)]
    assert len(found) == 9
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_carry_their_kernels_along(tmp_path: Path, kind: type[nn.Module]) -> None:
    torch.manual_seed(3)
    model = Sequences(kind)
    eager = copy.deepcopy(model)
    batch = (torch.randn(2, 5, 4), torch.tensor([0, 2]))
    job = PlanningJob(model=model, args=batch, training=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    exported = import_file(openipu.export_program(job, tmp_path / "m.py", check=False).files[0])
    expected = train_eager(eager, torch.optim.SGD(eager.parameters(), lr=0.1), [batch] * 3)
    found = [float(exported.train_step(*batch)[1]) for _ in range(3)]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_a_trained_poptorch_model_leaves_with_the_weights_of_the_device(tmp_path: Path) -> None:
    model = Classifier()
    executor = poptorch.trainingModel(model, poptorch.Options(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    for seed in range(2):
        executor(*make_images(seed))
    exported = import_file(openipu.export_program(executor, tmp_path / "m.py", check=False).files[0])
    executor.copyWeightsToHost()
    for name, value in model.state_dict().items():
        if name in exported.state_dict():
            torch.testing.assert_close(exported.state_dict()[name], value, msg=name)
    batch = make_images(5)
    expected = executor(*batch)
    torch.testing.assert_close(exported.train_step(*batch)[1], expected[1], rtol=1e-4, atol=1e-5)


def test_random_numbers_follow_pytorchs_seed(tmp_path: Path) -> None:
    model = Classifier(dropout=0.5)
    job = PlanningJob(
        model=model, args=make_images(), training=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    )
    report = openipu.export_program(job, tmp_path / "m.py")  # compared with the same draws
    assert report.comparisons[0].difference <= 1e-5
    assert not report.comparisons[0].shapes_only


def test_loops_and_branches_become_pythons(tmp_path: Path) -> None:
    class Looping(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return poptorch.for_loop(3, lambda value: value * 2 + 1, [x])

    executor = poptorch.inferenceModel(Looping())
    executor(torch.ones(2))
    path = openipu.export_program(executor, tmp_path / "m.py", check=False).files[0]
    assert "for _ in range(3):" in path.read_text()
    (found,) = import_file(path)(torch.tensor([1.0, -1.0]))
    assert found.tolist() == [15.0, -1.0]  # ((x * 2 + 1) * 2 + 1) * 2 + 1


def test_results_keep_their_containers(tmp_path: Path) -> None:
    class Containers(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, object]:
            return {"twice": x * 2, "list": [x + 1, (x - 1,)], "name": "text", "number": 3}

    job = PlanningJob(model=Containers(), args=torch.tensor([1.0, 2.0]))
    found = import_file(openipu.export_program(job, tmp_path / "m.py", check=False).files[0])(torch.tensor([1.0, 2.0]))
    assert list(found) == ["twice", "list", "name", "number"]
    assert found["list"][1][0].tolist() == [0.0, 1.0]
    assert (found["name"], found["number"]) == ("text", 3)


def test_names_that_make_no_tree_of_modules_are_flat(tmp_path: Path) -> None:
    model = nn.Module()
    model._parameters["w"] = nn.Parameter(torch.ones(2))
    model._parameters["w.1"] = nn.Parameter(torch.full((2,), 2.0))
    model.forward = lambda x: x * model._parameters["w"] + model._parameters["w.1"]  # type: ignore[assignment]
    job = PlanningJob(model=model, args=torch.tensor([1.0, 2.0]))
    exported = import_file(openipu.export_program(job, tmp_path / "m.py", check=False).files[0])
    assert sorted(exported.state_dict()) == ["w", "w_1"]
    assert exported(torch.tensor([1.0, 2.0])).tolist() == [3.0, 4.0]


def test_names_of_a_foreign_graph_are_never_run_as_code(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    evil = '"""); raise SystemExit(1)\n#\r'
    weight = numpy_helper.from_array(torch.full((2,), 3.0).numpy(), f"{evil}.weight\\")
    graph = helper.make_graph(
        [helper.make_node("Mul", [f"x{evil}", f"{evil}.weight\\"], [f"y{evil}"], name=f"/{evil}/product")],
        evil,
        [helper.make_tensor_value_info(f"x{evil}", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(f"y{evil}", TensorProto.FLOAT, [2])],
        [weight],
    )
    path = tmp_path / "evil.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    job = load_file_job(path, weights=True)
    exported = import_file(openipu.export_program(job, tmp_path / "m.py", check=False).files[0])
    (found,) = exported(torch.tensor([1.0, 2.0])).values()
    assert found.tolist() == [3.0, 6.0]
    openipu.export_program(job, tmp_path / "again.onnx")


def test_a_function_of_this_process_is_refused_with_the_users_line_and_nothing_is_written(tmp_path: Path) -> None:
    class Printing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return poptorch.ipu_print_tensor(x) + 1

    executor = poptorch.inferenceModel(Printing())
    executor.compile(torch.ones(2))
    for name in ("m.py", "m.onnx"):
        with pytest.raises(ExportError, match=r"print_tensor.*test_torch_files\.py:\d+ in forward"):
            openipu.export_program(executor, tmp_path / "out" / name)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_computes_otherwise_is_not_left_behind(tmp_path: Path) -> None:
    model, (images, _) = Classifier().eval(), make_images()
    snapshot = snapshot_job(PlanningJob(model=model, args=images))

    def write_wrong(node: torch.fx.Node, names: dict[torch.fx.Node, str]) -> str:
        return write_call(node, names).replace("aten.relu.default", "aten.sigmoid.default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "write_call", write_wrong)
        with pytest.raises(ExportError, match="computes outputs 'output_0' otherwise than openipu"):
            export_snapshot(snapshot, tmp_path / "wrong.py")
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_weights_is_refused_until_some_are_made_up(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    job = PlanningJob(model=model, args=torch.empty(1, 3))
    with pytest.raises(ExportError, match="no value for weight: its model is on the meta device"):
        openipu.export_program(job, tmp_path / "m.py")
    snapshot = snapshot_job(job, random_weights=0)
    export_snapshot(snapshot, tmp_path / "m.py", check=False)
    assert import_file(tmp_path / "m.py").state_dict()["weight"].std() > 0


def test_what_holds_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="A Linear holds no captured program"):
        openipu.export_program(nn.Linear(2, 2), tmp_path / "m.py")
    with pytest.raises(OptionError, match="There is no format 'tflite'"):
        openipu.export_program(PlanningJob(model=nn.ReLU(), args=torch.ones(1)), tmp_path / "m.py", to="tflite")
    with pytest.raises(OptionError, match=r"ends in \.onnx"):
        openipu.export_program(PlanningJob(model=nn.ReLU(), args=torch.ones(1)), tmp_path / "m.py", to="onnx")


def test_options_whose_effect_no_plain_file_has_are_refused_or_said(tmp_path: Path) -> None:
    model = Classifier()
    job = PlanningJob(
        model=model,
        args=make_images(),
        training=True,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        options=RunOptions(training=True, replicas=2, broadcast_buffers=False),
    )
    with pytest.raises(ExportError, match=r"each of 2 replicas keeps .* of its own"):
        openipu.export_program(job, tmp_path / "m.py")
    half = PlanningJob(
        model=nn.Linear(2, 2).half(), args=torch.ones(1, 2).half(), options=RunOptions(stochastic_rounding=True)
    )
    report = openipu.export_program(half, tmp_path / "m.py", check=False)
    assert report.notes == ("half results are rounded to the nearest, not stochastically",)
