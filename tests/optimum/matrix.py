"""The table of pipelined classes, and the comparison of one row with its Transformers class.

A file `matrix_<group>.py` beside this one holds a list `ROWS`; name the file in `GROUPS`. `test_matrix.py` runs every
row on 1 and on 4 modelled IPUs. A row is a class, a tiny configuration without dropout, and a batch:

    Row(
        "bert.PipelinedBertForMaskedLM",    # under optimum.graphcore.models
        "BertForMaskedLM",                  # under transformers, or a class
        make_config,                        # () -> configuration
        make_batch,                         # (batch size) -> inputs of forward by name, labels included
        labels=("labels",),                 # which inputs are labels: left out for inference; () if nothing is trained
        on_four={"layers_per_ipu": [0, 1, 1, 0]},  # fields of the IPUConfig for 4 IPUs
    )
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils import _pytree as pytree

import poptorch
from optimum.graphcore import IPUConfig
from optimum.graphcore.modeling_utils import PipelineMixin, to_pipelined

GROUPS = ("matrix_encoders", "matrix_decoders", "matrix_vision_audio")
MICRO_BATCHES = 8  # a pipeline of 4 stages needs 7, those that return to the first IPU no more
LEARNING_RATE = 0.1


@dataclass(frozen=True)
class Row:
    """A pipelined class and what to try it with."""

    pipelined: str
    original: str | type
    make_config: Callable[[], Any]
    make_batch: Callable[[int], dict[str, torch.Tensor]]
    labels: tuple[str, ...] = ("labels",)
    on_one: Mapping[str, Any] = field(default_factory=dict)
    on_four: Mapping[str, Any] = field(default_factory=lambda: {"layers_per_ipu": [0, 1, 1, 0]})
    ignored_outputs: tuple[str, ...] = ("past_key_values",)  # no tensors, or not returned by the pipelined class
    tolerance: float = 1e-5

    @property
    def name(self) -> str:
        return self.pipelined.rpartition(".")[2].removeprefix("Pipelined")

    def find_original(self) -> type:
        return getattr(transformers, self.original) if isinstance(self.original, str) else self.original

    def find_pipelined(self) -> type:
        module, _, name = self.pipelined.rpartition(".")
        return getattr(importlib.import_module(f"optimum.graphcore.models.{module}"), name)

    def make_original(self) -> Any:
        torch.manual_seed(0)
        return self.find_original()(self.make_config())

    def make_ipu_config(self, ipus: int) -> IPUConfig:
        fields = {"output_mode": "all", "executable_cache_dir": "disabled"}
        if ipus == 1:
            return IPUConfig(**{**fields, "layers_per_ipu": [-1], **self.on_one})
        config = IPUConfig(**{**fields, "gradient_accumulation_steps": MICRO_BATCHES, **self.on_four})
        assert config.ipus_per_replica == ipus
        return config

    def make_pipelined(self, original: Any, ipus: int) -> Any:
        model = to_pipelined(original, self.make_ipu_config(ipus))
        assert type(model) is self.find_pipelined()
        assert isinstance(model, PipelineMixin)
        return model


def collect_rows() -> list[Row]:
    """The rows of all groups that are there."""
    here = Path(__file__).parent
    found = [importlib.import_module(group) for group in GROUPS if (here / f"{group}.py").exists()]
    return [row for module in found for row in module.ROWS]


def compare_outputs(row: Row, original: Any, pipelined: Any) -> None:
    """What an inference executor returns for a batch of 2 is what the Transformers class returns."""
    batch = {name: value for name, value in row.make_batch(2).items() if name not in row.labels}
    options = pipelined.ipu_config.to_options(for_inference=True)
    pipelined.ipu_config.eval()
    executor = poptorch.inferenceModel(pipelined.parallelize().eval(), options)
    actual = executor(**batch)
    with torch.no_grad():
        expected = original.eval()(**batch)
    _compare(_list_tensors(row, actual), _list_tensors(row, expected), row.tolerance)
    pipelined.ipu_config.train()
    pipelined.deparallelize()


def compare_training(row: Row, original: Any, pipelined: Any) -> None:
    """One step of SGD has the losses of the Transformers class, and ends with its weights."""
    micro_batches = pipelined.ipu_config.gradient_accumulation_steps
    batch = row.make_batch(micro_batches * (2 if micro_batches == 1 else 1))
    options = pipelined.ipu_config.to_options()
    pipelined.parallelize().train()
    optimizer = poptorch.optim.SGD(pipelined.parameters(), lr=LEARNING_RATE)
    executor = poptorch.trainingModel(pipelined, options, optimizer)
    actual = _find_loss(executor(**batch)).reshape(-1)
    executor.copyWeightsToHost()
    executor.destroy()
    pipelined.deparallelize()
    original.train()
    parts = {name: value.chunk(micro_batches) for name, value in batch.items()}
    losses = [
        _find_loss(original(**{name: value[index] for name, value in parts.items()})) for index in range(micro_batches)
    ]
    torch.stack(losses).mean().backward()
    torch.optim.SGD(original.parameters(), lr=LEARNING_RATE).step()
    torch.testing.assert_close(actual, torch.stack(losses).detach(), rtol=row.tolerance, atol=row.tolerance)
    trained, expected = pipelined.state_dict(), original.state_dict()
    assert list(trained) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(
            trained[name], value, rtol=row.tolerance, atol=row.tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def compare_checkpoint(row: Row, pipelined: Any, directory: Path) -> None:
    """A checkpoint of the parallelised model is one of the Transformers class, and loads into both classes."""
    weights = {name: value.clone() for name, value in pipelined.state_dict().items()}
    pipelined.parallelize()
    names = list(pipelined.state_dict())
    pipelined.save_pretrained(directory)
    assert list(pipelined.state_dict()) == names  # still parallelised
    pipelined.deparallelize()
    assert transformers.AutoConfig.from_pretrained(directory).architectures == [row.find_original().__name__]
    for kind in (row.find_original(), row.find_pipelined()):
        loaded = kind.from_pretrained(directory).state_dict()
        assert list(loaded) == list(weights)
        assert all(torch.equal(loaded[name], value) for name, value in weights.items())


def _find_loss(outputs: Any) -> torch.Tensor:
    if isinstance(outputs, torch.Tensor):
        return outputs
    return outputs["loss"] if isinstance(outputs, dict) else outputs[0]


def _list_tensors(row: Row, outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, dict):
        outputs = [value for name, value in outputs.items() if name not in row.ignored_outputs]
    leaves = pytree.tree_leaves(list(outputs) if isinstance(outputs, tuple) else outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _compare(actual: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float) -> None:
    assert expected, "the row compares nothing"
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
