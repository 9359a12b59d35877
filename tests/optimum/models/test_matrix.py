"""Every pipelined class against its Transformers class: outputs, a training step, a checkpoint. Rows: matrix.py."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from matrix import Row, collect_rows, compare_checkpoint, compare_outputs, compare_training

from optimum.graphcore import models
from optimum.graphcore.modeling_utils import _PRETRAINED_TO_PIPELINED_REGISTRY

TEXT = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
CLASSES = {  # the matrix: a family, and what it can do
    "Bart": ("ForConditionalGeneration", "ForSequenceClassification"),
    "Bert": ("Model", "ForPreTraining", "ForMaskedLM", "ForMultipleChoice", *TEXT),
    "ConvNext": ("ForImageClassification",),
    "Deberta": ("ForMaskedLM", *TEXT),
    "DistilBert": ("ForMaskedLM", "ForMultipleChoice", *TEXT),
    "GPT2": ("LMHeadModel", "ForSequenceClassification", "ForTokenClassification"),
    "GroupBert": ("ForPreTraining", "ForMaskedLM", "ForMultipleChoice", *TEXT),
    "Hubert": ("ForSequenceClassification", "CTC"),
    "Lxmert": ("ForQuestionAnswering",),
    "MPNet": ("Model", "ForMaskedLM"),
    "MT5": ("ForConditionalGeneration",),
    "Roberta": ("ForMaskedLM", "ForMultipleChoice", *TEXT),
    "T5": ("ForConditionalGeneration", "EncoderModel"),
    "ViT": ("ForImageClassification",),
    "Wav2Vec2": ("ForPreTraining", "ForCTC"),
    "Whisper": ("ForConditionalGeneration",),
}


FIRST = {f"{family}{tasks[0]}" for family, tasks in CLASSES.items()}  # stands for its family on one IPU


def list_cases():
    for row in collect_rows():
        yield pytest.param(row, 4, id=f"{row.name}-4")
        marks = () if row.name in FIRST else pytest.mark.thorough
        yield pytest.param(row, 1, id=f"{row.name}-1", marks=marks)


@pytest.mark.parametrize(("row", "ipus"), [*list_cases()])
def test_a_pipelined_class_equals_its_transformers_class(row: Row, ipus: int, tmp_path):
    original = row.make_original()
    pipelined = row.make_pipelined(original, ipus)
    compare_outputs(row, original, pipelined)
    if row.labels:
        compare_training(row, original, pipelined)
    compare_checkpoint(row, pipelined, tmp_path)


def test_the_rows_are_the_whole_matrix():
    expected = {f"{family}{task}" for family, tasks in CLASSES.items() for task in tasks}
    assert len(expected) == 45
    assert {row.name for row in collect_rows()} == expected


def test_every_registered_class_has_a_row():
    for family in pkgutil.iter_modules(models.__path__):
        importlib.import_module(f"{models.__name__}.{family.name}")
    registered = {
        (original, pipelined)
        for original, pipelined in _PRETRAINED_TO_PIPELINED_REGISTRY.items()
        if pipelined.__module__.startswith(models.__name__)
    }
    assert registered == {(row.find_original(), row.find_pipelined()) for row in collect_rows()}
