"""`IPUTrainingArguments`: defaults, older names, what cannot work, the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import HfArgumentParser, TrainingArguments
from transformers.trainer_utils import IntervalStrategy

import poptorch
from optimum.graphcore import IPUSeq2SeqTrainingArguments, IPUTrainingArguments


def test_defaults_are_those_of_an_ipu(tmp_path: Path) -> None:
    args = IPUTrainingArguments(output_dir=str(tmp_path))
    assert (args.per_device_train_batch_size, args.per_device_eval_batch_size) == (1, 1)
    assert (args.fp32, args.logging_nan_inf_filter, args.report_to) == (False, False, [])
    assert (args.gradient_accumulation_steps, args.ipu_config_overrides) == (1, None)
    assert args.device.type == "cpu"


def test_what_concerns_the_configuration_becomes_an_override(tmp_path: Path) -> None:
    args = IPUTrainingArguments(
        output_dir=str(tmp_path),
        gradient_accumulation_steps=4,
        auto_loss_scaling=True,
        gradient_checkpointing=True,
        ipu_config_overrides="device_iterations=2",
    )
    assert args.ipu_config_overrides == (
        "device_iterations=2,gradient_accumulation_steps=4,auto_loss_scaling=True,recompute_checkpoint_every_layer=True"
    )


def test_older_names_are_read_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning) as warned:
        args = IPUTrainingArguments(
            output_dir=str(tmp_path),
            evaluation_strategy="epoch",
            warmup_ratio=0.1,
            group_by_length=True,
            include_inputs_for_metrics=True,
            pod_type="pod16",
        )
    assert len(warned) == 5
    assert args.eval_strategy == IntervalStrategy.EPOCH
    assert args.get_warmup_steps(200) == 20
    assert (args.train_sampling_strategy, args.include_for_metrics, args.n_ipu) == ("group_by_length", ["inputs"], 16)
    assert "evaluation_strategy" not in args.to_dict()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"bf16": True}, "no bfloat16"),
        ({"torch_compile": True}, "compiled as a whole already"),
        ({"deepspeed": "config.json"}, "IPUConfig"),
        ({"auto_find_batch_size": True}, "known from the plan"),
        ({"fp16": True, "fp32": True}, "both set"),
        ({"n_ipu": 3}, "n_ipu=3"),
        ({"dataloader_mode": "soon"}, "dataloader_mode='soon'"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        IPUTrainingArguments(output_dir=str(tmp_path), **fields)


def test_the_command_line_knows_all_of_them(tmp_path: Path) -> None:
    (args,) = HfArgumentParser(IPUSeq2SeqTrainingArguments).parse_args_into_dataclasses(
        [
            *("--output_dir", str(tmp_path), "--n_ipu", "4", "--lamb", "--loss_scaling", "64"),
            *("--dataloader_mode", "async_rebatched", "--predict_with_generate", "--pad_on_batch_axis"),
        ]
    )
    assert (args.n_ipu, args.lamb, args.loss_scaling, args.predict_with_generate) == (4, True, 64.0, True)
    assert args.dataloader_mode == poptorch.DataLoaderMode.AsyncRebatched
    assert args.to_dict()["dataloader_mode"] == "async_rebatched"
    assert '"n_ipu": 4' in args.to_json_string()


def test_plain_arguments_mean_float32(tmp_path: Path) -> None:
    plain = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, learning_rate=1e-3)
    args = IPUTrainingArguments.from_training_arguments(plain)
    assert (args.fp32, args.learning_rate, args.per_device_train_batch_size) == (True, 1e-3, 8)
