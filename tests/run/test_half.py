"""Half precision on a host that lacks kernels for it: the same results, rounded to half."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import capture_program
from openipu.graph import RunOptions
from openipu.run import Executable

CASES = {
    "distances": lambda x: torch.cdist(x, x * 2),
    "pairwise distances": F.pdist,
    "pooling over three dimensions": lambda x: F.avg_pool3d(x.expand(1, 4, 4, 4), 2),
    "margin loss": lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2, 3])),
    "ctc loss": lambda x: F.ctc_loss(x[:, None].log_softmax(-1), torch.tensor([[1, 2]]), (4,), (2,)),
    "matrix product": lambda x: x @ x,
}


@pytest.mark.parametrize("name", CASES)
def test_ops_without_a_half_kernel_are_computed_in_float_and_rounded(name):
    function = CASES[name]
    x = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)).half()
    program = capture_program(function, (x,), {}, training=False, optimizer=None, name="model")
    (found,) = Executable(program, RunOptions()).run([x]).outputs
    assert found.dtype is torch.float16
    torch.testing.assert_close(found, function(x.float()).half(), rtol=5e-3, atol=2e-3)
