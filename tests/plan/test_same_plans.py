"""Plans stay what they are: against figures written down before, against plain definitions, with and without memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from openipu.explore.auto import Keep, Layout, Stage
from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.segments import find_chain
from openipu.graph import Recompute, RunOptions, Strategy, TensorLocation, TensorRole
from openipu.jobs import PlanningJob, capture_job
from openipu.machine import resolve_system
from openipu.plan import KnownProgram, MemoryCategory, TileMapping, Variable, VariableKind, plan_program
from openipu.plan.liveness import TileLiveness


class Stack(nn.Module):
    """Layers in a list, and the mean square of what they make as loss."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return nn.functional.mse_loss(x, torch.zeros_like(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(24, 32, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0]


def make_encoder(layers):
    sizes = {"d_model": 64, "nhead": 4, "dim_feedforward": 128, "batch_first": True}
    return Stack(*(nn.TransformerEncoderLayer(**sizes) for _ in range(layers)))


def make_images():
    return Stack(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 8, 3))


OFF_CHIP = ((TensorRole.OPTIMIZER, TensorLocation(on_chip=False)),)
SHARED = ((TensorRole.OPTIMIZER, TensorLocation(replicated_sharding=True, minimum_sharded_elements=64)),)
PIPELINED = {"strategy": Strategy.PIPELINED, "gradient_accumulation": 8, "memory_proportions": ((0, 0.6), (1, 0.05))}
ZOO = {
    "images": (make_images, (4, 3, 32, 32), {}),
    "images again": (make_images, (4, 3, 32, 32), {"recompute": Recompute.STANDARD}),
    "recurrent": (Recurrent, (4, 10, 24), None),
    "encoder": (lambda: make_encoder(2), (2, 16, 64), {"gradient_accumulation": 4, "replicas": 2}),
    "encoder shared": (lambda: make_encoder(2), (2, 16, 64), {"replicas": 4, "locations": SHARED}),
    "encoder in stages": (lambda: make_encoder(4), (2, 16, 64), {**PIPELINED, "locations": OFF_CHIP}),
}
# Operators, steps, variables, bytes of the fullest tile, bytes in all, cycles of a call. A softmax of these encoders
# turns 2 x 4 x 16 x 16 floats on 64 tiles twice: 2 steps, and 2 x (587 + 3.125 x 128) = 1,974 cycles. Two layers: 3,948
# a micro-batch; in stages two layers and both again on the busier IPU, 7,896 in each of 8 micro-batches.
FIGURES = {
    "images": (109, 297, 122, 18624, 21727284, 105138.6867638951),
    "images again": (116, 332, 136, 18904, 21854540, 117175.68676389511),
    "recurrent": (4, 23, 13, 4068, 1816576, 59238.8125),
    "encoder": (514, 1303, 648, 17944, 19484244, 1114724.1038486024),
    "encoder shared": (514, 1619, 776, 18772, 19955132, 630191.7171386211),
    "encoder in stages": (1304, 3526, 1507, 22148, 53402072, 3224176.641344292),
}


def make_job(name):
    build, shape, options = ZOO[name]
    with torch.device("meta"):
        model = build()
    if options is None:
        return PlanningJob(model=model.eval(), args=torch.empty(*shape, device="meta"))
    return PlanningJob(
        model=model.train(),
        args=torch.empty(*shape, device="meta"),
        training=True,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.1),
        options=RunOptions(training=True, **options),
    )


def plan_zoo(name, program=None, known=None):
    """One program of the zoo; those in stages have two of them, with a checkpoint before each layer."""
    job = make_job(name)
    program = program or capture_job(job)
    system, options = resolve_system("bow-2000"), job.options or RunOptions()
    if "in stages" not in name:
        return plan_program(program, system, options, known=known)
    chain = find_chain(program, most_stages=4)
    last = len(chain.segments) - 1
    layout = Layout((Stage(0, last // 2, 0), Stage(last // 2 + 1, last, 1)), (0.6, 0.05), Keep.LAYER_INPUTS)
    with lay_out(program, chain, layout):
        return plan_program(program, system, options, known=known)


def read_figures(plan):
    counts = (len(plan.ops), len(plan.steps), len(plan.variables), plan.fit.peak_bytes, plan.fit.needed_bytes)
    return (*counts, plan.timing.call_cycles)


@pytest.mark.parametrize("name", ZOO)
def test_plans_are_as_they_were(name):
    assert read_figures(plan_zoo(name)) == pytest.approx(FIGURES[name], rel=1e-12)


@pytest.mark.parametrize("name", ZOO)
def test_plans_that_share_what_is_known_of_their_program_are_equal_to_those_that_do_not(name):
    program, known = capture_job(make_job(name)), KnownProgram()
    plain = plan_zoo(name, program)
    for _ in range(2):  # the second one is told everything
        told = plan_zoo(name, program, known)
        for field in ("ops", "steps", "variables", "fit", "timing", "pipeline", "guessed_ops"):
            assert getattr(told, field) == getattr(plain, field), field
        for one, other in zip(told.memory, plain.memory, strict=True):
            for field in dataclasses.fields(one):
                left, right = getattr(one, field.name), getattr(other, field.name)
                if isinstance(left, dict):
                    assert all((left[category] == right[category]).all() for category in MemoryCategory)
                else:
                    assert np.array_equal(left, right), field.name


def test_a_price_belongs_to_its_machine_and_its_proportion():
    program, known = capture_job(make_job("encoder")), KnownProgram()
    chosen = [("bow-2000", 0.6), ("pod16", 0.6), ("bow-2000", 0.01), ("bow-2000", 0.6)]
    for system, proportion in chosen:
        options = RunOptions(training=True, available_memory_proportion=proportion)
        told = plan_program(program, resolve_system(system), options, known=known)
        assert told.timing == plan_program(program, resolve_system(system), options).timing


def test_memory_by_tile_and_step_is_the_sum_of_what_is_live():
    rng, steps, tiles = np.random.default_rng(7), 300, 1472
    variables = []
    for index in range(400):
        first = int(rng.integers(0, steps))
        width = int(rng.integers(1, tiles + 1))
        mapping = TileMapping(int(rng.integers(0, tiles)), width, int(rng.integers(0, 5000)) * 8)
        last = int(rng.integers(first, min(steps, first + 40)))
        always = index % 50 == 0
        kind = VariableKind.PARAMETER if always else VariableKind.ACTIVATION
        variables.append(Variable(index, f"v{index}", kind, (1,), "uint8", mapping, always, first, last))
    found = TileLiveness(variables, steps, resolve_system("bow-2000"))
    live = np.zeros((steps, tiles), dtype=np.int64)
    for variable in variables:
        if not variable.always_live:
            live[variable.first_step : variable.last_step + 1] += variable.mapping.bytes_by_tile(tiles)
    assert np.array_equal(found.peak, live.max(axis=0))
    assert np.array_equal(found.peak_step, live.argmax(axis=0))
    assert np.array_equal(found.live_by_step, live.sum(axis=1))
    assert np.array_equal(found.fullest_by_step, live.max(axis=1))
    assert np.array_equal(found.always_live, sum(v.mapping.bytes_by_tile(tiles) for v in variables if v.always_live))
