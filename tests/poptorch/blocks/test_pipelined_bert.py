"""A 12-layer BERT over 4 IPUs with accumulation and recomputation: numerics of PyTorch, plan of a pipeline."""

import copy

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import poptorch
from openipu.plan import VariableKind

ACCUMULATION = 8


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=12,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=3,
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, tokens, labels):
        logits = self.bert(input_ids=tokens).logits
        return logits, nn.functional.cross_entropy(logits, labels)


@pytest.fixture(scope="module")
def trained():
    """Losses of ours and of eager PyTorch, and the plan."""
    torch.manual_seed(0)
    model = Classifier()
    reference = copy.deepcopy(model)
    for ipu, layer in enumerate((3, 6, 9), start=1):
        poptorch.BeginBlock(model.bert.bert.encoder.layer[layer], f"stage {ipu}", ipu_id=ipu)
    options = poptorch.Options().showCompilationProgressBar(False).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(ACCUMULATION)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.05))
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.05)
    ours, expected = [], []
    for _ in range(5):
        tokens, labels = torch.randint(0, 100, (2 * ACCUMULATION, 12)), torch.randint(0, 3, (2 * ACCUMULATION,))
        ours.append(training(tokens, labels)[1])
        optimizer.zero_grad()
        for part, target in zip(tokens.chunk(ACCUMULATION), labels.chunk(ACCUMULATION), strict=True):
            loss = reference(part, target)[1]
            (loss / ACCUMULATION).backward()
            expected.append(loss.item())
        optimizer.step()
    return torch.cat(ours), torch.tensor(expected), training._compiled.plan


def test_it_trains_as_plain_pytorch_does(trained):
    ours, expected, _ = trained
    assert torch.allclose(ours, expected, atol=1e-5, rtol=0)


def test_its_plan_fills_and_drains_a_pipeline_of_seven_stages(trained):
    pipeline = trained[2].pipeline
    assert [stage.ipu for stage in pipeline.stages] == [0, 1, 2, 3, 2, 1, 0]
    assert len(pipeline.fill_cycles) == len(pipeline.drain_cycles) == 6
    assert pipeline.steady_ticks == ACCUMULATION - 6
    assert pipeline.fill_cycles[0] < pipeline.steady_cycles


def test_its_layers_lie_on_four_ipus(trained):
    plan = trained[2]
    assert plan.ipus == 4
    for variable in plan.variables:
        if variable.kind is VariableKind.PARAMETER and ".encoder.layer." in variable.name:
            layer = int(variable.name.split(".encoder.layer.")[1].split(".")[0])
            assert variable.ipu == layer // 3, variable.name


def test_all_stages_but_the_last_make_their_activations_again(trained):
    plan = trained[2]
    again = {op.ipu for op in plan.ops if op.name.endswith("(again)")}
    assert again == {0, 1, 2}
    stash = [sum(v.bytes for v in plan.variables if v.kind is VariableKind.STASH and v.ipu == ipu) for ipu in range(4)]
    assert stash[3] == 0
    assert stash[1] > stash[2] > 0, "the further from the end, the more micro-batches wait"
