"""Every node knows the user's line and module; backward nodes know those of the op that they differentiate."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.capture import mark_tensor, restore_block, set_block
from openipu.graph import OutputKind, Phase, note_of

transformers = pytest.importorskip("transformers")
aten = torch.ops.aten


def list_calls(program, phase):
    nodes = [node for node in program.micro.module.graph.nodes if node.op == "call_function"]
    return [node for node in nodes if note_of(node).phase is phase]


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x, labels):
        hidden = torch.relu(self.first(x))
        logits = self.second(hidden)
        return F.cross_entropy(logits, labels)


def find_line(text: str) -> int:
    lines, first = inspect.getsourcelines(TwoLayers.forward)
    return first + next(index for index, line in enumerate(lines) if text in line)


def test_forward_and_backward_of_an_op_name_the_same_line(capture_training):
    program = capture_training(TwoLayers(), torch.randn(2, 3), torch.tensor([0, 1]))
    found = {
        (note_of(node).phase, node.target, note_of(node).module, note_of(node).line.line)
        for node in program.micro.module.graph.nodes
        if node.op == "call_function"
    }
    relu_line, second_line, loss_line = find_line("relu"), find_line("second"), find_line("cross_entropy")
    assert (Phase.FORWARD, aten.relu.default, "", relu_line) in found
    assert (Phase.BACKWARD, aten.threshold_backward.default, "", relu_line) in found
    assert (Phase.FORWARD, aten.addmm.default, "second", second_line) in found
    assert (Phase.BACKWARD, aten.mm.default, "second", second_line) in found
    assert (Phase.BACKWARD, aten.mm.default, "first", relu_line) in found
    assert (Phase.BACKWARD, aten.nll_loss_backward.default, "", loss_line) in found


def test_all_nodes_of_bert_have_a_line_and_gradients_the_module_of_their_parameter(capture_training):
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24
    )
    model = transformers.BertForSequenceClassification(config).train()
    tokens = torch.randint(0, 50, (2, 8))
    program = capture_training(model, input_ids=tokens, labels=torch.tensor([0, 1]))
    forward, backward = list_calls(program, Phase.FORWARD), list_calls(program, Phase.BACKWARD)
    assert len(forward) > 100
    assert len(backward) > 150
    assert all(note_of(node).line is not None for node in (*forward, *backward))
    assert all("transformers" in note_of(node).line.file or __file__ == note_of(node).line.file for node in forward)
    # 100 % of the backward nodes outside the loss have a module, and layers run in reverse order.
    layers = [int(note_of(node).module.split("layer.")[1][0]) for node in backward if "layer." in note_of(node).module]
    assert layers == sorted(layers, reverse=True)
    assert len(layers) > 0.8 * len(backward)
    outputs = next(node for node in program.micro.module.graph.nodes if node.op == "output").args[0]
    pairs = zip(program.micro.outputs, outputs, strict=True)
    gradients = [(entry.name, node) for entry, node in pairs if entry.kind is OutputKind.GRADIENT]
    owned = [note_of(node).module == name.rpartition(".")[0] for name, node in gradients]
    assert all(owned), [name for (name, _), right in zip(gradients, owned, strict=True) if not right]


def test_lines_survive_the_replay_of_writes_through_views(capture_training):
    class Model(TwoLayers):
        def forward(self, x, labels):
            y = self.first(x)
            y[:, 1:2] += 1
            return F.cross_entropy(self.second(y), labels)

    program = capture_training(Model(), torch.randn(2, 3), torch.tensor([0, 1]))
    calls = [node for node in program.micro.module.graph.nodes if node.op == "call_function"]
    assert any(node.target is aten.slice_scatter.default for node in calls)
    assert all(note_of(node).line.file == __file__ for node in calls)


def test_blocks_reach_forward_and_backward(capture_training):
    class Blocks(TwoLayers):
        def forward(self, x, labels):
            before = set_block("encoder", ipu=1, stage=1)
            hidden = torch.relu(self.first(x))
            set_block("decoder", ipu=2, stage=2)
            logits = self.second(hidden)
            restore_block(before)
            return F.cross_entropy(logits, labels)

    program = capture_training(Blocks(), torch.randn(2, 3), torch.tensor([0, 1]))
    places = {
        (note_of(node).phase, node.target): (note_of(node).block, note_of(node).ipu, note_of(node).stage)
        for node in program.micro.module.graph.nodes
        if node.op == "call_function"
    }
    assert places[(Phase.FORWARD, aten.relu.default)] == ("encoder", 1, 1)
    assert places[(Phase.BACKWARD, aten.threshold_backward.default)] == ("encoder", 1, 1)
    assert places[(Phase.FORWARD, aten._log_softmax.default)] == (None, 0, 0)
    decoder = [node for node in list_calls(program, Phase.BACKWARD) if note_of(node).block == "decoder"]
    assert {aten.mm.default, aten.sum.dim_IntList} <= {node.target for node in decoder}


def test_a_marked_tensor_marks_the_op_behind_its_views(capture_inference):
    linear = nn.Linear(3, 4)

    class Marked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = linear

        def forward(self, x):
            return mark_tensor(self.linear(x), {"available_memory_proportion": 0.2})

    program = capture_inference(Marked(), torch.randn(2, 5, 3))
    marked = [node for node in program.micro.module.graph.nodes if note_of(node).attributes]
    assert [node.target for node in marked] == [aten.addmm.default]
    assert note_of(marked[0]).attributes == {"available_memory_proportion": 0.2}


def test_marks_outside_a_capture_do_nothing():
    x = torch.ones(2)
    assert mark_tensor(x, {"anything": 1}) is x
    restore_block(set_block("nowhere"))
