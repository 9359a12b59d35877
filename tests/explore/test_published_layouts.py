"""Rows of the vendor's applications are predicted from the layouts that were published with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from openipu.graph import Recompute
from openipu.models import build_model
from openipu.models.images.pictures import PictureShape
from openipu.models.layers import Format
from openipu.models.spec import ModelSpec
from openipu.validation.figures import FigureRow, find_system
from openipu.validation.workloads.applications import APPLICATIONS, find_application
from openipu.validation.workloads.benchmarks import find_evaluation_interval, find_overhead_seconds
from openipu.validation.workloads.programs import capture_model
from openipu.validation.workloads.recognise import recognise_model
from openipu.validation.workloads.setups import choose_training


def make_row(workload: str, ipus: int, value: float | None = None, **params: Any) -> FigureRow:
    return FigureRow("X-1", "e2e", f"Bow Pod{ipus}", ipus, workload, params, "training throughput", "samples/s", value)


@pytest.mark.parametrize(
    ("workload", "ipus", "params", "layout"),
    [
        ("BERT-Large Ph1 SL128 packed", 64, {"framework": "PyTorch", "global_batch": 56064}, (8, 438, 16, 4)),
        ("BERT-Large Ph2 SL512 packed", 64, {"framework": "PyTorch", "global_batch": 8192}, (2, 256, 16, 4)),
        ("BERT-Large Ph1 SL128", 16, {"framework": "TensorFlow2", "global_batch": 65280}, (8, 2040, 4, 4)),
        ("BERT-Base Ph1 SL128", 16, {"framework": "PopART", "global_batch": 65536}, (32, 512, 4, 4)),
        ("BERT-Large SQuAD fine-tune SL384", 16, {"framework": "PyTorch", "global_batch": 256}, (4, 32, 2, 8)),
        ("ViT fine-tuning", 16, {"framework": "PyTorch", "global_batch": 2040}, (17, 30, 4, 4)),
        ("ResNeXt-101", 16, {"framework": "TensorFlow1", "global_batch": 768}, (6, 16, 8, 2)),
        ("EfficientNet-B4 G16", 64, {"framework": "TensorFlow1", "global_batch": 6144}, (3, 64, 32, 2)),
        ("Conformer-medium training", 16, {"global_batch": 16128}, (4, 1008, 4, 4)),
    ],
)
def test_a_row_that_fits_a_public_configuration_is_laid_out_like_it(
    workload: str, ipus: int, params: dict[str, Any], layout: tuple[int, ...]
) -> None:
    """Micro-batch, accumulation, replicas and IPUs a replica: their product is the row's global batch."""
    row = make_row(workload, ipus, **params)
    found = find_application(row, recognise_model(row))
    assert found is not None
    replicas = ipus // found.stages
    accumulation = params["global_batch"] // (found.micro_batch * replicas)
    assert (found.micro_batch, accumulation, replicas, found.stages) == layout
    assert found.micro_batch * accumulation * replicas == params["global_batch"]


@pytest.mark.parametrize(
    ("ipus", "submission", "sdk", "layout"),
    [
        (64, "ipu-pod64-POPART-closed", "2.1.0", (2, 8, (0, 3, 3, 3, 3, 4, 4, 4), 0)),
        (64, "ipu-pod64-POPART-closed", "2.3.0", (2, 8, (), 9)),
        (16, "ipu-pod16-POPART-open", "2.3.0", (2, 4, (), 5)),
        (256, "ipu-pod256-POPART-closed", "2.5.1", (3, 8, (), 9)),
    ],
)
def test_a_submission_to_mlperf_is_laid_out_as_its_own_configuration_says(
    ipus: int, submission: str, sdk: str, layout: tuple[Any, ...]
) -> None:
    params = {"framework": "PopART", "global_batch": 3072, "grad_accum": 96, "submission": submission}
    row = replace(make_row("BERT-Large SL512 packed training (MLPerf)", ipus, **params), sdk=sdk)
    found = find_application(row, recognise_model(row))
    assert found is not None
    assert (found.micro_batch, found.stages, found.layers_per_stage, len(found.parts_per_stage)) == layout
    parts = found.parts_per_stage or tuple((count, count) for count in found.layers_per_stage)
    assert [sum(part[half] for part in parts) for half in (0, 1)] == [24, 24]


def test_the_layout_does_not_depend_on_the_published_value() -> None:
    for value in (None, 1.0, 1e9):
        row = make_row("ResNet-50 v1.5", 16, value, framework="TensorFlow1", global_batch=1920)
        setup, _ = choose_training(row, recognise_model(row), find_system(row))
        assert (setup.micro_batch, setup.accumulation, setup.recompute) == (20, 6, Recompute.ALL)


@pytest.mark.parametrize(
    ("workload", "params"),
    [
        ("ViT pre-training", {"framework": "PyTorch", "global_batch": 4096}),  # no such batch was published
        ("ResNeXt-101", {"framework": "PyTorch", "global_batch": 768}),  # of another framework
        ("BERT-Large SL512 packed training (MLPerf)", {"framework": "PopART", "global_batch": 3072}),
    ],
)
def test_a_row_that_fits_no_public_configuration_is_laid_out_as_a_user_would(
    workload: str, params: dict[str, Any]
) -> None:
    row = make_row(workload, 16, **params)
    assert find_application(row, recognise_model(row)) is None


def test_every_layout_counts_one_number_of_layers_and_one_or_all_proportions() -> None:
    for entry in APPLICATIONS:
        assert len(entry.layers_per_stage) in (0, entry.stages), entry
        assert len(entry.parts_per_stage) in (0, entry.stages + 1), entry
        assert len(entry.proportions) in (1, entry.stages), entry
        assert entry.source.startswith("v"), entry


def test_the_small_dall_e_attends_as_its_configuration_says() -> None:
    """Rows, rows, columns, rows, …; the twelfth and the sixteenth layer see everything."""
    axes = [PictureShape().axis(layer) for layer in range(16)]
    kinds = ["r", "r", "c", "r", "r", "r", "c", "r", "r", "r", "c", "f", "r", "r", "c", "f"]
    assert [axis[0] for axis in axes] == kinds


def test_tokens_of_the_small_dall_e_see_the_start_the_words_and_their_line() -> None:
    """A start and 80 words; a picture's token sees those and a line of 16; all that sees everything ends one early."""
    program = capture_model(ModelSpec("picture decoder", Format.HALF, training=True), 2, False)
    seen = [node for node in program.micro.module.graph.nodes if "_softmax.default" in str(node.target)]
    lengths = {node.meta["val"].shape[-1] for node in seen if node.meta["val"].ndim > 3}
    assert lengths == {80 + 1, 80 + 1 + 16, 80 + 1 + 16 * 16 - 1}


def test_pre_training_of_vit_takes_bytes_and_drops_what_its_application_drops() -> None:
    row = make_row("ViT pre-training", 16, framework="PyTorch", global_batch=65536)
    spec = recognise_model(row)
    assert spec.detail("mixed_images", 0) == 1
    program = capture_model(spec, 2, False)
    drops = [node for node in program.micro.module.graph.nodes if "bernoulli" in str(node.target)]
    # embeddings; in 12 layers attention's weights, its result, what GELU makes and the result of that part
    assert len(drops) == 1 + 12 * 4
    assert any(node.meta["val"].shape == (2, 197, 3072) for node in drops)
    images = [entry for entry in program.micro.inputs if entry.shape == (2, 3, 224, 224)]
    assert [entry.dtype for entry in images] == [torch.uint8]


def test_tokens_of_a_packed_row_see_those_of_their_own_sequence() -> None:
    """A mask of all pairs for each row, which all heads share; without packing one of each token."""
    shapes = []
    for workload in ("BERT-Large Ph1 SL128 packed", "BERT-Large Ph1 SL128"):
        spec = replace(recognise_model(make_row(workload, 16, framework="PopART", global_batch=54784)), size="base")
        program = capture_model(spec, 2, False)
        adds = [node for node in program.micro.module.graph.nodes if str(node.target) == "aten.add.Tensor"]
        masks = {tuple(node.args[1].meta["val"].shape) for node in adds if hasattr(node.args[1], "meta")}
        shapes.append({shape for shape in masks if len(shape) == 4 and shape[1] == 1})
    assert shapes == [{(2, 1, 128, 128)}, {(2, 1, 1, 128)}]


def test_time_beside_training_is_that_of_the_logs() -> None:
    """Evaluations of 2.6 s on 64 IPUs and 8.2 s on 16, 175,000 sequences apart; in the last round hardly any time."""
    text = "BERT-Large SL512 packed training (MLPerf)"
    assert [find_evaluation_interval(batch) for batch in (3072, 4608, 6144, 6912)] == [175e3, 200e3, 200e3, 225e3]
    for ipus, each in ((64, 2.6), (16, 8.18)):
        row = replace(make_row(text, ipus, global_batch=3072), sdk="2.3.0")
        found = find_overhead_seconds(row, recognise_model(row))
        assert found == pytest.approx(16 + 2.57e6 / 175e3 * each, rel=0.01)
    last = replace(make_row(text, 128, global_batch=6144), sdk="2.5.1")
    count = 2.57e6 * 2**0.36 / 200e3
    assert find_overhead_seconds(last, recognise_model(last)) == pytest.approx(4 + count * 0.28)
    first = replace(make_row("ResNet-50 v1.5 training (MLPerf)", 64, global_batch=2560), sdk="2.1.0")
    assert find_overhead_seconds(first, recognise_model(first)) == 137.0


def test_a_program_that_states_no_batch_is_laid_out_with_its_own() -> None:
    """nanoGPT: 64 sequences an update, two at a time in the public demo, in float32 with sums in float32."""
    row = make_row("nanoGPT 10.67M training step seq256", 1, layers=6, heads=6, d=384, seq=256, attention="standard")
    row = replace(row, system="M2000 (1 IPU)", metric="training rate", unit="iterations/s")
    setup, measured = choose_training(row, recognise_model(row), find_system(row))
    assert (setup.micro_batch, setup.accumulation, setup.half_partials) == (2, 32, False)
    assert measured.samples_per_second * measured.call_seconds == pytest.approx(64)


def test_the_conformer_of_training_is_the_public_application() -> None:
    """12 blocks of width 256 with 8 times that inside, a decoder of 6, 4,233 characters: about 46 million weights."""
    model, inputs = build_model(ModelSpec("conformer", Format.HALF, training=True, length=1220), 2)
    assert sum(name.count(".") == 1 and name.startswith("layers.") for name, _ in model.named_modules()) == 12
    assert sum(name.count(".") == 2 and name.startswith("writer.blocks.") for name, _ in model.named_modules()) == 6
    assert [tuple(value.shape) for value in inputs] == [(2, 1220, 80), (2, 305), (2, 48), (2, 305)]
    feed = 2 * (2 * 256 * 2048)
    attention, convolution = 5 * 256 * 256, 3 * 256 * 256 + 15 * 256
    writer = 8 * 256 * 256 + 2 * 256 * 2048
    tables = 3 * 4233 * 256 + 48 * 256
    front = 9 * 256 + 9 * 256 * 256 + 20 * 256 * 256
    expected = 12 * (feed + attention + convolution) + 6 * writer + tables + front
    count = sum(value.numel() for value in model.parameters())
    assert count == pytest.approx(expected, rel=0.005)  # biases and norms besides


def test_the_small_dall_e_trains_a_step_on_its_own_tokens() -> None:
    from openipu.models.images.pictures import PictureDecoder

    shape = PictureShape(layers=2, hidden=32, heads=2, head=16, words=6)
    model = PictureDecoder(shape, Format.FLOAT32)
    loss = model(torch.zeros(1, 6, dtype=torch.int32), torch.rand(1, 3, 256, 256))
    loss.backward()
    assert loss.isfinite()
    assert all(value.grad is None for value in model.encode.parameters())
    gradient = dict(model.named_parameters())["layers.0.attention.qkv.weight"].grad
    assert gradient is not None
    assert gradient.abs().sum() > 0
