"""The built-in configurations: each suits the models it is for, and well-known ones fit the modelled IPUs."""

from __future__ import annotations

import pytest
from catalog_models import BUILDERS, build_without_weights

from optimum.graphcore import IPUConfig
from optimum.graphcore.configurations import list_configurations
from optimum.graphcore.modeling_utils import to_pipelined


@pytest.mark.parametrize("name", BUILDERS)
def test_a_configuration_suits_its_model(name: str) -> None:
    config = IPUConfig.from_pretrained(name)
    model = to_pipelined(build_without_weights(name), config)
    names = list(model.state_dict())
    for mode in (model.ipu_config.eval(), model.ipu_config.train()):
        model.ipu_config = mode
        model.parallelize()
    assert list(model.deparallelize().state_dict()) == names


def test_every_configuration_is_tried() -> None:
    untried = {name.removeprefix("Graphcore/") for name in list_configurations()} - set(BUILDERS)
    assert untried == {"internal-testing-tiny-ipu"}


@pytest.mark.parametrize(("name", "sequence_length"), [("bert-base-ipu", 384), ("gpt2-small-ipu", 512)])
def test_a_well_known_model_fits_its_ipus(name: str, sequence_length: int) -> None:
    config = IPUConfig.from_pretrained(name)
    plan = config.plan(build_without_weights(name), system="bow-pod16", sequence_length=sequence_length)
    assert plan.fit.fits, plan.fit
    assert plan.options.gradient_accumulation == config.gradient_accumulation_steps
    head_ipus = {op.ipu for op in plan.ops if op.module.endswith(("lm_head", "cls.predictions.decoder"))}
    assert head_ipus == {0}  # beside the table of words that it shares
    config.optimizer_state_offchip = False
    config.layers_per_ipu = [-1] * 4
    config.recompute_checkpoint_every_layer = False
    crowded = config.plan(build_without_weights(name), system="bow-pod16", sequence_length=sequence_length)
    assert not crowded.fit.fits
    assert crowded.fit.peak_bytes > plan.fit.peak_bytes


def test_a_configuration_is_planned_for_inference_too() -> None:
    config = IPUConfig.from_pretrained("bert-base-ipu")
    plan = config.plan(build_without_weights("bert-base-ipu"), system="bow-pod16", training=False)
    assert plan.fit.fits
    assert not plan.options.training
