"""The converter's BERT is what its table names: an exported graph in which nothing is fused."""

from __future__ import annotations

import dataclasses

from openipu.models.layers import Format
from openipu.models.text.encoders import Gelu
from openipu.validation.workloads import ModelSpec, Setup, measure_setup
from openipu.validation.workloads.programs import capture_model

EXPORTED = ModelSpec("bert", Format.HALF, False, "base", length=32, gelu=Gelu.PARTS, written_out=True)


def count_ops(spec):
    counts: dict[str, int] = {}
    for node in capture_model(spec, 1, False).micro.module.graph.nodes:
        if node.op == "call_function":
            counts[str(node.target)] = counts.get(str(node.target), 0) + 1
    return counts


def test_nothing_is_fused():
    counts = count_ops(EXPORTED)
    assert counts["aten.addmm.default"] == 12 * 6 + 1  # query, key, value, output, two of the feed-forward part; answer
    assert counts["aten.pow.Tensor_Tensor"] == 12
    assert counts["aten.tanh.default"] == 12
    assert counts["aten.mean.dim"] == 2 * (1 + 2 * 12)  # two moments a norm
    assert not any("layer_norm" in name or "gelu" in name for name in counts)


def test_a_fused_gelu_replaces_its_parts_and_saves_time():
    fused = dataclasses.replace(EXPORTED, gelu=Gelu.FUSED)
    counts = count_ops(fused)
    assert counts["aten.gelu.default"] == 12
    assert "aten.pow.Tensor_Tensor" not in counts
    slow, quick = (measure_setup(spec, Setup(1), "c600").compute_seconds for spec in (EXPORTED, fused))
    assert quick < slow


def test_an_inference_model_has_three_products_where_the_training_examples_have_one():
    plain = ModelSpec("bert", Format.HALF, False, "base", length=32)
    assert count_ops(plain)["aten.addmm.default"] == 12 * 6
