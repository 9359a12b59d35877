"""Library functions, exit values, clocks and estimators from C++, against PyTorch and plain arithmetic."""

from __future__ import annotations

import shutil

import pytest
import torch
import torch.nn.functional as functional
from test_cpp_programs import build, prefix, read_table  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

A = 0.25 * torch.arange(12.0).reshape(3, 4)
WORKERS = 6


def elementwise(expected: dict[str, torch.Tensor]) -> None:
    expected |= {
        "exp2": torch.exp2(A),
        "nearbyint": torch.round(A),
        "clamp": A.clamp(0.5, 2),
        "clamp in place": A.clamp(1, 1.5),
        "select": torch.where(A > 1, A, -1.0),
        "all true": torch.tensor(0.0),
        "has nan": torch.tensor(1.0),
        "with output": A - A * A,
        "cast": A.int().float(),
        "columns": A.sum(0),
        "rows": A.amax(1),
    }


def rows(expected: dict[str, torch.Tensor]) -> None:
    flipped = A.flip(1)
    written, less, most = A.clone(), A.clone(), A.clone()
    written[0, 1], written[1, 2] = -1, -2
    less[0, 3] -= 1
    less[2, 0] -= 1
    most[1:] = most[1:].clamp(min=2)
    expected |= {
        "rows by number": A[[2, 0]],
        "update max": most,
        "slice": A[1:2],
        "windows": torch.stack([A[0:2, 1:3], A[1:3, 2:4]]),
        "scattered": written,
        "chosen": torch.tensor([A[0, 3], 0.0, A[2, 0]]),
        "one less": less,
        "histogram": torch.tensor([3.0, 2.0, 7.0]),
        "edge": functional.pad(A[None], [1, 2], mode="replicate"),
        "reflect": functional.pad(A[None], [2, 1], mode="reflect"),
        "sorted values": flipped,
        "top values": A[:, :2],
        "largest": A[:, [3, 2]],
        "where": torch.tensor([3.0, 2.0] * 3),
        "smallest": A[:, 0],
    }


def algebra(expected: dict[str, torch.Tensor]) -> None:
    matrix = torch.tensor([[4.0, 2.0], [2.0, 5.0]])
    factor = torch.linalg.cholesky(matrix)
    kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    acts, gamma, beta = (one.clone().requires_grad_() for one in (A.reshape(3, 2, 2), A[0, 1:3], A[1, :2]))
    out = functional.batch_norm(acts, None, None, gamma, beta, True, eps=0.01)
    out.backward(A.reshape(3, 2, 2).flip(0))
    expected |= {
        "cholesky": factor,
        "solve": torch.linalg.solve_triangular(factor, torch.tensor([[2.0], [3.0]]), upper=False),
        "mask": torch.tensor([[1.0, 0.0], [2.0, 1.0]]),
        "grid": torch.tensor([[0.0, 0.5, 1.0]] * 2),
        "product": A @ A.T,
        "convolution": functional.conv2d(A[None, None], kernel[None, None]),
        "norm": out,
        "norm gamma": gamma.grad,
        "norm gradient": acts.grad,
    }


def recurrent(expected: dict[str, torch.Tensor]) -> None:
    parts = (A.reshape(3, 2, 2), A.reshape(-1)[:4].reshape(2, 2), A.reshape(-1)[4:8].reshape(2, 2), A[0, :2])
    x, w, u, b = (one.clone().requires_grad_() for one in parts)
    hidden, outputs = torch.zeros(2, 2), []
    for step in range(3):
        hidden = torch.tanh(x[step] @ w + hidden @ u + b)
        outputs.append(hidden)
    out = torch.stack(outputs)
    out.backward(parts[0])
    expected |= {"rnn": out, "rnn in parts": out, "rnn input": x.grad, "rnn first input in steps": x.grad[0]}
    for name, one in (("weights", w), ("feedback", u), ("biases", b)):
        expected |= {f"rnn {name}": one.grad, f"rnn {name} in steps": one.grad}


def sparsely(expected: dict[str, torch.Tensor]) -> None:
    weights = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    out = A.T @ weights.T
    gradient = out.T @ A.T
    expected |= {
        "sparse layer": out,
        "sparse input": out @ weights,
        "sparse weights": torch.tensor([gradient[0, 1], gradient[1, 0], gradient[1, 2], 0]),
        "sparse rows": weights[[1, 0]],
        "sparse product": weights @ A,
    }


def test_library_functions_give_torchs_results(build) -> None:  # noqa: F811
    done = build("more_libraries")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["tile 2 split 0 fits 1 parts 3", "sparse 4 4 1 3 1"]
    found = {name: entries for name, entries in read_table(done.stdout).items() if entries}
    expected: dict[str, torch.Tensor] = {}
    for part in (elementwise, rows, algebra, recurrent, sparsely):
        part(expected)
    assert set(found) == {*expected, "drawn"}
    for name, tensor in expected.items():
        values = torch.tensor([float(entry) for entry in found[name][0].split()])
        torch.testing.assert_close(
            values, tensor.detach().reshape(-1), rtol=2e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    drawn = [float(entry) for entry in found["drawn"][0].split()]
    assert len(drawn) == A.numel()
    assert all(1 <= one <= 8 for one in drawn)


def test_exit_values_clocks_and_estimators_work_from_cpp(build) -> None:  # noqa: F811
    done = build("clocks")
    assert done.returncode == 0, done.stderr
    slowest = 4 * 5 + WORKERS  # factor x elements + workers, by the program's own estimator
    assert done.stdout.splitlines() == [
        "asked 0 stamps 2",
        "asked 2",  # once for each factor
        "x 2 0 7",  # all vertices ran twice
        "good 0",
        f"cycles {2 * WORKERS * slowest} 0",
        "refused: The codelet CountDown<float> has no field 'nothing'.",
    ]
