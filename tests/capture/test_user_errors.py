"""Mistakes of the user's own: eager PyTorch's class and words, and the line as a note."""

import pytest
import torch
from torch import nn

from openipu.capture import capture_program


class Mistakes(nn.Module):
    def __init__(self, mistake):
        super().__init__()
        self.mistake = mistake
        self.convolution = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(5, 2)

    def forward(self, x):
        if self.mistake == "convolution":
            return self.convolution(x)
        if self.mistake == "linear":
            return self.linear(x)
        if self.mistake == "sum":
            return x + x.new_zeros(7, 7)
        return x.view(-1, 1000)


@pytest.mark.parametrize("mistake", ["convolution", "linear", "sum", "view"])
def test_a_wrong_shape_has_the_words_of_eager_and_the_users_line(mistake):
    model, x = Mistakes(mistake), torch.randn(1, 2, 8, 8)
    with pytest.raises(RuntimeError) as eager:
        model(x)
    with pytest.raises(RuntimeError) as ours:
        capture_program(model, (x,), {}, training=False, optimizer=None, name="mistakes")
    assert type(ours.value) is type(eager.value)
    assert str(ours.value) == str(eager.value)
    assert any("test_user_errors.py" in note for note in ours.value.__notes__)
