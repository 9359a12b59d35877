"""TGN, the temporal graph network (Rossi et al. 2020): nodes that remember what happened to them.

In: a `TemporalShape` and a `Format`. Out: a module on a batch of events between nodes. Nodes that take part in a batch
are listed once; a node's memory is brought up to date with the last event that it took part in, before it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.layers import Format, Linear
from openipu.models.tables import make_tower


@dataclass(frozen=True, slots=True)
class TemporalShape:
    """Sizes; as they stand those of the paper for the edits of Wikipedia."""

    nodes: int = 9228
    memory: int = 100
    features: int = 172  # of an event, and of a node
    time: int = 100
    heads: int = 2
    neighbours: int = 10

    @property
    def message(self) -> int:
        """Two memories, an event's features and how long ago the last one was."""
        return 2 * self.memory + self.features + self.time


class TemporalGraph(nn.Module):
    """Memory of nodes, messages between them, attention over neighbours, and whether two nodes meet."""

    def __init__(self, shape: TemporalShape, form: Format) -> None:
        super().__init__()
        self.shape = shape
        dtype = form.dtype
        self.memory: Tensor
        self.message: Tensor
        self.register_buffer("memory", torch.zeros(shape.nodes + 1, shape.memory, dtype=dtype))  # and one for padding
        self.register_buffer("message", torch.zeros(shape.nodes + 1, shape.message, dtype=dtype))
        self.rate = nn.Parameter(torch.logspace(0, -4, shape.time, dtype=dtype))
        self.shift = nn.Parameter(torch.zeros(shape.time, dtype=dtype))
        self.enter = Linear(shape.message, 3 * shape.memory, form)
        self.recur = Linear(shape.memory, 3 * shape.memory, form)
        self.describe = Linear(shape.features, shape.memory, form)
        self.ask = Linear(shape.memory + shape.time, shape.memory, form)
        self.tell = Linear(shape.memory + shape.time, 2 * shape.memory, form)
        self.leave = Linear(2 * shape.memory, shape.memory, form)
        self.meet = make_tower((2 * shape.memory, shape.memory, 1), form)

    def forward(
        self,
        nodes: Tensor,
        features: Tensor,
        ages: Tensor,
        neighbours: Tensor,
        sources: Tensor,
        targets: Tensor,
        others: Tensor,
        events: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The loss, and how likely each source meets its target and the other node: [events, 2].

        `nodes` are those of the batch, each once, with their `features`, the time since their last event (`ages`) and
        neighbours as places in that list. `sources`, `targets` and `others` (nodes that were not met) are such places,
        too; `events` has the features of what happened.
        """
        state = self._update(self.message[nodes], self.memory[nodes])
        known = self._attend(state + self.describe(features), ages, neighbours)
        answers = torch.cat([self._compare(known[sources], known[ends]) for ends in (targets, others)], 1)
        self._remember(nodes, state, sources, targets, events, ages)
        wanted = torch.zeros_like(answers, dtype=torch.float32)
        wanted[:, 0] = 1.0
        loss = nn.functional.binary_cross_entropy_with_logits(answers.float(), wanted)
        return mark_loss(loss, "sum"), answers.detach()

    def _update(self, message: Tensor, memory: Tensor) -> Tensor:
        """A GRU's step."""
        update, reset, new = self.enter(message).chunk(3, -1)
        past_update, past_reset, past_new = self.recur(memory).chunk(3, -1)
        gate = (update + past_update).sigmoid()
        proposed = torch.tanh(new + (reset + past_reset).sigmoid() * past_new)
        result: Tensor = (1 - gate) * memory + gate * proposed
        return result

    def _measure_time(self, ages: Tensor) -> Tensor:
        return (ages[..., None] * self.rate + self.shift).cos()

    def _attend(self, state: Tensor, ages: Tensor, neighbours: Tensor) -> Tensor:
        count, heads = neighbours.shape[0], self.shape.heads
        asked = self.ask(torch.cat((state, self._measure_time(torch.zeros_like(ages))), -1)).view(count, heads, 1, -1)
        near = torch.cat((state, self._measure_time(ages)), -1)[neighbours]
        each = self.shape.memory // heads
        keys, values = (part.view(count, -1, heads, each) for part in self.tell(near).chunk(2, -1))
        weights = (asked @ keys.permute(0, 2, 3, 1) * each**-0.5).softmax(-1)
        heard = (weights @ values.transpose(1, 2)).flatten(1)
        result: Tensor = state + self.leave(torch.cat((heard, state), -1)).relu()
        return result

    def _compare(self, left: Tensor, right: Tensor) -> Tensor:
        result: Tensor = self.meet(torch.cat((left, right), -1))
        return result

    def _remember(
        self, nodes: Tensor, state: Tensor, sources: Tensor, targets: Tensor, events: Tensor, ages: Tensor
    ) -> None:
        """Memories as they are now, and for those who met (each once) what the next one is made of."""
        state, time = state.detach(), self._measure_time(ages).detach()
        self.memory.index_copy_(0, nodes, state)
        for mine, yours in ((sources, targets), (targets, sources)):
            said = torch.cat((state[mine], state[yours], events, time[mine]), -1)
            self.message.index_copy_(0, nodes[mine], said)
