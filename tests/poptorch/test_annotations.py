"""Blocks: results stay, names reach the program, annotated models stay ordinary models."""

import copy
import pickle

import pytest
import torch
from torch import nn

import poptorch
from openipu.graph import note_of


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


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
    executor = poptorch.inferenceModel(model, quiet())
    x = torch.randn(3, 2)
    assert torch.allclose(executor(x), plain(x))
    assert list_blocks(executor) == ["first", "second"]
    assert torch.equal(model(x), plain(x))
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_more_than_one_ipu_is_told_once(caplog):
    from poptorch import _logging

    _logging._warned.clear()
    for _ in range(2):
        model = make_layers()
        poptorch.BeginBlock(model[2], ipu_id=1)
        poptorch.inferenceModel(model, quiet())(torch.ones(1, 2))
    assert caplog.text.count("planned on one IPU") == 1


def test_blocks_are_context_managers_and_decorators():
    @poptorch.BlockFunction("function")
    def double(x):
        return x * 2

    def forward(x):
        with poptorch.Block("outer"):
            x = x + 1
            with poptorch.Block("inner"):
                x = x * 3
            x = x - 1
        x = double(x)
        poptorch.Block.start("rest")
        return x / 2

    executor = poptorch.inferenceModel(forward, quiet())
    assert executor(torch.ones(1)) == 5
    assert list_blocks(executor) == ["outer", "inner", "outer", "function", "rest"]
    assert forward(torch.ones(1)) == 5


def test_blocks_without_a_name_are_numbered():
    def forward(x):
        poptorch.Block.useAutoId()
        with poptorch.Block():
            x = x + 1
        with poptorch.Block():
            return x * 2

    executor = poptorch.inferenceModel(forward, quiet())
    executor(torch.ones(1))
    assert list_blocks(executor) == ["0", "1"]


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
