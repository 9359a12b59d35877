"""Replicas that exchange values while they run: the right values, in step, and no hang where they part."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.errors import ReplicaError
from openipu.graph import Collective, RunOptions
from openipu.graph.meeting import meet
from openipu.machine import resolve_system
from openipu.plan import plan_program
from openipu.plan.collectives import count_all_reduce_cycles, count_share_cycles
from openipu.run import Executable
from openipu.run.lockstep import run_in_step
from openipu.translate.collectives import exchange, gather, number, reduce_all, reduce_to_shares, trade


def total(tensors):
    return [[sum(given[0] for given in tensors)] for _ in tensors]


def test_replicas_take_turns_in_order_between_exchanges():
    order = []

    def make(replica):
        def run():
            value = torch.tensor(float(replica))
            for place in range(2):
                order.append((place, replica))
                (value,) = meet(place, total, [value])
            return [value]

        return run

    results = run_in_step([make(replica) for replica in range(3)], "program")
    assert order == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [float(result[0]) for result in results] == [9.0, 9.0, 9.0]  # 3 x (0 + 1 + 2)


@pytest.mark.parametrize("parted", [lambda: [torch.zeros(())], lambda: meet("elsewhere", total, [torch.zeros(())])])
def test_replicas_that_part_are_an_error_and_leave_no_thread(parted):
    before = threading.active_count()
    with pytest.raises(ReplicaError, match="have parted"):
        run_in_step([lambda: meet("here", total, [torch.zeros(())]), parted], "program")
    assert threading.active_count() == before


def test_an_error_in_one_replica_is_that_error():
    def fail():
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        run_in_step([lambda: meet("here", total, [torch.zeros(())]), fail], "program")


class Exchanging(nn.Module):
    """Two sums over replicas with arithmetic between them, and each other kind once."""

    def __init__(self, replicas: int, group: int = 0) -> None:
        super().__init__()
        self.replicas, self.group = replicas, group

    def forward(self, x):
        own = x * (1 + exchange(Collective.INDEX, torch.zeros((), dtype=torch.int32), (), number, "number"))
        once = exchange(Collective.ALL_REDUCE, own, x.shape, reduce_all("ADD"), "first", self.group)
        twice = exchange(Collective.ALL_REDUCE, once * x, x.shape, reduce_all("MEAN"), "second")
        flat = own.reshape(-1)
        gathered = exchange(Collective.ALL_GATHER, flat, (self.replicas, flat.shape[0]), gather, "third")
        share = flat.shape[0] // self.replicas
        scattered = exchange(Collective.REDUCE_SCATTER, flat, (share,), reduce_to_shares("MAX", share), "fourth")
        traded = exchange(Collective.ALL_TO_ALL, flat, flat.shape, trade(0, 0), "fifth")
        return twice, gathered, scattered, traded


def run_exchanging(replicas, group=0, iterations=1):
    program = capture_program(
        Exchanging(replicas, group), (torch.zeros(1, 4),), {}, training=False, optimizer=None, name="exchanging"
    )
    executable = Executable(program, RunOptions(replicas=replicas, device_iterations=iterations))
    data = torch.arange(float(replicas * iterations * 4)).reshape(-1, 4)
    return data.reshape(iterations, replicas, 4), executable.run([data]).outputs


@pytest.mark.parametrize("iterations", [1, 3])
def test_a_program_with_exchanges_gives_what_the_maths_says(iterations):
    data, (twice, gathered, scattered, traded) = run_exchanging(4, iterations=iterations)
    own = data * torch.arange(1.0, 5.0)[None, :, None]
    once = own.sum(1, keepdim=True)
    assert torch.equal(twice.reshape(data.shape), (once * data).mean(1, keepdim=True).expand(data.shape))
    assert torch.equal(gathered.reshape(iterations, 4, 4, 4), own[:, None].expand(-1, 4, -1, -1))
    assert torch.equal(scattered.reshape(iterations, 4), own.amax(1))
    assert torch.equal(traded.reshape(iterations, 4, 4), own.transpose(1, 2))


def test_groups_of_replicas_share_a_sum():
    data, (twice, *_) = run_exchanging(4, group=2)
    own = data[0] * torch.arange(1.0, 5.0)[:, None]
    once = torch.cat([own[:2].sum(0).expand(2, 4), own[2:].sum(0).expand(2, 4)])
    assert torch.equal(twice.reshape(4, 4), (once * data[0]).mean(0).expand(4, 4))


def test_one_replica_exchanges_with_nobody():
    data, (twice, gathered, _, _) = run_exchanging(1)
    assert torch.equal(twice.reshape(-1), data.reshape(-1) ** 2)
    assert torch.equal(gathered.reshape(-1), data.reshape(-1))


def test_a_plan_prices_each_exchange_by_the_links():
    system = resolve_system("bow-pod16")
    module = Exchanging(4)
    program = capture_program(module, (torch.zeros(1, 4096),), {}, training=False, optimizer=None, name="exchanging")
    plan = plan_program(program, system, RunOptions(replicas=4))
    found = {step.name: step.cycles for step in plan.steps if step.kind == "link"}
    size = 4 * 4096
    assert found["all-reduce"] == pytest.approx(count_all_reduce_cycles(size, 4, 1, system))
    assert found["all-gather"] == pytest.approx(count_share_cycles(4 * size, 4, 1, system))  # four such tensors
    assert found["reduce-scatter"] == pytest.approx(count_share_cycles(size, 4, 1, system))
    assert found["all-to-all"] == pytest.approx(count_share_cycles(2 * size, 4, 1, system))  # half of four
