"""Speech models as static graphs: LayerDrop, SpecAugment, CTC and Wav2Vec2's pre-training."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import transformers
from matrix_vision_audio import FRAMES, SPEECH, make_pretraining_config, make_sounds, make_speech

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.modeling.extension import Extension, extend_class
from optimum.graphcore.modeling_utils import to_pipelined
from optimum.graphcore.models.speech.spec_augment import draw_spans

CONFIG = IPUConfig(executable_cache_dir="disabled")


def train(model: Any, batch: dict[str, torch.Tensor], calls: int, learning_rate: float = 0.0) -> list[float]:
    """The losses of some calls on the same batch."""
    pipelined = to_pipelined(model, CONFIG).parallelize().train()
    optimizer = poptorch.optim.SGD(pipelined.parameters(), lr=learning_rate)
    executor = poptorch.trainingModel(pipelined, CONFIG.to_options(), optimizer)
    losses = [float(executor(**batch)["loss"]) for _ in range(calls)]
    executor.destroy()
    return losses


def make_hubert(**changes: Any) -> Any:
    torch.manual_seed(0)
    return transformers.HubertForSequenceClassification(transformers.HubertConfig(**{**SPEECH, **changes}))


def test_layer_drop_is_drawn_anew_for_every_call():
    losses = train(make_hubert(layerdrop=0.5), make_sounds(2), calls=8)
    assert 1 < len(set(losses)) <= 2**2  # each of two layers is there or not


def test_a_layer_that_is_always_dropped_leaves_what_it_got():
    model = make_hubert(layerdrop=1.0)
    without_layers = copy.deepcopy(model)
    without_layers.hubert.encoder.layers = torch.nn.ModuleList()
    expected = without_layers.eval()(**make_sounds(2)).loss
    assert train(model, make_sounds(2), calls=1) == pytest.approx([expected.item()], abs=1e-6)


def test_layer_drop_is_for_training_only_and_undone():
    model = make_hubert(layerdrop=1.0)
    pipelined = to_pipelined(model, CONFIG).parallelize().eval()
    torch.testing.assert_close(pipelined(**make_sounds(2)).logits, model.eval()(**make_sounds(2)).logits)
    pipelined.deparallelize()
    assert type(pipelined.hubert.encoder) is type(model.hubert.encoder)
    hooks = [hook for layer in pipelined.hubert.encoder.layers for hook in layer._forward_hooks.values()]
    assert "_DropLayer" not in {type(hook).__name__ for hook in hooks}


class Doubled(Extension):
    """Twice what the module computes."""

    def forward(self, *args: Any) -> Any:
        return 2 * super().forward(*args)


def test_a_module_of_an_extended_class_can_be_copied_and_pickled():
    module = torch.nn.Linear(2, 2)
    expected = 2 * module(torch.ones(2))
    module.__class__ = extend_class(Doubled, torch.nn.Linear)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(copied) is type(module)
        torch.testing.assert_close(copied(torch.ones(2)), expected)


def test_hidden_states_of_all_layers_may_be_weighed():
    model = make_hubert(use_weighted_layer_sum=True)
    expected = model.train()(**make_sounds(2)).loss.item()
    assert train(model, make_sounds(2), calls=1) == pytest.approx([expected], abs=1e-6)


@pytest.mark.parametrize("head", ["HubertForCTC", "Wav2Vec2ForCTC"])
def test_half_precision_has_nearly_the_loss_of_float32(head):
    torch.manual_seed(0)
    config = getattr(transformers, head).config_class(**SPEECH)
    model = getattr(transformers, head)(config)
    expected = model.train()(**make_speech(2)).loss.item()
    batch = {name: value.half() if value.is_floating_point() else value for name, value in make_speech(2).items()}
    assert train(model.half(), batch, calls=1) == pytest.approx([expected], rel=0.01)


def test_spec_augment_is_drawn_anew_for_every_call():
    changes = {"apply_spec_augment": True, "mask_time_prob": 0.4, "mask_time_length": 2}
    assert len(set(train(make_hubert(**changes), make_sounds(2), calls=4))) == 4


def test_spans_have_their_length_and_share_of_the_places():
    torch.manual_seed(0)
    masks = [draw_spans(torch.rand(50, 100), torch.rand([]), 0.25, 10, 0) for _ in range(20)]
    counts = torch.stack(masks).sum(-1).float()
    # 0.25 x 100 / 10 = 2.5 spans: 2 in half of the calls, 3 in the others. Spans may overlap.
    assert counts.min() >= 10
    assert counts.max() <= 30
    assert 18 < counts.mean() < 25
    in_rows = torch.cat(masks).int()
    starts = (in_rows.diff(dim=-1) == 1).sum() + in_rows[:, 0].sum()
    assert counts.sum() / starts >= 10  # a run of masked places is a span, or several that touch


def test_spans_keep_within_the_length_of_an_example():
    torch.manual_seed(0)
    mask = draw_spans(torch.rand(3, 40), torch.tensor(0.5), 0.5, 5, 2, torch.tensor([40, 12, 3]))
    assert mask[0].any()
    assert mask[1, :12].any()
    assert not mask[1, 12:].any()
    assert not mask[2].any()  # too short for a span


def test_a_span_longer_than_the_example_is_refused():
    with pytest.raises(ValueError, match="A mask of SpecAugment is 10 long, but there are 8 places"):
        draw_spans(torch.rand(2, 8), torch.tensor(0.0), 0.5, 10, 0)


def test_labels_that_count_need_not_stand_together():
    torch.manual_seed(0)
    model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**SPEECH))
    batch = {**make_speech(2), "labels": torch.tensor([[3, -100, 5], [0, 4, 0]])}
    assert train(model, batch, calls=1) == pytest.approx([model.train()(**batch).loss.item()], abs=1e-5)


def test_a_label_outside_of_the_vocabulary_shows():
    torch.manual_seed(0)
    model = transformers.HubertForCTC(transformers.HubertConfig(**SPEECH))
    batch = {**make_speech(2), "labels": torch.tensor([[3, 5, 99], [4, 4, 6]])}
    assert train(model, batch, calls=1) == pytest.approx([float("nan")], nan_ok=True)
    with pytest.raises(ValueError, match="Label values must be <= vocab_size: 16"):
        to_pipelined(model, CONFIG)(**batch)


@pytest.fixture
def no_gumbel_noise(monkeypatch):
    """The quantizer trains without noise, so that two runs can be compared."""

    def soften(logits: torch.Tensor, tau: float | torch.Tensor, hard: bool) -> torch.Tensor:
        soft = (logits / tau).softmax(-1)
        chosen = torch.nn.functional.one_hot(soft.argmax(-1), soft.shape[-1])
        return chosen - soft.detach() + soft

    monkeypatch.setattr(torch.nn.functional, "gumbel_softmax", soften)


def make_pretraining() -> Any:
    torch.manual_seed(0)
    return transformers.Wav2Vec2ForPreTraining(make_pretraining_config())


def make_pretraining_batch(batch_size: int) -> dict[str, torch.Tensor]:
    """Two negatives for each frame, numbered within each example."""
    mask = torch.zeros(batch_size, FRAMES, dtype=torch.bool)
    mask[:, 1:4] = True
    negatives = torch.stack([(torch.arange(FRAMES) + shift) % FRAMES for shift in (1, 3)], dim=-1)
    return {
        "input_values": make_sounds(batch_size)["input_values"],
        "mask_time_indices": mask,
        "sampled_negative_indices": negatives.expand(batch_size, -1, -1).clone(),
    }


def number_through(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Negatives as Transformers numbers them: through all examples of a batch."""
    examples = torch.arange(batch["input_values"].shape[0]).view(-1, 1, 1)
    return {**batch, "sampled_negative_indices": batch["sampled_negative_indices"] + FRAMES * examples}


@pytest.mark.parametrize("ipus", [1, 4])
def test_pretraining_takes_the_step_of_transformers(no_gumbel_noise, ipus):
    model = make_pretraining()
    micro_batches = 8 if ipus == 4 else 1
    config = IPUConfig(
        layers_per_ipu=[3, 2, 2, 1] if ipus == 4 else [-1],
        gradient_accumulation_steps=micro_batches,
        output_mode="all",
        executable_cache_dir="disabled",
    )
    batch = make_pretraining_batch(2 * micro_batches)
    pipelined = to_pipelined(model, config).parallelize().train()
    optimizer = poptorch.optim.SGD(pipelined.parameters(), lr=0.05)
    executor = poptorch.trainingModel(pipelined, config.to_options(), optimizer)
    losses = executor(**number_through(batch))["loss"].reshape(-1)
    executor.copyWeightsToHost()
    parts = [
        {name: value[start : start + 2] for name, value in batch.items()} for start in range(0, len(losses) * 2, 2)
    ]
    expected = torch.stack([model.train()(**number_through(part)).loss for part in parts])
    expected.mean().backward()
    torch.optim.SGD(model.parameters(), lr=0.05).step()
    torch.testing.assert_close(losses, expected.detach(), rtol=1e-5, atol=1e-5)
    trained = pipelined.deparallelize().state_dict()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(trained[name], value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: name + text)


def test_negatives_may_be_numbered_in_either_way(no_gumbel_noise):
    batch = make_pretraining_batch(2)
    assert train(make_pretraining(), batch, calls=1) == train(make_pretraining(), number_through(batch), calls=1)


def test_the_gumbel_temperature_is_an_input(no_gumbel_noise):
    model = make_pretraining()
    pipelined = to_pipelined(model, CONFIG).parallelize().train()
    optimizer = poptorch.optim.SGD(pipelined.parameters(), lr=0.05)
    executor = poptorch.trainingModel(pipelined, CONFIG.to_options(), optimizer)
    batch = make_pretraining_batch(2)
    reference = torch.optim.SGD(model.parameters(), lr=0.05)
    for temperature in (2.0, 0.5):
        executor(**batch, gumbel_temperature=torch.full((2,), temperature))
        model.set_gumbel_temperature(temperature)
        reference.zero_grad()
        model.train()(**number_through(batch)).loss.backward()
        reference.step()
    executor.copyWeightsToHost()
    torch.testing.assert_close(pipelined.quantizer.weight_proj.weight, model.quantizer.weight_proj.weight)


def test_pretraining_in_half_precision_has_nearly_the_loss_of_float32(no_gumbel_noise):
    batch = make_pretraining_batch(2)
    expected = train(make_pretraining(), batch, calls=1)
    batch["input_values"] = batch["input_values"].half()
    # A frame or two may choose another code vector.
    assert train(make_pretraining().half(), batch, calls=1) == pytest.approx(expected, rel=0.1)


def test_gumbel_noise_is_drawn_anew_for_every_call():
    assert len(set(train(make_pretraining(), make_pretraining_batch(2), calls=4))) == 4


def test_the_loss_may_be_computed_on_masked_frames_only(no_gumbel_noise):
    batch = make_pretraining_batch(2)
    chosen = torch.tensor([[1, 2, 3, 5]]).expand(2, -1)  # three masked frames, and one to fill up
    negatives = torch.tensor([[1, 2], [0, 3], [3, 0], [1, 1]]).expand(2, -1, -1)
    reduced = {
        **batch,
        "sampled_negative_indices": negatives,
        "reduce_selector": chosen,
        "mask_reduced": torch.tensor([[1, 1, 1, 0]]).expand(2, -1),
    }
    full = batch["sampled_negative_indices"].clone()
    full[:, [1, 2, 3, 5]] = chosen[:, None].expand(-1, 4, -1).gather(-1, negatives)  # the same frames, by full numbers
    expected = train(make_pretraining(), {**batch, "sampled_negative_indices": full}, calls=1)
    assert train(make_pretraining(), reduced, calls=1) == pytest.approx(expected, rel=1e-5)


def test_lxmert_takes_a_score_for_each_answer():
    from matrix_vision_audio import make_lxmert_config, make_questions

    torch.manual_seed(0)
    model = transformers.LxmertForQuestionAnswering(make_lxmert_config())
    scores = torch.tensor([[0.0, 1.0, 0.3], [0.6, 0.0, 0.0]])
    batch = {**make_questions(2), "labels": scores}
    answers = model(**{**batch, "labels": None}).question_answering_score
    expected = torch.nn.functional.binary_cross_entropy_with_logits(answers, scores)
    assert train(model, batch, calls=1) == pytest.approx([expected.item()], abs=1e-6)
