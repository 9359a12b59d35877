"""Layers, their gradients and graph functions from C++, against PyTorch."""

from __future__ import annotations

import shutil

import pytest
import torch
import torch.nn.functional as functional
from test_cpp_programs import build, prefix, read_table  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

X = 0.1 * torch.arange(32.0) - 1.5


def pool(expected: dict[str, torch.Tensor]) -> None:
    image = X.reshape(1, 2, 4, 4).clone().requires_grad_()
    expected["pool"] = functional.avg_pool2d(image, 2)
    expected["pool"].backward(expected["pool"].detach())
    expected["pool gradient"] = image.grad


def norms(expected: dict[str, torch.Tensor]) -> None:
    def leaves() -> tuple[torch.Tensor, ...]:
        parts = (X.reshape(2, 4, 2, 2), X[:4], X[4:8])
        return tuple(one.clone().requires_grad_() for one in parts)

    back = X.reshape(2, 4, 2, 2).flip(0)
    for name in ("batch", "group", "layer", "instance"):
        acts, gamma, beta = leaves()
        if name == "batch":
            out = functional.batch_norm(acts, None, None, gamma, beta, True, eps=0.01)
        else:
            groups = {"group": 2, "layer": 1, "instance": 4}[name]
            out = functional.group_norm(acts, groups, gamma, beta, eps=0.01)
        out.backward(back)
        expected[name] = out
        if name in ("batch", "group"):
            expected |= {f"{name} gradient": acts.grad, f"{name} gamma": gamma.grad, f"{name} beta": beta.grad}
    expected["batch mean"] = acts.mean((0, 2, 3))
    expected["group mean"] = acts.reshape(4, -1).mean(1)


def lstm(expected: dict[str, torch.Tensor]) -> None:
    parts = [X[:6].reshape(2, 1, 3), X[:2].reshape(1, 2), X[30:].reshape(1, 2)]
    parts += [X[8:].reshape(4, 3, 2), X[:16].reshape(4, 2, 2), X[16:24].reshape(4, 2)]
    x, h, c, w, u, b = leaves = [one.clone().requires_grad_() for one in parts]
    hidden, cell, outputs = h, c, []
    for step in range(2):
        forget, enter, candidate, leave = (x[step] @ w[gate] + hidden @ u[gate] + b[gate] for gate in range(4))
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        outputs.append(hidden)
    expected |= {"lstm": torch.stack(outputs), "lstm cell": cell}
    expected["lstm"].backward(X[20:24].reshape(2, 1, 2))
    names = ("input", "state", "first cell", "weights", "feedback", "biases")
    expected |= {f"lstm {name}": one.grad for name, one in zip(names, leaves, strict=True)}


def gru(expected: dict[str, torch.Tensor]) -> None:
    for title, after in (("gru", False), ("gru after", True)):
        parts = [X[:6].reshape(2, 1, 3), X[:2].reshape(1, 2), X[8:26].reshape(3, 3, 2), X[:12].reshape(3, 2, 2)]
        parts.append(X[16:28].reshape(3, 2, 2) if after else X[16:22].reshape(3, 2))
        x, h, w, u, b = leaves = [one.clone().requires_grad_() for one in parts]
        enter, around = (b[:, 0], b[:, 1]) if after else (b, torch.zeros_like(b))
        hidden, outputs = h, []
        for step in range(2):
            into = [x[step] @ w[gate] + enter[gate] for gate in range(3)]
            reset, update = (torch.sigmoid(into[gate] + hidden @ u[gate] + around[gate]) for gate in (0, 1))
            inner = reset * (hidden @ u[2] + around[2]) if after else (reset * hidden) @ u[2]
            hidden = update * hidden + (1 - update) * torch.tanh(into[2] + inner)
            outputs.append(hidden)
        expected[title] = torch.stack(outputs)
        expected[title].backward(expected[title].detach())
        names = ("input", "state", "weights", "feedback", "biases")
        expected |= {f"{title} {name}": one.grad for name, one in zip(names, leaves, strict=True)}


def others(expected: dict[str, torch.Tensor]) -> None:
    logits = torch.sin(X[:24]).reshape(6, 1, 4).requires_grad_()
    one = torch.tensor
    expected["ctc"] = functional.ctc_loss(torch.log_softmax(logits, 2), one([[2, 1]]), one([6]), one([2]), 0, "none")
    expected["ctc"].sum().backward()
    expected["ctc gradient"] = logits.grad
    shares = torch.softmax(X.reshape(2, 16) / 2, 1).reshape(2, 4, 4)
    places = torch.linspace(-1, 1, 4)
    expected["place"] = torch.stack([(shares.sum(2) * places).sum(1), (shares.sum(1) * places).sum(1)], 1)
    expected["called"] = 2 * (X[4:8] + X[:4])
    expected["called again"] = 2 * (X[4:8] + X[:4] + X[8:12])
    expected["sum"] = X[4:8] + X[:4] + X[8:12]
    expected["product"] = X[:4] * X[4:8]


def test_layers_and_graph_functions_give_torchs_results(build) -> None:  # noqa: F811
    done = build("layers")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["shape 2", "lstm 432"]
    found = {name: entries for name, entries in read_table(done.stdout).items() if entries}
    expected: dict[str, torch.Tensor] = {}
    for part in (pool, norms, lstm, gru, others):
        part(expected)
    assert set(found) == {*expected, "ctc paths"}
    for name, tensor in expected.items():
        values = torch.tensor([float(entry) for entry in found[name][0].split()])
        torch.testing.assert_close(
            values, tensor.detach().reshape(-1), rtol=2e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    paths = [float(entry) for entry in found["ctc paths"][0].split()]
    assert len(paths) == 2
    assert paths == sorted(paths)
