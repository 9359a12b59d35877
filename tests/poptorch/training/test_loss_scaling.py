"""Automatic loss scaling: the scale follows the half gradients, the results do not."""

import itertools

import pytest
import torch

import poptorch


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.half()

    def forward(self, x):
        out = self.layer(x)
        return out, poptorch.identity_loss(out.float() ** 2, "mean")


class Float(Half):
    def __init__(self):
        super().__init__()
        self.float()


def build(automatic=True, model=Half, iterations=1, accumulation=1, replicas=1, mode=None, **settings):
    torch.manual_seed(0)
    made, options = model(), poptorch.Options().showCompilationProgressBar(False)
    options.deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    if automatic:
        options.Training.setAutomaticLossScaling(True)
        options.anchorTensor("scale", "finalLossScale", mode)
    for name, value in settings.items():
        options._Popart.set(f"automaticLossScalingSettings.{name}", value)
    optimizer = poptorch.optim.SGD(
        made.parameters(), lr=0.01, momentum=0.9, loss_scaling=10.0, use_combined_accum=False
    )
    return poptorch.trainingModel(made, options, optimizer), optimizer


def make_batch(micro_batches=1, size=1.0):
    return size * torch.ones(2 * micro_batches, 4, dtype=torch.half)


def list_scales(trainer, calls, micro_batches=1):
    scales = []
    for _ in range(calls):
        trainer(make_batch(micro_batches))
        scales.append(trainer.getAnchoredTensor("scale").item())
    return scales


def test_the_scale_doubles_at_each_update_while_gradients_are_small():
    trainer, optimizer = build()
    assert list_scales(trainer, 4) == [10.0, 20.0, 40.0, 80.0]
    assert optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"].item() == 16.0


def test_the_scale_is_halved_while_gradients_are_large_and_then_swings():
    trainer, _ = build(binEdgeLocation=1e-6)
    assert list_scales(trainer, 4) == [10.0, 5.0, 2.5, 1.25]
    trainer, _ = build()
    scales = list_scales(trainer, 40)
    assert any(later < earlier for earlier, later in itertools.pairwise(scales))
    trainer.copyWeightsToHost()
    assert trainer.layer.weight.isfinite().all()


def test_losses_and_weights_stay_what_they_are():
    losses = []
    for automatic in (True, False):
        trainer, _ = build(automatic)
        losses.append([trainer(make_batch())[1].item() for _ in range(9)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_the_scale_changes_once_in_a_period_after_its_first_update():
    trainer, _ = build(updatePeriod=2)
    assert list_scales(trainer, 7) == [10.0, 20.0, 20.0, 40.0, 40.0, 80.0, 80.0]


def test_the_scale_changes_inside_a_call_and_accumulation_steps_share_it():
    trainer, _ = build(iterations=3, accumulation=2, mode=poptorch.OutputMode.All)
    trainer(make_batch(6))
    assert trainer.getAnchoredTensor("scale").tolist() == [10.0, 10.0, 20.0, 20.0, 40.0, 40.0]
    trainer(make_batch(6))
    assert trainer.getAnchoredTensor("scale").tolist()[0] == 80.0


def test_iterations_in_a_call_train_as_the_same_number_of_calls():
    weights = []
    for iterations in (1, 4):
        trainer, _ = build(iterations=iterations)
        for _ in range(4 // iterations):
            trainer(make_batch(iterations))
        trainer.copyWeightsToHost()
        weights.append(trainer.layer.weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(("accumulation", "replicas"), [(3, 1), (1, 3)])
def test_one_large_micro_batch_halves_the_scale_whichever_it_is(accumulation, replicas):
    for place in range(3):
        trainer, _ = build(accumulation=accumulation, replicas=replicas, binEdgeLocation=0.01)
        batch = make_batch(3)
        batch[2 * place : 2 * place + 2] *= 60  # gradients grow with the square of the input
        trainer(batch)
        trainer(batch)
        assert trainer.getAnchoredTensor("scale").item() == 5.0, place
    trainer, _ = build(accumulation=accumulation, replicas=replicas, binEdgeLocation=0.01)
    assert list_scales(trainer, 2, 3) == [10.0, 20.0]


def test_a_few_large_gradients_may_be_allowed():
    trainer, _ = build(binEdgeLocation=1e-6, thresholdUpperCountProportion=1.0)
    assert list_scales(trainer, 2) == [10.0, 20.0]


def test_only_gradients_of_products_may_be_tracked():
    trainer, _ = build(gradientTensorTrackingMethod=1)
    assert list_scales(trainer, 2) == [10.0, 20.0]
    trainer, _ = build(gradientTensorTrackingMethod=2)
    with pytest.raises(ValueError, match="gradientTensorTrackingMethod"):
        trainer(make_batch())


def test_a_model_without_half_gradients_is_refused():
    trainer, _ = build(model=Float)
    with pytest.raises(poptorch.Error, match=r"half gradients.*\.half\(\)"):
        trainer(torch.ones(2, 4))


def test_settings_out_of_range_are_refused():
    trainer, _ = build(binEdgeLocation=1.5)
    with pytest.raises(poptorch.Error, match="bin_edge"):
        trainer(make_batch())


def test_the_factor_is_part_of_a_checkpoint():
    trainer, optimizer = build()
    list_scales(trainer, 3)
    saved = optimizer.state_dict()
    other, loaded = build()
    loaded.load_state_dict(saved)
    assert list_scales(other, 1) == [80.0]
