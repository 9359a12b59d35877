"""Whole models through capture: attention, recurrence, embeddings, tied weights."""

import copy

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import RunOptions
from openipu.run import Executable


class Encoder(nn.Module):
    """Embedding, attention, and an output layer tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.output = nn.Linear(16, 20, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens, labels):
        scores = self.output(self.layer(self.embedding(tokens)))
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(20, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 20)

    def forward(self, tokens, labels):
        states, _ = self.lstm(self.embedding(tokens))
        return nn.functional.cross_entropy(self.head(states).flatten(0, 1), labels.flatten())


@pytest.mark.parametrize("make_model", [Encoder, Recurrent])
def test_training_equals_eager_pytorch(start_training, make_model):
    torch.manual_seed(0)
    model = make_model()
    reference = copy.deepcopy(model)
    leaves = (torch.randint(0, 20, (2, 5)), torch.randint(0, 20, (2, 5)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    reference_optimizer = torch.optim.Adam(reference.parameters(), lr=1e-3)
    trained = start_training(model, optimizer, leaves, RunOptions(training=True))
    for _ in range(10):
        (loss,) = trained.executable.run(leaves).outputs
        reference_optimizer.zero_grad()
        expected = reference(*leaves)
        expected.backward()
        reference_optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), atol=1e-5, rtol=1e-5)


def test_inference_equals_eager_pytorch_on_every_micro_batch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)).eval()
    images = torch.randn(8, 3, 6, 6)
    program = capture_program(model, (images[:2],), {}, training=False, optimizer=None, name="net")
    executable = Executable(program, RunOptions(device_iterations=2, replicas=2))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    (scores,) = executable.run([images]).outputs
    torch.testing.assert_close(scores, model(images).detach(), atol=1e-5, rtol=1e-5)
