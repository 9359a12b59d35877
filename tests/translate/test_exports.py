"""Models that torch.onnx exports give PyTorch's results and PyTorch's losses, through the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exported_models import (
    MODELS,
    Convolutional,
    WithLoss,
    export,
    silence_dropout,
    train_from_file,
    train_in_pytorch,
)

from openipu.model_files import run_file

STEPS = 20


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_pytorchs_results(name: str, tmp_path: Path) -> None:
    make, shape, tokens = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    x = torch.randint(tokens, tuple(shape)) if tokens else torch.randn(*shape)
    export(module, x, tmp_path / "m.onnx")
    with torch.no_grad():
        wanted = module(x)
    found = run_file(tmp_path / "m.onnx", {"x": x})
    torch.testing.assert_close(found["y"], wanted, rtol=1e-4, atol=1e-4)


def test_an_export_with_an_open_batch_runs_at_another_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Convolutional().eval()
    export(module, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx", dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    x = torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        wanted = module(x)
    torch.testing.assert_close(run_file(tmp_path / "m.onnx", {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_training_from_a_file_has_pytorchs_losses(name: str, tmp_path: Path) -> None:
    make, shape, tokens = MODELS[name]
    torch.manual_seed(1)
    model = make()
    silence_dropout(model)
    module = WithLoss(model).train()

    def draw_input() -> torch.Tensor:  # token 0 is padding, which PyTorch's embeddings do not train and ONNX's do
        return torch.randint(1, tokens, tuple(shape)) if tokens else torch.randn(*shape)

    with torch.no_grad():
        *places, classes = make().eval()(draw_input()).shape
    data = [(draw_input(), torch.randint(classes, places)) for _ in range(STEPS)]
    export(
        module, data[0], tmp_path / "m.onnx",
        input_names=["x", "labels"], output_names=["loss"], do_constant_folding=False,
        training=torch.onnx.TrainingMode.TRAINING,
    )  # fmt: skip
    found = train_from_file(tmp_path / "m.onnx", data, rate=0.02)
    wanted = train_in_pytorch(module, data, rate=0.02)
    assert max(abs(one - other) for one, other in zip(found, wanted, strict=True)) < 1e-5
    assert abs(wanted[0] - wanted[-1]) > 1e-4  # it learns
