"""Functions of torch that are written in Python are captured like the user's own code."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.errors import CaptureError
from openipu.graph import OutputKind


def first_output(results):
    return results.values[(OutputKind.OUTPUT, "output_0")]


def test_constants_from_lists_inside_torch_become_constants_of_the_program(capture_inference, run_micro):
    def forward(x):
        return torch.stack(torch.unravel_index(x, (2, 3)))

    x = torch.tensor([1, 5])
    program = capture_inference(forward, x)
    assert program.constants
    assert first_output(run_micro(program, None, x)).equal(forward(x))


def test_layers_inside_torch_follow_the_rule_of_mixed_precision(capture_inference, run_micro):
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.rand(1, 3, 4, generator=torch.Generator().manual_seed(0))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x, x)[0]

    model = Model()
    program = capture_inference(model, x.half())
    found = first_output(run_micro(program, model, x.half()))
    assert found.dtype is torch.float16
    torch.testing.assert_close(found.float(), model(x).detach(), rtol=1e-2, atol=1e-2)


def test_a_loss_made_of_other_losses_counts_once(capture_training):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return F.triplet_margin_with_distance_loss(self.inner(x), x, x * 2)

    assert capture_training(Model(), torch.ones(2, 3)).training


def test_masks_of_a_transformer_may_be_inputs(capture_inference, run_micro):
    model = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True).eval()
    x = torch.rand(1, 3, 4, generator=torch.Generator().manual_seed(0))
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    program = capture_inference(model, x, x, mask, mask)
    torch.testing.assert_close(first_output(run_micro(program, model, x, x, mask, mask)), model(x, x, mask, mask))


def test_a_deep_copy_is_a_copy_and_a_shallow_one_is_refused(capture_inference, run_micro):
    def forward(x):
        y = x + 1
        apart = copy.deepcopy(y)
        y += 1
        return apart

    x = torch.zeros(2)
    assert first_output(run_micro(capture_inference(forward, x), None, x)).tolist() == [1.0, 1.0]
    with pytest.raises(CaptureError, match=r"Use tensor.view_as\(tensor\)"):
        capture_inference(lambda x: copy.copy(x + 1), x)
