"""Training on IPUs gives what training on the CPU gives."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from lightning_cases import (
    Classifier,
    Evaluated,
    IPUStrategy,
    assert_same_training,
    fit,
    make_loader,
    make_model,
    make_trainer,
)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Convolutional(Classifier):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))


class Transformer(Classifier):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)
        del self.net

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)).mean(1))


def make_images(batch_size):
    generator = torch.Generator().manual_seed(1)
    return DataLoader(
        TensorDataset(torch.randn(16, 1, 4, 4, generator=generator), torch.arange(16) % 3), batch_size=batch_size
    )


def make_tokens(batch_size):
    generator = torch.Generator().manual_seed(2)
    return DataLoader(
        TensorDataset(torch.randint(0, 11, (16, 5), generator=generator), torch.arange(16) % 3), batch_size=batch_size
    )


@pytest.mark.parametrize(
    ("kind", "make", "optimizer"),
    [
        (Classifier, make_loader, torch.optim.Adam),
        (Convolutional, make_images, torch.optim.AdamW),
        (Transformer, make_tokens, torch.optim.SGD),  # Adam would blow rounding errors of the key bias up
    ],
)
def test_three_models_train_to_the_losses_of_the_cpu(tmp_path, kind, make, optimizer):
    settings = {"optimizer": optimizer, "learning_rate": 0.01}
    expected, _ = fit(tmp_path, make(8), kind, settings, accelerator="cpu", max_epochs=2)
    found, trainer = fit(tmp_path, make(8), kind, settings, accelerator="ipu", devices=1, max_epochs=2)
    assert isinstance(trainer.strategy, IPUStrategy)
    assert_same_training(expected, found)


@pytest.mark.parametrize("devices", [1, 2, 4, 8, "auto"])
def test_every_number_of_devices_trains_as_one_large_batch(tmp_path, devices):
    replicas = 4 if devices == "auto" else devices
    expected, _ = fit(tmp_path, make_loader(16), accelerator="cpu", max_epochs=2)
    found, trainer = fit(tmp_path, make_loader(16 // replicas), accelerator="ipu", devices=devices, max_epochs=2)
    assert isinstance(trainer.strategy, IPUStrategy)
    assert trainer.num_devices == replicas
    assert trainer.strategy.training_opts.replication_factor == replicas
    assert_same_training(expected, found)


def test_accumulation_is_done_by_the_device_and_counted_once(tmp_path):
    expected, _ = fit(tmp_path, make_loader(16), accelerator="cpu", max_epochs=2)
    found, trainer = fit(
        tmp_path, make_loader(4), accelerator="ipu", devices=1, accumulate_grad_batches=4, max_epochs=2
    )
    assert trainer.global_step == 4  # 32 samples, 16 in an update, two epochs
    assert trainer.accumulate_grad_batches == 4  # as the user set it, after the run
    assert_same_training(expected, found)


def test_a_second_fit_accumulates_as_the_first(tmp_path):
    model, trainer = fit(tmp_path, make_loader(8), accelerator="ipu", devices=1, accumulate_grad_batches=2)
    first = trainer.global_step
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model, make_loader(8))
    assert (first, trainer.global_step) == (2, 4)


def test_device_iterations_make_several_updates_in_one_call(tmp_path):
    expected, _ = fit(tmp_path, make_loader(4), accelerator="cpu")
    strategy = IPUStrategy(device_iterations=4)
    found, trainer = fit(tmp_path, make_loader(4), accelerator="ipu", devices=1, strategy=strategy)
    assert trainer.global_step == 2
    assert found.seen_losses == pytest.approx(expected.seen_losses[3::4], rel=1e-5)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value)


def test_the_number_of_steps_is_known_to_schedules(tmp_path):
    counted = []

    class Counting(Classifier):
        def configure_optimizers(self):
            counted.append(self.trainer.estimated_stepping_batches)
            return super().configure_optimizers()

    fit(tmp_path, make_loader(4), Counting, accelerator="ipu", devices=2, accumulate_grad_batches=2, max_epochs=3)
    assert counted == [6]


def test_learning_rate_schedules_reach_the_device(tmp_path):
    class Scheduled(Classifier):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.3)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    expected, _ = fit(tmp_path, make_loader(8), Scheduled, accelerator="cpu")
    found, _ = fit(tmp_path, make_loader(8), Scheduled, accelerator="ipu", devices=1)
    assert_same_training(expected, found)


def test_the_learning_rate_finder_runs_and_puts_the_model_back(tmp_path):
    from lightning.pytorch.tuner import Tuner

    model = make_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = make_trainer(tmp_path, accelerator="ipu", devices=1, max_epochs=20)
    finder = Tuner(trainer).lr_find(model, make_loader(8), num_training=8, attr_name="learning_rate")
    assert len(finder.results["loss"]) == 8
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_training_step_may_return_none_to_skip_an_update(tmp_path):
    class Skipping(Classifier):
        def training_step(self, batch, batch_idx):
            if batch_idx % 2:
                return None
            return super().training_step(batch, batch_idx)

    expected, _ = fit(tmp_path, make_loader(8), Skipping, accelerator="cpu")
    found, _ = fit(tmp_path, make_loader(8), Skipping, accelerator="ipu", devices=1)
    assert len(found.seen_losses) == 2
    assert_same_training(expected, found)


def test_all_stages_use_the_trained_weights(tmp_path):
    results = {}
    for accelerator in ("cpu", "ipu"):
        model, trainer = fit(tmp_path, make_loader(8), Evaluated, accelerator=accelerator, devices=1)
        results[accelerator] = (
            trainer.validate(model, make_loader(8), verbose=False),
            trainer.test(model, make_loader(8), verbose=False),
            torch.cat(trainer.predict(model, make_loader(8))),
        )
    for expected, found in zip(results["cpu"][:2], results["ipu"][:2], strict=True):
        assert found[0] == pytest.approx(expected[0], rel=1e-5)
    torch.testing.assert_close(results["ipu"][2], results["cpu"][2])


def test_validation_during_fit_sees_each_epochs_weights(tmp_path):
    losses = {}
    for accelerator in ("cpu", "ipu"):
        losses[accelerator] = []

        class Watched(Evaluated):
            def on_validation_epoch_end(self, seen=losses[accelerator]):
                seen.append(float(self.trainer.callback_metrics["val_loss"]))

        trainer = make_trainer(tmp_path, accelerator=accelerator, devices=1, max_epochs=3, num_sanity_val_steps=1)
        trainer.fit(make_model(Watched), make_loader(8), make_loader(8))
    assert len(losses["ipu"]) == 4
    assert losses["ipu"] == pytest.approx(losses["cpu"], rel=1e-5)


@pytest.mark.parametrize("devices", [1, 2])
def test_predictions_cover_a_short_last_batch(tmp_path, devices):
    model = make_model(Evaluated)
    trainer = make_trainer(tmp_path, accelerator="ipu", devices=devices)
    found = torch.cat(trainer.predict(model, make_loader(4, samples=21)))
    with torch.no_grad():
        torch.testing.assert_close(found, model(make_loader(21, samples=21).dataset.tensors[0]))


def test_a_short_last_training_batch_is_a_program_of_its_own(tmp_path):
    expected, _ = fit(tmp_path, make_loader(8, samples=20), accelerator="cpu", max_epochs=2)
    found, _ = fit(tmp_path, make_loader(8, samples=20), accelerator="ipu", devices=1, max_epochs=2)
    assert len(found.seen_losses) == 6
    assert_same_training(expected, found)


def test_too_little_data_for_one_call_says_what_a_call_needs(tmp_path):
    from lightning.pytorch.utilities.exceptions import MisconfigurationException

    with pytest.raises(MisconfigurationException, match="one call of the program needs 64"):
        fit(tmp_path, make_loader(8), accelerator="ipu", devices=8)


def test_weights_that_a_callback_writes_reach_the_device(tmp_path):
    class Clamping(Classifier):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            super().on_train_batch_end(outputs, batch, batch_idx)
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.clamp_(-0.2, 0.2)

    expected, _ = fit(tmp_path, make_loader(8), Clamping, accelerator="cpu")
    found, _ = fit(tmp_path, make_loader(8), Clamping, accelerator="ipu", devices=1)
    assert_same_training(expected, found)


def test_layers_that_a_callback_freezes_stay_as_they_are(tmp_path):
    class Freezing(Classifier):
        def on_train_batch_start(self, batch, batch_idx):
            if batch_idx == 2:
                self.net[0].requires_grad_(False)

    expected, _ = fit(tmp_path, make_loader(8), Freezing, accelerator="cpu")
    found, _ = fit(tmp_path, make_loader(8), Freezing, accelerator="ipu", devices=1)
    assert_same_training(expected, found)


@pytest.mark.parametrize("precision", ["16-mixed", "16-true"])
def test_half_precision_trains(tmp_path, precision):
    model, trainer = fit(tmp_path, make_loader(8), accelerator="ipu", devices=1, precision=precision, max_epochs=3)
    assert trainer.precision == precision
    assert model.net[0].weight.dtype is (torch.half if precision == "16-true" else torch.float32)
    assert model.seen_losses[-1] < model.seen_losses[0]


def test_blocks_of_a_pipelined_model_take_ipus_for_each_replica(tmp_path):
    import poptorch

    class Pipelined(Classifier):
        def __init__(self, **settings):
            super().__init__(**settings)
            poptorch.BeginBlock(self.net[0], ipu_id=0)
            poptorch.BeginBlock(self.net[2], ipu_id=1)

    counted = []

    class Counting(Pipelined):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            counted.append(self.trainer.strategy.list_statistics()["ipu.count"])

    expected, _ = fit(tmp_path, make_loader(16), accelerator="cpu")
    found, _ = fit(tmp_path, make_loader(2), Counting, accelerator="ipu", devices=2, accumulate_grad_batches=4)
    assert counted == [4.0, 4.0]
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value)


def test_a_loss_of_its_own_may_be_logged_beside_the_one_that_is_trained(tmp_path):
    class Watching(Classifier):
        def training_step(self, batch, batch_idx):
            self.log("other", F.mse_loss(self(batch[0]), torch.zeros(8, 3)))
            return self.compute_loss(batch)

    expected, _ = fit(tmp_path, make_loader(8), Watching, accelerator="cpu")
    found, trainer = fit(tmp_path, make_loader(8), Watching, accelerator="ipu", devices=1)
    assert "other" in trainer.callback_metrics
    assert_same_training(expected, found)
