"""Batches of fixed shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from tiny_models import make_tokenizer
from trainer_cases import LENGTH, make_data, make_ipu_trainer, make_model
from transformers import DataCollatorForSeq2Seq, DataCollatorWithPadding, default_data_collator

from optimum.graphcore import IPUConfig
from optimum.graphcore.data import (
    DataCollatorForLanguageModelingWithMaxTokensMasked,
    find_longest,
    fix_padding,
    pad_on_batch_axis,
)
from optimum.graphcore.utils import check_min_version


def test_a_short_batch_is_filled_with_its_own_examples() -> None:
    collate = pad_on_batch_axis(5)(default_data_collator)
    batch = collate([{"input_ids": [1, 2]}, {"input_ids": [3, 4]}])
    assert batch["input_ids"].tolist() == [[1, 2], [3, 4], [1, 2], [3, 4], [1, 2]]
    assert collate([{"input_ids": [1]}] * 5)["input_ids"].shape == (5, 1)


def test_a_row_never_has_more_masked_tokens_than_told() -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    collator = DataCollatorForLanguageModelingWithMaxTokensMasked(32, tokenizer, mlm_probability=0.15)
    assert collator.max_num_masked_tokens == 16  # ceil16(32 x 0.15 + 2 x sqrt(32 x 0.15 x 0.85)) = ceil16(8.8)
    collator.max_num_masked_tokens = 3
    tokens = torch.randint(5, len(tokenizer), (200, 32))
    batch = collator([{"input_ids": row.tolist()} for row in tokens])
    assert type(batch) is dict
    chosen = batch["labels"] != -100
    assert chosen.sum(1).max() == 3
    assert 2.5 < chosen.sum(1).float().mean() <= 3  # about 5 would be chosen without the limit
    assert torch.equal(batch["labels"][chosen], tokens[chosen])
    assert torch.equal(batch["input_ids"][~chosen], tokens[~chosen])
    masked = (batch["input_ids"] == tokenizer.mask_token_id)[chosen].float().mean()
    assert 0.7 < masked < 0.9


def test_special_tokens_are_never_masked() -> None:
    tokenizer = make_tokenizer()
    collator = DataCollatorForLanguageModelingWithMaxTokensMasked(8, tokenizer, mlm_probability=1.0)
    row = [tokenizer.cls_token_id, *range(10, 16), tokenizer.sep_token_id]
    labels = collator([{"input_ids": row}])["labels"][0]
    assert labels[0] == labels[-1] == -100
    assert (labels[1:-1] != -100).all()


@pytest.mark.parametrize("kind", [DataCollatorWithPadding, DataCollatorForSeq2Seq])
def test_dynamic_padding_becomes_padding_to_one_length(kind: Any) -> None:
    rows = [{"input_ids": [5] * count, "labels": [5] * (count // 2)} for count in (3, 11)]
    fixed = fix_padding(kind(make_tokenizer()), [rows, None])
    assert (fixed.padding, fixed.max_length) == ("max_length", 16)
    assert find_longest(datasets.Dataset.from_list(rows)) == 11
    given = kind(make_tokenizer(), padding="max_length", max_length=12)
    assert fix_padding(given, [rows]) is given
    assert fix_padding(default_data_collator, [rows]) is default_data_collator


def test_a_dataset_loses_columns_that_the_model_does_not_take(tmp_path: Path) -> None:
    rows = [{**example, "text": "words", "input_ids": example["input_ids"].tolist()} for example in make_data(8)]
    dataset = datasets.Dataset.from_list(rows).with_format("torch")
    trainer = make_ipu_trainer(make_model(), tmp_path, dataset, dataset, per_device_train_batch_size=4)
    batch = next(iter(trainer.get_train_dataloader()))
    assert {name: tuple(value.shape) for name, value in batch.items()} == {
        "input_ids": (4, LENGTH),
        "attention_mask": (4, LENGTH),
        "labels": (4,),
    }
    trainer.train()
    assert trainer.state.global_step == 6


def test_padding_on_the_batch_axis_keeps_the_last_examples(tmp_path: Path) -> None:
    settings = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 1}
    short = make_ipu_trainer(make_model(), tmp_path, make_data(6), **settings)
    padded = make_ipu_trainer(make_model(), tmp_path, make_data(6), pad_on_batch_axis=True, **settings)
    assert (len(short.get_train_dataloader()), len(padded.get_train_dataloader())) == (1, 2)
    assert padded.train().global_step == 2


@pytest.mark.parametrize("mode", ["async", "async_rebatched"])
def test_asynchronous_loaders_give_the_same_batches(tmp_path: Path, mode: str) -> None:
    trainer = make_ipu_trainer(
        make_model(), tmp_path, make_data(8), config=IPUConfig(device_iterations=2), dataloader_mode=mode
    )
    usual = make_ipu_trainer(make_model(), tmp_path, make_data(8), config=IPUConfig(device_iterations=2))
    loader = trainer.get_train_dataloader()
    try:
        found = [batch["input_ids"].clone() for batch in loader]
    finally:
        loader.terminate()
    assert torch.equal(torch.cat(found), torch.cat([batch["input_ids"] for batch in usual.get_train_dataloader()]))


class _Stream(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(make_data(12))


def test_streams_are_trained_on_and_evaluated(tmp_path: Path) -> None:
    settings = {"max_steps": 4, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 5}
    trainer = make_ipu_trainer(make_model(), tmp_path, _Stream(), _Stream(), **settings)
    assert trainer.train().global_step == 4  # 3 batches of the stream, then its first again
    assert trainer.predict(_Stream()).predictions.shape == (12, 3)


def test_a_script_can_ask_for_a_version() -> None:
    check_min_version("0.7.0")
    with pytest.raises(ImportError, match=r"minimum version of 99\.0"):
        check_min_version("99.0")
