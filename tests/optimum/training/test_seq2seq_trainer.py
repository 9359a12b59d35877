"""`IPUSeq2SeqTrainer`: evaluation by what the model generates; and a split that the plan chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from trainer_cases import make_data, make_ipu_trainer, make_model
from transformers import T5Config, T5ForConditionalGeneration

from optimum.graphcore import IPUConfig, IPUSeq2SeqTrainer, IPUSeq2SeqTrainingArguments

WORDS = 24


def make_text_model() -> T5ForConditionalGeneration:
    torch.manual_seed(0)
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=WORDS,
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=1,
            num_heads=2,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


def make_pairs(count: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(3, WORDS, (count, 5), generator=generator)
    end = torch.tensor([1])
    return [{"input_ids": row, "attention_mask": torch.ones(5).long(), "labels": torch.cat([row, end])} for row in rows]


@pytest.mark.parametrize("beams", [1, 2])
def test_predictions_are_what_the_trained_model_generates(
    tmp_path: Path, beams: int, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, seen = make_pairs(16), []
    args = IPUSeq2SeqTrainingArguments(
        output_dir=str(tmp_path),
        fp32=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        num_train_epochs=2,
        learning_rate=1e-2,
        predict_with_generate=True,
        generation_max_length=8,
        generation_num_beams=beams,
        eval_strategy="epoch",
        disable_tqdm=True,
    )

    def look(found: Any) -> dict[str, float]:
        seen.append(found.predictions)
        return {"length": found.predictions.shape[1]}

    model = make_text_model()
    trainer = IPUSeq2SeqTrainer(
        model, IPUConfig(), args, train_dataset=pairs, eval_dataset=pairs[:6], compute_metrics=look
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_length"] == 8
    assert metrics["eval_loss"] > 0
    assert len(seen) == 3  # after each epoch, and now
    inputs = torch.stack([pair["input_ids"] for pair in pairs[:6]])
    expected = model.eval().generate(inputs, max_length=8, num_beams=beams)
    assert torch.equal(torch.tensor(seen[-1])[:, : expected.shape[1]], expected)
    assert trainer.predict(pairs[:3], max_length=6).predictions.shape == (3, 6)
    assert "Graph compilation" not in capsys.readouterr().err  # bars are off, those of `generate` as well


def test_auto_layers_are_settled_from_the_first_batch(tmp_path: Path) -> None:
    config = IPUConfig(layers_per_ipu="auto", ipus_per_replica=2, gradient_accumulation_steps=4)
    settings = {"per_device_train_batch_size": 2, "num_train_epochs": 1}
    trainer = make_ipu_trainer(make_model(layers=4), tmp_path, make_data(16), config=config, **settings)
    assert sum(trainer.ipu_config.layers_per_ipu) == 4
    assert trainer.ipu_config.ipus_per_replica == len(trainer.ipu_config.layers_per_ipu) == 2
    assert trainer.train().global_step == 2
    assert trainer.state.ipu["training"]["ipus"] == 2
    assert config.layers_per_ipu == "auto"  # the user's own is left alone
