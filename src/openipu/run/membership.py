"""The other instances of a job, as one executable needs them.

In: the options and the memory of an executable. Out: weights that all instances share before a call, this instance's
part of the seeds, sums of gradients. An executable that shares nothing with others asks nobody.
"""

from __future__ import annotations

import torch

from openipu.graph import RunOptions
from openipu.run.engine.engine import Engine
from openipu.run.engine.replica_sets import ReplicaSets
from openipu.run.instances import InstanceGroup, join_instances
from openipu.run.random_stream import RandomStream
from openipu.trace import WAIT, span


class Membership:
    """The other instances, as an executable needs them."""

    def __init__(self, options: RunOptions, sets: ReplicaSets, exchanges: bool) -> None:
        """`exchanges`: replicas exchange values on the way."""
        self._options, self._sets = options, sets
        self.shares = options.instances > 1 and (options.training or exchanges)
        self.group: InstanceGroup | None = None  # from the first call on
        self.has_news = False  # weights or state were written that other instances may not have

    def meet(self) -> None:
        """Before a call: all instances have the weights and the state that one of them was given."""
        with span(WAIT, "other instances"):
            if self.group is None:
                self.group = join_instances(self._options.instances)
            if not self._options.training:  # each instance reads weights of its own
                return
            source = self.group.find_source(self.has_news)
            if source is not None:
                with torch.no_grad():
                    self.group.share(self._sets.list_tensors(), source)
            self.has_news = False

    def draw_seeds(self, stream: RandomStream) -> torch.Tensor:
        """Of this instance's micro-batches. All instances draw for all, so that equal streams stay equal."""
        options = self._options
        if self.group is None:
            return stream.draw_seeds(options.micro_batches)
        return self.group.take_own(stream.draw_seeds(options.micro_batches * options.instances), options.replicas)

    def draw_update_seeds(self, stream: RandomStream) -> list[int]:
        """One for each update of a call: all instances round an update alike."""
        seeds = stream.draw_seeds(self._options.device_iterations)
        if self.group is not None:
            self.group.share([seeds], 0)
        return seeds.tolist()

    def sum_gradients(self, engine: Engine) -> None:
        """After the last micro-batch of an update: add the gradients of all instances."""
        if self.group is not None and self._options.training:
            self.group.sum_gradients(engine.list_gradients())
