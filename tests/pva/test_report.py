"""The analysis library's interface over a real plan: the same figures, by the original's names."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import poptorch
import pva
from openipu.errors import ProfileError


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x, target):
        for layer in self.layer:
            x = torch.relu(layer(x))
        return poptorch.identity_loss((x - target).square().mean(), reduction="none")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("profile")
    options = poptorch.Options()
    options.enableProfiling(str(directory))
    options.Training.gradientAccumulation(2)
    model = Layers()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    training(torch.randn(8, 64), torch.randn(8, 64))
    training.destroy()
    (found,) = Path(directory).rglob("profile.pop")
    return found


@pytest.fixture(scope="module")
def report(path):
    return pva.openReport(str(path), "a debug file is not needed")


def test_the_target_is_the_modelled_ipu(report):
    target = report.compilation.target
    assert target.type is pva.TargetType.IpuModel
    assert target.numTiles == target.tilesPerIpu == 1472
    assert target.totalMemory == 1472 * target.bytesPerTile
    assert report.poplarVersion.string.startswith("openipu ")


def test_memory_of_tiles_is_what_always_lives_plus_the_peak_of_the_rest(report):
    tiles = report.compilation.tiles
    assert len(tiles) == 1472
    for tile in (tiles[0], tiles[-1]):
        memory = tile.memory
        assert memory.total.includingGaps == memory.alwaysLiveBytes + memory.notAlwaysLiveBytes
    always = sum(variable.size for variable in report.compilation.alwaysLiveVariables)
    on_tiles = sum(tile.memory.alwaysLiveBytes for tile in tiles)
    rounded = sum(v.total_bytes % v.grain_bytes != 0 for v in report._profile.variables if v.always_live)
    # Variables lie in whole grains on tiles, so tiles hold a little more than the sum of sizes.
    assert 0 <= on_tiles - always <= 8 * rounded * 1472


def test_categories_add_up_to_the_code_of_all_programs(report):
    programs = [program for program in report.compilation.programs if not program.children]
    tiles = [tile.memory.category for tile in report.compilation.tiles]
    assert sum(p.controlCodeByTile.sum() for p in programs) == sum(c.controlCode.total for c in tiles)
    assert sum(p.codeBytesByTile.sum() for p in programs) == sum(c.internalExchangeCode.total for c in tiles)
    vertices = report.compilation.tiles[0].memory.vertices
    assert sum(vertex.codeBytes for vertex in vertices) == tiles[0].vertexCode.total
    assert tiles[0].stack.total == 0, "not modelled, and there for scripts that ask"
    with pytest.raises(AttributeError, match="no storage category"):
        _ = tiles[0].nonsense


def test_steps_last_as_long_as_the_plan_says(report):
    profile = report._profile
    cycles = sum(step.ipus[0].cycles for step in report.execution.steps)
    assert cycles == pytest.approx(profile.steps.cycles.sum(), abs=len(profile.steps))
    assert report.execution.totalCycles == round(profile.timing.call_cycles)
    assert report.execution.totalCycles.total == round(profile.timing.call_cycles)
    (run,) = report.execution.runs
    assert run.microseconds.end == pytest.approx(profile.timing.call_cycles / profile.timing.clock_hz * 1e6)


def test_a_visitor_sees_each_kind_of_program(report):
    class Visitor(pva.ProgramVisitor):
        def __init__(self):
            super().__init__()
            self.vertices, self.exchanges, self.syncs = 0, 0, 0

        def visitOnTileExecute(self, program):
            self.vertices += len(program.computeset.vertices)

        def visitDoExchange(self, program):
            assert program.type == pva.Program.Type.DoExchange
            self.exchanges += 1

        def visitSync(self, program):
            self.syncs += 1

    visitor = Visitor()
    for step in report.execution.steps:
        step.program.accept(visitor)
    kinds = report._profile.steps.kind
    assert visitor.vertices > 0
    assert (visitor.exchanges, visitor.syncs) == (kinds.count("exchange"), kinds.count("sync"))


def test_the_tree_of_a_call_repeats_micro_batches_and_then_updates(report):
    root = report.compilation.programs[0]
    loop = next(child for child in root.children if child.type == pva.Program.Type.Repeat)
    (iteration,) = loop.children
    accumulation, update = iteration.children
    assert (accumulation.type, accumulation.count) == (pva.Program.Type.Repeat, 2)
    assert update.name == "update"
    assert update.children


def test_liveness_names_the_variables_of_a_step(report):
    steps = report.compilation.livenessProgramSteps
    live = [step.notAlwaysLiveMemory.bytes for step in steps]
    peak = steps[int(np.argmax(live))]
    variables = peak.notAlwaysLiveMemory.variables
    assert variables == sorted(variables, key=lambda variable: -variable.size)
    assert peak.notAlwaysLiveMemory.bytes == peak.notAlwaysLiveMemoryForIpu(0).bytes
    on_tiles = sum(peak.notAlwaysLiveMemoryForTile(tile).bytes for tile in range(1472))
    assert on_tiles == peak.notAlwaysLiveMemory.bytes


def test_operations_carry_module_path_line_programs_and_pieces_of_memory(report):
    operations = pva.OperationAnalysis(report).operations
    operation = next(one for one in operations if "layer/1/" in one.name and "mm" in one.name)
    content = json.loads(operation.debugContext.json)
    assert content["op_name"] == operation.name
    assert operation.debugContext.location.fileName.endswith("test_report.py")
    assert operation.lastStepIndex >= operation.firstStepIndex
    assert {program.type for program in operation.programs()} >= {pva.Program.Type.OnTileExecute}
    pieces = {piece._id: piece for piece in operation.vars}
    brief = report.compilation.loweredVariables.allBriefVars
    for number, piece in list(pieces.items())[:50]:
        assert (brief[number].bytes, brief[number].tileId) == (piece.bytes, piece.tileId)
    assert any(piece.name.startswith("layer.1.weight") for piece in pieces.values())


def test_equal_layers_share_their_programs(report):
    operations = pva.OperationAnalysis(report).operations
    products = [one for one in operations if "/addmm" in one.name]
    shared = {p._id for p in products[0].programs()} & {p._id for p in products[1].programs()}
    assert shared


def test_lists_print_as_many_elements_as_asked(report):
    report.listPrintLength(2)
    assert repr(pva.OperationAnalysis(report).operations).endswith(", ...]")
    with pytest.raises(IndexError, match="there is no element"):
        _ = report.execution.steps[10**6]


def test_a_truncated_or_foreign_file_is_a_clear_error(path, tmp_path):
    cut = tmp_path / "profile.pop"
    cut.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ProfileError, match="damaged"):
        pva.openReport(cut)
    cut.write_text("not a database, and longer than a header of SQLite would ever have to be to count as one\n" * 3)
    with pytest.raises(ProfileError):
        pva.openReport(str(cut))
    with pytest.raises(ProfileError, match="no profile at"):
        pva.openReport(tmp_path / "nowhere.pop")
