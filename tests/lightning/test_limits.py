"""Each limit of the original: lifted here, and kept in the strict mode."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning_cases import (
    Classifier,
    Evaluated,
    IPUStrategy,
    assert_same_training,
    fit,
    make_data,
    make_loader,
    make_model,
    make_trainer,
)
from torch.utils.data import BatchSampler, DataLoader, IterableDataset


class Logging(Classifier):
    def training_step(self, batch, batch_idx):
        loss = self.compute_loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"largest": loss.detach(), "constant": 2.5}, on_step=False, on_epoch=True, reduce_fx="max")
        self.log("samples", torch.tensor(float(len(batch[0]))), on_step=False, on_epoch=True, reduce_fx="sum")
        loss += 1  # what was logged stays as it was
        return loss - 1


class Evens(BatchSampler):
    """A sampler of batches with rules of its own: first the even samples, then the odd ones."""

    def __init__(self, samples, batch_size):
        self.samples, self.batch_size = samples, batch_size

    def __iter__(self):
        order = [*range(0, self.samples, 2), *range(1, self.samples, 2)]
        return iter([order[at : at + self.batch_size] for at in range(0, self.samples, self.batch_size)])

    def __len__(self):
        return self.samples // self.batch_size


class Stream(IterableDataset):
    def __iter__(self):
        return iter(make_data())


class Transferring(Classifier):
    """Both hooks change the batch."""

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return [batch[0] * 2, batch[1]]

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] + 1, batch[1]]


class TwoOptimizers(Classifier):
    """A generator and a critic, each with an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = torch.nn.ModuleDict({"maker": torch.nn.Linear(4, 4), "critic": torch.nn.Linear(4, 1)})

    def training_step(self, batch, batch_idx):
        inputs, _ = batch
        maker_optimizer, critic_optimizer = self.optimizers()
        maker, critic = self.net["maker"], self.net["critic"]
        made = maker(inputs)
        critic_loss = F.softplus(critic(made.detach())).mean() + F.softplus(-critic(inputs)).mean()
        critic_optimizer.zero_grad()
        self.manual_backward(critic_loss)
        critic_optimizer.step()
        maker_loss = F.softplus(-critic(made)).mean()
        maker_optimizer.zero_grad()
        self.manual_backward(maker_loss)
        maker_optimizer.step()
        self.log_dict({"critic": critic_loss, "maker": maker_loss}, on_step=True)
        return {"loss": maker_loss}

    def configure_optimizers(self):
        maker, critic = self.net["maker"].parameters(), self.net["critic"].parameters()
        return [torch.optim.Adam(maker, 0.05), torch.optim.SGD(critic, 0.1)]


class Branching(Classifier):
    """A number among the arguments and one of the module decide what is computed."""

    scale = 1.0

    def training_step(self, batch, batch_idx):
        loss = self.compute_loss(batch) * self.scale
        if batch_idx % 2 == 0:
            loss = loss + self.net[0].weight.square().mean()
        return loss + 0.01 * batch_idx

    def on_train_batch_end(self, outputs, batch, batch_idx):
        super().on_train_batch_end(outputs, batch, batch_idx)
        if batch_idx == 1:
            self.scale = 3.0


def fit_both(tmp_path, kind, loader, ipu_loader=None, **settings):
    expected, cpu = fit(tmp_path, loader, kind, accelerator="cpu", **settings)
    found, ipu = fit(tmp_path, ipu_loader or loader, kind, accelerator="ipu", **{"devices": 1, **settings})
    return expected, cpu, found, ipu


def strict(**settings):
    return {"accelerator": "ipu", "devices": 1, "strategy": IPUStrategy(strict=True), **settings}


def test_values_logged_in_a_step_are_those_of_every_run(tmp_path):
    expected, cpu, found, ipu = fit_both(tmp_path, Logging, make_loader(8))
    assert set(ipu.callback_metrics) == set(cpu.callback_metrics)
    for name, value in cpu.callback_metrics.items():
        torch.testing.assert_close(ipu.callback_metrics[name], value)
    assert_same_training(expected, found)


def test_logged_values_are_reduced_over_replicas_and_accumulation_as_asked(tmp_path):
    _, cpu = fit(tmp_path, make_loader(4), Logging, {"learning_rate": 0.0}, accelerator="cpu")
    _, ipu = fit(
        tmp_path, make_loader(4), Logging, {"learning_rate": 0.0}, accelerator="ipu", devices=2,
        accumulate_grad_batches=2,
    )  # fmt: skip
    assert float(ipu.callback_metrics["samples"]) == 32
    for name in ("loss_epoch", "largest"):
        torch.testing.assert_close(ipu.callback_metrics[name], cpu.callback_metrics[name])


def test_strict_refuses_logs_in_a_step(tmp_path):
    with pytest.raises(MisconfigurationException, match=r"`self.log\('loss', …\)` is not supported in the step"):
        fit(tmp_path, make_loader(8), Logging, **strict())


@pytest.mark.parametrize(("algorithm", "size"), [("norm", 0.05), ("value", 0.01)])
def test_gradients_are_clipped_as_on_the_cpu(tmp_path, algorithm, size):
    settings = {"gradient_clip_val": size, "gradient_clip_algorithm": algorithm}
    free, _ = fit(tmp_path, make_loader(8), accelerator="cpu")
    expected, _, found, _ = fit_both(tmp_path, Classifier, make_loader(8), **settings)
    assert_same_training(expected, found)
    assert not torch.allclose(found.net[0].weight, free.net[0].weight, atol=1e-4)


def test_clipping_acts_on_the_mean_over_replicas_and_accumulation(tmp_path):
    settings = {"gradient_clip_val": 0.05, "gradient_clip_algorithm": "norm"}
    expected, _ = fit(tmp_path, make_loader(16), accelerator="cpu", **settings)
    found, _ = fit(tmp_path, make_loader(4), accelerator="ipu", devices=2, accumulate_grad_batches=2, **settings)
    assert_same_training(expected, found)


def test_a_module_may_choose_its_own_clipping(tmp_path):
    class Choosing(Classifier):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            size = 0.05 if self.trainer.global_step < 2 else 0.01
            self.clip_gradients(optimizer, gradient_clip_val=size, gradient_clip_algorithm="norm")

    expected, _, found, _ = fit_both(tmp_path, Choosing, make_loader(8))
    assert_same_training(expected, found)


def test_strict_refuses_clipping(tmp_path):
    with pytest.raises(MisconfigurationException, match="do not support clipping gradients"):
        fit(tmp_path, make_loader(8), **strict(gradient_clip_val=1.0))


def test_a_sampler_of_batches_serves_several_ipus(tmp_path):
    expected, _ = fit(tmp_path, DataLoader(make_data(), batch_sampler=Evens(32, 16)), accelerator="cpu")
    found, _ = fit(tmp_path, DataLoader(make_data(), batch_sampler=Evens(32, 4)), accelerator="ipu", devices=4)
    assert_same_training(expected, found)


def test_strict_refuses_a_sampler_of_batches_on_several_ipus(tmp_path):
    with pytest.raises(MisconfigurationException, match="batch sampler of its own"):
        fit(tmp_path, DataLoader(make_data(), batch_sampler=Evens(32, 4)), **strict(devices=4))


def test_an_iterable_dataset_serves_several_ipus(tmp_path):
    expected, _ = fit(tmp_path, DataLoader(Stream(), batch_size=16), accelerator="cpu")
    found, _ = fit(tmp_path, DataLoader(Stream(), batch_size=4), accelerator="ipu", devices=4)
    assert_same_training(expected, found)


def test_any_iterable_of_batches_serves_several_ipus(tmp_path):
    class Batches:
        def __init__(self, batch_size):
            self.batches = list(make_loader(batch_size))

        def __iter__(self):
            return iter(self.batches)

    expected, _ = fit(tmp_path, Batches(16), accelerator="cpu")
    found, _ = fit(tmp_path, Batches(8), accelerator="ipu", devices=2)
    assert_same_training(expected, found)


def test_transfer_hooks_see_and_change_each_batch(tmp_path):
    plain, _ = fit(tmp_path, make_loader(8), accelerator="cpu")
    expected, _, found, _ = fit_both(tmp_path, Transferring, make_loader(8))
    assert_same_training(expected, found)
    assert found.seen_losses != pytest.approx(plain.seen_losses)


@pytest.mark.parametrize("hook", ["transfer_batch_to_device", "on_after_batch_transfer"])
def test_strict_refuses_transfer_hooks(tmp_path, hook):
    model = make_model()
    setattr(model, hook, lambda batch, *others: batch)
    with pytest.raises(MisconfigurationException, match=f"Overriding `{hook}` is not supported with IPUs"):
        make_trainer(tmp_path, **strict()).fit(model, make_loader(8))


def test_two_optimizers_take_turns(tmp_path):
    expected, cpu, found, ipu = fit_both(tmp_path, TwoOptimizers, make_loader(8))
    assert ipu.global_step == cpu.global_step == 8
    assert_same_training(expected, found)
    for name in ("critic", "maker"):
        torch.testing.assert_close(ipu.callback_metrics[name], cpu.callback_metrics[name])


def test_one_optimizer_may_be_stepped_by_hand(tmp_path):
    class Manual(Classifier):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            loss = self.compute_loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            self.clip_gradients(optimizer, gradient_clip_val=0.05, gradient_clip_algorithm="norm")
            optimizer.step()
            self.lr_schedulers().step()
            return {"loss": loss}

        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    expected, _, found, _ = fit_both(tmp_path, Manual, make_loader(8))
    assert_same_training(expected, found)


def test_gradients_that_are_kept_from_call_to_call_are_refused(tmp_path):
    class Keeping(Classifier):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.manual_backward(self.compute_loss(batch))
            if batch_idx % 2:
                self.optimizers().step()

    with pytest.raises(MisconfigurationException, match="Gradients are not kept from call to call"):
        fit(tmp_path, make_loader(8), Keeping, accelerator="ipu", devices=1)


def test_several_updates_with_running_statistics_are_refused(tmp_path):
    class Normed(TwoOptimizers):
        def __init__(self):
            super().__init__()
            self.net["maker"] = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))

    with pytest.raises(MisconfigurationException, match="running statistics"):
        fit(tmp_path, make_loader(8), Normed, accelerator="ipu", devices=1)


def test_strict_refuses_two_optimizers(tmp_path):
    with pytest.raises(MisconfigurationException, match="only support one optimizer"):
        fit(tmp_path, make_loader(8), TwoOptimizers, **strict())


def test_numbers_that_change_are_noticed(tmp_path):
    expected, _, found, _ = fit_both(tmp_path, Branching, make_loader(8), max_epochs=2)
    assert_same_training(expected, found)


def test_strict_freezes_what_the_module_says(tmp_path):
    class Scaled(Classifier):
        scale = 1.0

        def training_step(self, batch, batch_idx):
            return self.compute_loss(batch) * self.scale

        def on_train_batch_end(self, outputs, batch, batch_idx):
            super().on_train_batch_end(outputs, batch, batch_idx)
            self.scale = 3.0

    plain, _ = fit(tmp_path, make_loader(8), accelerator="cpu")
    frozen, _ = fit(tmp_path, make_loader(8), Scaled, **strict())
    assert_same_training(plain, frozen)


def test_strict_passes_the_number_of_the_batch_as_a_tensor(tmp_path):
    with pytest.raises(Exception, match="bool"):
        fit(tmp_path, make_loader(8), Branching, **strict())


def test_a_step_that_never_stays_the_same_is_refused_with_the_reason(tmp_path):
    class Counting(Classifier):
        calls = 0

        def training_step(self, batch, batch_idx):
            return self.compute_loss(batch) * (1 + self.calls)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.calls += 1

    with pytest.raises(MisconfigurationException, match=r"`self.calls`, which the step reads"):
        fit(tmp_path, make_loader(1), Counting, accelerator="ipu", devices=1)


def test_metrics_are_updated_with_the_values_of_every_run(tmp_path):
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

    class Measured(Evaluated):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(3, average="micro")
            self.both = MetricCollection([MulticlassAccuracy(3), MulticlassF1Score(3)])

        def validation_step(self, batch, batch_idx):
            inputs, labels = batch
            scores = self(inputs)
            self.accuracy(scores, labels)
            self.log("accuracy", self.accuracy)
            self.both.update(scores, labels)

        def on_validation_epoch_end(self):
            self.log_dict(self.both.compute())
            self.both.reset()

    results = {}
    for accelerator, size, devices in (("cpu", 8, 1), ("ipu", 4, 2)):
        trainer = make_trainer(tmp_path, accelerator=accelerator, devices=devices)
        results[accelerator] = trainer.validate(make_model(Measured), make_loader(size), verbose=False)[0]
    assert results["ipu"] == pytest.approx(results["cpu"])


def test_lists_that_a_step_appends_to_get_the_values_of_every_run(tmp_path):
    class Collecting(Evaluated):
        def __init__(self):
            super().__init__()
            self.outputs = []

        def validation_step(self, batch, batch_idx):
            self.outputs.append(self(batch[0]))

    model = make_model(Collecting)
    make_trainer(tmp_path, accelerator="ipu", devices=2).validate(model, make_loader(4), verbose=False)
    with torch.no_grad():
        torch.testing.assert_close(torch.cat(model.outputs), model(make_data().tensors[0]))
    assert len(model.outputs) == 8


def test_accumulation_that_changes_during_training_is_refused(tmp_path):
    from lightning.pytorch.callbacks import GradientAccumulationScheduler

    callback = GradientAccumulationScheduler({0: 1, 1: 2})
    with pytest.raises(MisconfigurationException, match="accumulation is compiled"):
        fit(tmp_path, make_loader(8), accelerator="ipu", devices=1, max_epochs=2, callbacks=[callback])


def test_a_number_may_become_a_tensor_by_hand(tmp_path):
    class Making(Classifier):
        def training_step(self, batch, batch_idx):
            return self.compute_loss(batch) * torch.tensor(1.0 + batch_idx) + torch.full((), batch_idx).sum()

    expected, _, found, _ = fit_both(tmp_path, Making, make_loader(8))
    assert_same_training(expected, found)


def test_several_numbers_may_meet_tensors(tmp_path):
    class Scaled(Classifier):
        def training_step(self, batch, batch_idx):
            loss = self.compute_loss(batch["data"]) * batch["weight"]
            return loss + 0.1 * batch_idx if batch["mode"] == "odd" else loss

    class Batches:
        def __iter__(self):
            for index, data in enumerate(make_loader(8)):
                yield {"data": data, "weight": 0.5 * index, "mode": "odd" if index % 2 else "even"}

    expected, _, found, _ = fit_both(tmp_path, Scaled, Batches())
    assert_same_training(expected, found)


@pytest.mark.parametrize("read", [lambda model: model.current_epoch, lambda model: model.trainer.current_epoch])
def test_the_epoch_is_noticed(tmp_path, read):
    class Annealed(Classifier):
        def training_step(self, batch, batch_idx):
            return self.compute_loss(batch) * (1 + 0.5 * read(self))

    expected, _, found, _ = fit_both(tmp_path, Annealed, make_loader(8), max_epochs=3)
    assert_same_training(expected, found)


def test_a_logged_number_of_the_host_is_told_to_be_fixed(tmp_path):
    class Telling(Classifier):
        def training_step(self, batch, batch_idx):
            self.log("rate", self.optimizers().param_groups[0]["lr"])
            return self.compute_loss(batch)

    with pytest.warns(UserWarning, match="logs 'rate' as a Python number"):
        fit(tmp_path, make_loader(8), Telling, accelerator="ipu", devices=1)
