"""Blocks: results stay, names reach the program, annotated models stay ordinary models."""

import copy
import pickle

import pytest
import torch
from torch import nn

import poptorch
from openipu.graph import note_of


def quiet(iterations=1):
    return poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)


def list_blocks(executor):
    """The blocks of the program's ops, in order, without repetition."""
    graph = executor._compiled.program.micro.module.graph
    blocks = [note_of(node).block for node in graph.nodes if node.op == "call_function"]
    return [block for index, block in enumerate(blocks) if index == 0 or block != blocks[index - 1]]


def make_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))


def test_begin_block_names_what_follows_and_changes_no_result():
    model = make_layers()
    plain = copy.deepcopy(model)
    assert poptorch.BeginBlock(model[0], "first", ipu_id=0) is model[0]
    poptorch.BeginBlock(model[2], "second", ipu_id=1)
    executor = poptorch.inferenceModel(model, quiet(2))
    x = torch.randn(4, 2)
    assert torch.allclose(executor(x), plain(x))
    assert list_blocks(executor) == ["first", "second"]
    assert torch.equal(model(x), plain(x))
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_blocks_are_context_managers_and_decorators():
    @poptorch.BlockFunction("function", ipu_id=0)
    def double(x):
        """Twice as much."""
        return x * 2

    def forward(x):
        with poptorch.Block("first", ipu_id=0):
            x = x + 1
        x = double(x)
        poptorch.Block.start("rest", ipu_id=0)
        return x / 2

    executor = poptorch.inferenceModel(forward, quiet())
    assert executor(torch.ones(1)) == 2
    assert list_blocks(executor) == ["first", "function", "rest"]
    assert forward(torch.ones(1)) == 2
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")


def test_blocks_without_a_name_are_numbered():
    def forward(x):
        poptorch.Block.useAutoId()
        with poptorch.Block(ipu_id=0):
            x = x + 1
        with poptorch.Block(ipu_id=0):
            return x * 2

    executor = poptorch.inferenceModel(forward, quiet())
    executor(torch.ones(1))
    assert list_blocks(executor) == ["0", "1"]


def test_a_module_that_is_called_again_keeps_its_number():
    layers = make_layers()
    poptorch.BeginBlock(layers[0], ipu_id=0)
    poptorch.BeginBlock(layers[2], ipu_id=0)

    executor = poptorch.inferenceModel(torch.nn.Sequential(layers[0], layers[2], layers[0], layers[2]), quiet())
    executor(torch.ones(1, 2))
    assert list_blocks(executor) == ["0", "1", "0", "1"]


def test_an_op_after_the_end_of_a_block_is_named_with_its_line():
    def forward(x):
        with poptorch.Block("only", ipu_id=0):
            x = x + 1
        return x * 3  # outside

    executor = poptorch.inferenceModel(forward, quiet())
    with pytest.raises(poptorch.Error, match=r"No active Block, all the ops must belong to a Block: Mul \(at .*py"):
        executor(torch.ones(1))
    assert not poptorch.isRunningOnIpu()


def test_backward_ops_keep_the_stage_of_their_forward_op():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

        def forward(self, x):
            with poptorch.Block("one", ipu_id=0):
                x = self.first(x)
            with poptorch.Block("two", ipu_id=1):
                return poptorch.identity_loss(self.second(x), "mean")

    options = quiet()
    options.Training.gradientAccumulation(3)
    executor = poptorch.trainingModel(Model(), options)
    executor.compile(torch.ones(3, 2))
    places = {
        (note.module, note.phase.value): (note.block, note.ipu, note.stage)
        for note in map(note_of, executor._compiled.program.micro.module.graph.nodes)
        if note.block is not None
    }
    for phase in ("forward", "backward"):
        assert places["first", phase] == ("one", 0, 0)
        assert places["second", phase] == ("two", 1, 1)


def test_a_module_has_one_block_until_it_is_removed():
    layer = poptorch.BeginBlock(nn.Linear(1, 1), "one")
    with pytest.raises(poptorch.Error, match=r"module has already been assigned to a block\."):
        poptorch.BeginBlock(layer, "two")
    poptorch.removeBlocks(nn.Sequential(layer))
    poptorch.BeginBlock(layer, "two")
    with pytest.raises(poptorch.Error, match=r"module is not an instance of torch\.nn\.Module or function"):
        poptorch.BeginBlock(3)


def test_functions_can_begin_blocks():
    block = poptorch.BeginBlock(torch.relu, "name", 1)
    assert (block._user_id, block._ipu_id) == ("name", 1)
    assert block(torch.tensor([-1.0])) == 0


def test_annotated_models_can_be_saved_and_shown():
    model = nn.Sequential(poptorch.BeginBlock(nn.Linear(1, 1), "one", 0), nn.ReLU())
    again = pickle.loads(pickle.dumps(model))
    assert "BeginBlock(user_id=one, ipu_id=0) Linear(" in poptorch.module_repr(again)
    poptorch.removeBlocks(again)
    assert poptorch.module_repr(again) == repr(again)
    assert repr(poptorch.inferenceModel(model)) == poptorch.module_repr(model)
