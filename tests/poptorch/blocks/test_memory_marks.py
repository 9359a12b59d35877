"""What users ask of one matrix product reaches its plan, also behind the view that three dimensions end in."""

import pytest
import torch

import poptorch

ROWS, INNER, COLUMNS = 256, 1024, 4096


class Product(torch.nn.Module):
    def __init__(self, pieces, proportion):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(INNER, COLUMNS))
        self.pieces, self.proportion = pieces, proportion

    def forward(self, x):
        if self.pieces:
            mode = poptorch.MatMulSerializationMode.OutputChannels
            result = poptorch.serializedMatMul(x, self.weight, mode, self.pieces)
        else:
            result = torch.matmul(x, self.weight)
        return poptorch.set_available_memory(result, self.proportion) if self.proportion else result


def plan_product(shape, pieces=0, proportion=0.0):
    options = poptorch.Options().showCompilationProgressBar(False)
    executor = poptorch.inferenceModel(Product(pieces, proportion), options)
    executor.compile(torch.zeros(shape))
    [product] = [op for op in executor._compiled.plan.ops if op.family == "matmul"]
    return product, executor._compiled.plan.system


@pytest.mark.parametrize("shape", [(ROWS, INNER), (1, ROWS, INNER)])
def test_a_product_in_pieces_does_the_same_work_with_less_scratch_and_more_cycles(shape):
    (whole, _), (cut, _) = plan_product(shape), plan_product(shape, pieces=4)
    assert whole.flops == cut.flops == 2 * ROWS * INNER * COLUMNS
    assert cut.plan["pieces"] == 4
    assert cut.scratch_bytes_per_tile < whole.scratch_bytes_per_tile
    assert cut.cycles > whole.cycles


@pytest.mark.parametrize("shape", [(ROWS, INNER), (1, ROWS, INNER)])
def test_a_share_of_memory_bounds_the_temporaries_of_its_product(shape):
    (usual, system), (tight, _) = plan_product(shape), plan_product(shape, proportion=0.05)
    limit = 0.05 * system.target.tile_memory_bytes
    assert usual.plan["temporary_bytes"] > limit >= tight.plan["temporary_bytes"]
    assert tight.cycles >= usual.cycles
