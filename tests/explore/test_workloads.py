"""Rows of whole models: which model, which layout, which figure. Small models stand for large ones where they can."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from openipu.errors import FiguresError
from openipu.graph import Phase, Recompute
from openipu.machine import resolve_system
from openipu.models.builders import BUILDERS
from openipu.models.layers import FLOAT8, Format
from openipu.validation.figures import FigureRow, Prediction, Unmodelled
from openipu.validation.workloads import ModelSpec, Setup, build_model, measure_setup, predict_row, recognise_model
from openipu.validation.workloads.benchmarks import count_samples_to_train
from openipu.validation.workloads.programs import capture_model
from openipu.validation.workloads.setups import choose_training, count_per_pack


def make_row(workload: str, params: str = "{}", *, metric: str = "throughput", unit: str = "samples/s", **more):
    fields = {"id": "TEST-001", "kind": "e2e", "system": "C600 (IPU21)", "ipus": 1, "sdk": ""}
    return FigureRow(
        **{**fields, "workload": workload, "params": json.loads(params), "metric": metric, "unit": unit, **more}
    )


@pytest.mark.parametrize(
    ("workload", "params", "kind", "size", "length"),
    [
        ("resnet50 inference", '{"dtype": "fp16"}', "resnet", "50", 0),
        ("ResNeXt-101", '{"precision": "16.16"}', "resnext", "101", 0),
        ("BERT-Large Ph2 SL512 packed", '{"precision": "16.16"}', "bert", "large", 512),
        ("roberta-base SL384 SQuAD inference", '{"dtype": "fp16"}', "bert", "base", 384),
        ("Swin-Tiny inference", '{"dtype": "fp16"}', "swin", "tiny", 0),
        ("EfficientNet-B4 G16", '{"precision": "16.16"}', "efficientnet", "b4", 0),
        ("nanoGPT 10.67M training step seq256", '{"layers": 6, "heads": 6, "d": 384, "seq": 256}', "decoder", "", 256),
    ],
)
def test_the_text_of_a_row_says_which_model(workload, params, kind, size, length):
    spec = recognise_model(make_row(workload, params))
    assert (spec.kind, spec.size, spec.length) == (kind, size, length)


def test_a_row_says_which_number_format():
    mixed = recognise_model(make_row("ResNet-50 inference", '{"dtype": "fp8 (first conv, last gemm fp16)"}'))
    assert (mixed.form, mixed.edge_form) == (Format.FLOAT8, Format.HALF)
    assert recognise_model(make_row("ResNet-50 inference", '{"dtype": "fp8 everywhere"}')).edge_form is None
    assert recognise_model(make_row("Swin-Base 224", '{"precision": "32.32"}')).form is Format.FLOAT32


def test_an_unknown_model_is_refused_by_name():
    with pytest.raises(FiguresError, match="no model is known by the name 'AlphaFold'"):
        predict_row(make_row("AlphaFold"))


def test_compile_times_are_no_figures_of_an_ipu():
    assert isinstance(predict_row(make_row("resnet50 inference", metric="compile time", unit="s")), Unmodelled)


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_every_model_is_built_without_weights(kind):
    training = kind in ("unet", "dino", "transducer", "graph transformer", "sampled graph", "temporal graph")
    sizes = {"bert": "base", "swin": "tiny", "resnet": "50", "resnext": "50", "efficientnet": "b0", "clip": "text"}
    pixels = {"unet": 572, "small network": 28}.get(kind, 224)
    spec = ModelSpec(kind, Format.HALF, training, sizes.get(kind, ""), length=64, pixels=pixels)
    model, inputs = build_model(spec, 2)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert all(tensor.is_meta for tensor in inputs)
    found = model(*inputs)
    result = found[0] if isinstance(found, tuple) else found
    assert result.is_meta
    assert result.ndim == (0 if training else result.ndim)


def test_models_have_the_published_numbers_of_weights():
    def count(kind, size, **more):
        model, _ = build_model(ModelSpec(kind, Format.HALF, False, size, **more), 1)
        return sum(parameter.numel() for parameter in model.parameters()) / 1e6

    assert count("resnet", "50") == pytest.approx(25.6, rel=0.01)
    assert count("resnext", "101") == pytest.approx(44.2, rel=0.01)
    assert count("bert", "base", length=128) == pytest.approx(109.5, rel=0.01)
    assert count("bert", "large", length=128) == pytest.approx(335, rel=0.01)
    assert count("vit", "base") == pytest.approx(86.6, rel=0.01)
    assert count("swin", "tiny") == pytest.approx(28.3, rel=0.02)


def test_float8_products_take_float8_operands_and_give_half():
    program = capture_model(ModelSpec("resnet", Format.FLOAT8, False, "50", edge_form=Format.HALF), 1, False)
    products = [node for node in program.micro.module.graph.nodes if "float8_convolution" in str(node.target)]
    assert len(products) == 52  # 53 convolutions of ResNet-50, the first in half
    assert {node.args[0].meta["val"].dtype for node in products} == {FLOAT8}
    assert {node.meta["val"].dtype for node in products} == {torch.float16}


def test_float8_is_faster_than_half_and_half_faster_than_float32():
    seconds = [
        measure_setup(ModelSpec("resnet", form, False, "50"), Setup(4), "c600").compute_seconds
        for form in (Format.FLOAT8, Format.HALF, Format.FLOAT32)
    ]
    assert seconds == sorted(seconds)


def test_a_throughput_is_samples_over_the_time_of_a_batch():
    params = '{"dtype": "fp16", "batch": 4, "data": "synthetic on IPU"}'
    outcome = predict_row(make_row("ResNet-50 inference", params))
    assert isinstance(outcome, Prediction)
    measured = measure_setup(recognise_model(make_row("ResNet-50 inference", params)), Setup(4), "c600")
    assert outcome.value == pytest.approx(4 / measured.compute_seconds)
    assert outcome.low < outcome.value < outcome.high


def test_data_from_the_host_cost_their_way_over_the_io_tiles():
    spec = ModelSpec("resnet", Format.HALF, False, "50")
    hosted = measure_setup(spec, Setup(4, io_tiles=32), "c600")
    crossing = hosted.host_bytes / (32 * 4) / resolve_system("c600").target.clock_hz  # 32 tiles, 4 bytes a cycle each
    assert hosted.call_seconds == pytest.approx(hosted.compute_seconds + crossing)


def test_requests_in_flight_wait_for_each_other():
    params = '{"dtype": "fp16", "batch": 4}'
    rate = predict_row(make_row("resnet50 inference", params))
    latency = predict_row(
        make_row("resnet50 inference", params, metric="average latency (several requests in flight)", unit="ms")
    )
    assert latency.value == pytest.approx(4 * 4 / rate.value * 1e3)  # four requests of four samples


def test_packs_hold_several_sequences():
    row = make_row("BERT-Large SL512 packed training (MLPerf)", '{"global_batch": 3072}', metric="time to train")
    assert count_per_pack(row, recognise_model(row)) == 2.0
    given = dataclasses.replace(row, params={"avg_seq_per_pack": 1.9})
    assert count_per_pack(given, recognise_model(row)) == 1.9


def test_larger_batches_need_more_samples_to_train():
    def count(batch):
        row = make_row(
            "BERT-Large SL512 packed training (MLPerf)", f'{{"global_batch": {batch}}}', metric="time to train"
        )
        return count_samples_to_train(row, recognise_model(row))

    assert count(6144) / count(3072) == pytest.approx(2**0.36)


def test_a_training_row_gets_the_layout_that_it_states():
    params = '{"micro_batch": 4, "grad_accum": 2, "replicas": 4, "precision": "16.16", "framework": "PyTorch"}'
    row = make_row(
        "PopTorch tutorial small CNN", params, metric="training throughput", system="Bow Pod4", ipus=4, unit="items/s"
    )
    setup, measured = choose_training(row, recognise_model(row), resolve_system("bow-pod4"))
    assert (setup.micro_batch, setup.accumulation, setup.replicas, setup.stages) == (4, 2, 4, 1)
    assert setup.recompute is Recompute.NONE
    assert measured.fits
    assert predict_row(row).value == pytest.approx(measured.samples_per_second)


def test_training_programs_hold_backward_and_update():
    program = capture_model(ModelSpec("small network", Format.HALF, True, pixels=28), 2, True)
    phases = {node.meta["note"].phase for node in program.micro.module.graph.nodes if "note" in node.meta}
    assert {Phase.FORWARD, Phase.BACKWARD} <= phases
    assert program.update is not None
