"""Two unrelated workloads gain from every pass that can be switched off, and from every kernel; bits are as it says."""

from functools import cache

import pytest
import torch
from bench.gain_subjects import KERNEL, NAMES, Subject, watch_passes
from bench.gain_workloads import WORKLOADS
from bench.gains import Results
from torch.utils import _pytree as pytree

from openipu.run.engine.pass_list import BATCHED, BOUND, ELSEWHERE, MICRO
from openipu.run.kernels.catalog import KERNELS
from openipu.run.optimization import Accuracy
from openipu.run.rewrites.simplify import PASSES

RECORDS = {
    **{entry.name: entry for entry in (*PASSES, *MICRO, *BATCHED, *BOUND) if not entry.needed},
    **{entry.name: entry for entry in ELSEWHERE},
    **{KERNEL + kernel.name: kernel for kernel in KERNELS},
}
OTHER_ORDER = frozenset(name for name, record in RECORDS.items() if record.accuracy is Accuracy.OTHER_ORDER)
SAME_BITS = [name for name in RECORDS if name not in OTHER_ORDER]
MEASURED = Results().entries


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def capture(workload):
    return Subject(WORKLOADS[workload])


def list_results(subject, *without):
    executable = subject.make(*without)
    weights = [dict(found()) for found in (subject.model.named_parameters, subject.model.named_buffers)]
    copies = [{name: torch.empty_like(value) for name, value in found.items()} for found in weights]
    executable.read_weights(*copies)
    return [value for value in pytree.tree_leaves((subject.result.outputs, copies)) if isinstance(value, torch.Tensor)]


def test_all_that_can_be_switched_off_is_here():
    assert sorted(RECORDS) == sorted(NAMES)


@pytest.mark.parametrize("name", RECORDS)
def test_two_unrelated_workloads_gain(name):
    gaining = RECORDS[name].gains
    assert set(gaining) <= set(WORKLOADS)
    assert all(MEASURED[name][workload]["gains"] and MEASURED[name][workload]["lower"] > 1.0 for workload in gaining)
    assert len({WORKLOADS[workload].family for workload in gaining}) >= 2


def test_nothing_else_was_measured():
    assert set(MEASURED) <= set(RECORDS)
    assert {workload for found in MEASURED.values() for workload in found} <= set(WORKLOADS)


@pytest.mark.parametrize("name", SAME_BITS)
def test_what_keeps_the_bits_gives_those_of_operators(name):
    """Beside passes and kernels that keep them, too: others look for what these make, or leave nothing to do."""
    seen = name.startswith(KERNEL)
    for workload in RECORDS[name].gains:
        subject = capture(workload)
        with watch_passes() as changed:
            found = list_results(subject, *OTHER_ORDER)
        seen |= name in changed
        wanted = list_results(subject, *OTHER_ORDER, name)
        assert len(found) == len(wanted)
        assert all(torch.equal(value, other) for value, other in zip(found, wanted, strict=True))
    assert seen, "it changed none of these graphs"
