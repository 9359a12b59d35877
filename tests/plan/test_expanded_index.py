"""An index that was expanded over rows is known as one when a graph is lowered, through views and in backward."""

import torch

from openipu import session
from openipu.graph import RunOptions

NODES, EDGES, FEATURES = 300, 2000, 64


class Sum(torch.nn.Module):
    """Adds messages into nodes, by an index for each message or for each feature of one."""

    def __init__(self, expands: bool) -> None:
        super().__init__()
        self.expands = expands

    def forward(self, messages: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if self.expands:
            index = index.view(-1, 1).expand_as(messages)
        return torch.zeros(NODES, FEATURES).scatter_add(0, index, messages)


def plan_sum(*, expands: bool):
    messages = torch.randn(EDGES, FEATURES)
    index = torch.zeros(EDGES, dtype=torch.long) if expands else torch.zeros(EDGES, FEATURES, dtype=torch.long)
    _, plan = session.plan_model(Sum(expands), (messages, index), options=RunOptions(), system="bow-2000")
    (scatter,) = [op for op in plan.ops if op.op == "aten.scatter_add.default"]
    return scatter


def test_messages_of_a_graph_are_added_as_rows() -> None:
    rows, elements = plan_sum(expands=True), plan_sum(expands=False)
    assert rows.plan["column_splits"] > 1  # a row of 64 features is divided over tiles
    assert elements.plan["column_splits"] == 1  # an element is not
    assert rows.cycles < elements.cycles
