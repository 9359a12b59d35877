"""Sparse products against PyTorch's dense ones, and matrices through every format."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import poplar
from poplar import FLOAT
from popsparse import COOMatrix, CSCMatrix, CSRMatrix, dynamic, static_

ROWS, COLUMNS = 8, 12
RANDOM = np.random.default_rng(3)
BLOCKS = [(1, 1), (2, 3), (4, 2)]


def make_dense(block: tuple[int, int], share: float = 0.4) -> np.ndarray:
    """A matrix some of whose blocks are zero."""
    there = RANDOM.random((ROWS // block[0], COLUMNS // block[1])) < share
    there[0, 0] = True
    return (RANDOM.uniform(0.5, 2, (ROWS, COLUMNS)) * np.kron(there, np.ones(block))).astype(np.float32)


def write(dense: np.ndarray, block: tuple[int, int], kind: type):
    """By hand, block after block."""
    height, width = block
    found = [
        (row, column, dense[row : row + height, column : column + width])
        for row in range(0, ROWS, height)
        for column in range(0, COLUMNS, width)
        if dense[row, column]
    ]
    if kind is CSCMatrix:
        found.sort(key=lambda one: (one[1], one[0]))
        starts = [0]
        for column in range(0, COLUMNS, width):
            starts.append(starts[-1] + sum(one[1] == column for one in found) * height * width)
        values = [value for one in found for value in one[2].T.reshape(-1)]
        return CSCMatrix(ROWS, COLUMNS, values, starts, [one[0] for one in found], block)
    values = [value for one in found for value in one[2].reshape(-1)]
    columns = [one[1] for one in found]
    if kind is COOMatrix:
        return COOMatrix(ROWS, COLUMNS, values, columns, [one[0] for one in found], block)
    starts = [0]
    for row in range(0, ROWS, height):
        starts.append(starts[-1] + sum(one[0] == row for one in found) * height * width)
    return CSRMatrix(ROWS, COLUMNS, values, columns, starts, block)


def same(one, other) -> bool:
    fields = ("nzValues", "columnIndices", "rowIndices")
    return all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)


def layer(block=(1, 1), batch=5, share=0.8) -> dynamic.FullyConnectedParams:
    sparsity = dynamic.SparsityParams(blockDimensions=block)
    return dynamic.FullyConnectedParams.createWithNzRatio(sparsity, share, batch, 1, COLUMNS, ROWS)


def fill(bench, tensor: dynamic.SparseTensor, data: dynamic.SparsityDataImpl) -> None:
    for name, target, values in (
        ("numbers", tensor.getMetaInfoTensor(), data.metaInfo),
        ("values", tensor.getNzValuesTensor(), data.nzValues),
    ):
        bench.graph.createHostWrite(name, target)
        bench._values[name] = values


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("kind", [COOMatrix, CSRMatrix, CSCMatrix])
def test_a_matrix_comes_back_in_every_format(device, block, kind) -> None:
    dense = make_dense(block)
    partitioner = dynamic.Partitioner(layer(block), FLOAT, device.getTarget(), {})
    data = partitioner.createSparsityDataImpl(write(dense, block, kind))
    assert same(partitioner.sparsityDataImplToCOOMatrix(data), write(dense, block, COOMatrix))
    assert same(partitioner.sparsityDataImplToCSRMatrix(data), write(dense, block, CSRMatrix))
    assert same(partitioner.sparsityDataImplToCSCMatrix(data), write(dense, block, CSCMatrix))


@pytest.mark.parametrize("block", BLOCKS)
def test_a_sparse_layer_has_the_results_and_gradients_of_the_dense_one(bench, block) -> None:
    params, dense = layer(block), make_dense(block)
    weights = dynamic.createFullyConnectedWeights(bench.graph, FLOAT, params, "weights")
    partitioner = dynamic.Partitioner(params, FLOAT, bench.graph.getTarget(), {})
    data = partitioner.createSparsityDataImpl(write(dense, block, CSRMatrix))
    fill(bench, weights, data)
    acts = RANDOM.normal(size=(5, COLUMNS)).astype(np.float32)
    grads = RANDOM.normal(size=(5, ROWS)).astype(np.float32)
    given, grad = bench.give(acts), bench.give(grads)
    made = [
        dynamic.fullyConnectedFwd(bench.graph, weights, given, params, bench.prog),
        dynamic.fullyConnectedGradA(bench.graph, weights, grad, params, bench.prog),
        dynamic.fullyConnectedSparseGradW(
            bench.graph, weights.getMetaInfoTensor(), grad, given, params, bench.prog, "gradW", {"doGradWPass": "true"}
        ),
    ]
    forward, back, new = bench.read(*made)
    a, w = torch.from_numpy(acts).requires_grad_(), torch.from_numpy(dense).requires_grad_()
    out = torch.nn.functional.linear(a, w)
    out.backward(torch.from_numpy(grads))
    np.testing.assert_allclose(forward, out.detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back, a.grad, rtol=1e-5, atol=1e-5)
    # In the order of the values, so that the partitioner can make a matrix of it: the gradient where the weights are.
    found = partitioner.sparsityDataImplToCOOMatrix(dynamic.SparsityDataImpl(data.metaInfo, new))
    masked = write(np.where(dense != 0, w.grad.numpy(), 0), block, COOMatrix)
    assert found.rowIndices.tolist() == masked.rowIndices
    np.testing.assert_allclose(found.nzValues, masked.nzValues, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("turn_left", "turn_right"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_sparse_matrix_times_a_dense_one(bench, turn_left, turn_right) -> None:
    dense = make_dense((2, 3))
    sparsity = dynamic.SparsityParams(blockDimensions=(2, 3))
    params = dynamic.MatMulParams.createWithNumNonZeroValues(sparsity, ROWS * COLUMNS, 1, ROWS, COLUMNS, 4)
    left = dynamic.createSparseDenseMatMulLHS(bench.graph, FLOAT, params)
    data = dynamic.Partitioner(params, FLOAT).createSparsityDataImpl(write(dense, (2, 3), COOMatrix))
    fill(bench, left, data)
    turned = dense.T if turn_left else dense
    right = RANDOM.normal(size=(1, turned.shape[1], 4)).astype(np.float32)
    given = bench.give(right.transpose(0, 2, 1).copy() if turn_right else right)
    made = dynamic.sparseDenseMatMul(bench.graph, left, given, bench.prog, turn_left, turn_right)
    np.testing.assert_allclose(bench.read(made)[0], turned @ right, rtol=1e-5, atol=1e-5)


def test_products_with_a_pattern_that_is_known_when_compiling(bench) -> None:
    dense = make_dense((1, 1))
    matrix = write(dense, (1, 1), CSRMatrix)
    params = static_.MatMulParams.createForSparseDense(1, ROWS, COLUMNS, 3)
    left = static_.createSparseDenseMatMulLHS(bench.graph, FLOAT, params, matrix)
    turned = static_.MatMulParams.createForDenseSparse(1, 3, ROWS, COLUMNS)
    right = static_.createDenseSparseMatMulRHS(bench.graph, FLOAT, turned, matrix)
    for name, tensor in (("left", left), ("right", right)):
        bench.graph.createHostWrite(name, tensor.getNzValuesTensor())
        bench._values[name] = np.array(matrix.nzValues, np.float32)
    a = RANDOM.normal(size=(1, COLUMNS, 3)).astype(np.float32)
    b = RANDOM.normal(size=(1, 3, ROWS)).astype(np.float32)
    made = [
        static_.sparseDenseMatMul(bench.graph, left, bench.give(a), bench.prog),
        static_.denseSparseMatMul(bench.graph, bench.give(b), right, bench.prog),
    ]
    first, second = bench.read(*made)
    np.testing.assert_allclose(first, dense @ a, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, b @ dense, rtol=1e-5, atol=1e-5)


def test_rows_of_a_sparse_matrix_are_sliced_and_updated_where_it_has_values(bench) -> None:
    params, dense = layer((2, 3)), make_dense((2, 3))
    table = dynamic.createFullyConnectedWeights(bench.graph, FLOAT, params)
    partitioner = dynamic.Partitioner(params, FLOAT)
    data = partitioner.createSparsityDataImpl(write(dense, (2, 3), CSRMatrix))
    fill(bench, table, data)
    rows = np.array([3, 0, 3], np.uint32)
    new = RANDOM.normal(size=(3, COLUMNS)).astype(np.float32)
    indices = bench.give(rows)
    slices = dynamic.embeddingSlice(bench.graph, table, indices, bench.prog, params)
    scale = bench.give(np.float32(0.5))
    dynamic.embeddingUpdateAdd(bench.graph, table, bench.give(new), indices, scale, bench.prog, params)
    before, values = bench.read(slices, table.getNzValuesTensor())
    np.testing.assert_array_equal(before, dense[rows])
    updated = dense.copy()
    np.add.at(updated, rows, new * np.float32(0.5))
    updated[dense == 0] = 0
    found = partitioner.sparsityDataImplToCSRMatrix(dynamic.SparsityDataImpl(data.metaInfo, values))
    np.testing.assert_allclose(found.nzValues, write(updated, (2, 3), CSRMatrix).nzValues, rtol=1e-5)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (COOMatrix(ROWS, COLUMNS, [1.0, 2.0], [0, 1], [0]), "1 row indices for 2 blocks"),
        (COOMatrix(ROWS, COLUMNS, [1.0], [COLUMNS], [0]), f"column index {COLUMNS} at place 0"),
        (COOMatrix(ROWS, COLUMNS, [1.0], [0], [-1]), "row index -1 at place 0"),
        (COOMatrix(ROWS, COLUMNS, [1.0, 2.0], [3, 3], [2, 2]), "row 2, column 3 is there twice"),
        (COOMatrix(ROWS + 1, COLUMNS, [1.0], [0], [0]), f"{ROWS + 1} rows, and the product needs {ROWS}"),
        (COOMatrix(ROWS, COLUMNS, [1.0] * 2, [0], [0], (1, 2)), r"blocks are \[1, 2\]"),
        (CSRMatrix(ROWS, COLUMNS, [1.0], [0], [0, 1]), f"rowIndices needs {ROWS + 1} entries"),
        (CSRMatrix(ROWS, COLUMNS, [1.0], [0], [0, 2, 1, 1, 1, 1, 1, 1, 1]), "rowIndices must go from 0 to 1"),
        (CSCMatrix(ROWS, COLUMNS, [1.0], [0] * 13, [0]), "columnIndices must go from 0 to 1"),
        (COOMatrix(ROWS, COLUMNS, [1.0], [0.5], [0]), "whole numbers"),
        (np.eye(3), "COOMatrix, CSRMatrix or CSCMatrix"),
    ],
)
def test_a_matrix_that_contradicts_itself_is_refused(matrix, message) -> None:
    with pytest.raises(poplar.poplar_error, match=message):
        dynamic.Partitioner(layer(), FLOAT).createSparsityDataImpl(matrix)


def test_what_does_not_fit_is_refused_with_the_share_that_would() -> None:
    partitioner = dynamic.Partitioner(layer(share=1 / 96), FLOAT)
    with pytest.raises(poplar.poplar_error, match=r"has 2 non-zero values, and there is room for 1: .*0\.02083"):
        partitioner.createSparsityDataImpl(COOMatrix(ROWS, COLUMNS, [1.0, 2.0], [0, 1], [0, 0]))
    with pytest.raises(poplar.poplar_error, match="from 0 to 1"):
        layer(share=1.5)
    with pytest.raises(poplar.poplar_error, match="blocks of 3 x 3"):
        layer(block=(3, 3))
    with pytest.raises(poplar.poplar_error, match="one group, not 2"):
        dynamic.MatMulParams.createWithNzRatio(dynamic.SparsityParams(), 0.5, 2, ROWS, COLUMNS, 4)
    with pytest.raises(poplar.invalid_option, match="no option 'sharedBucket'"):
        dynamic.Partitioner(layer(), FLOAT, None, {"sharedBucket": "true"})
