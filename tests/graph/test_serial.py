"""Programs as JSON and tensors: written and read exactly, and no code of a file is run."""

import importlib.util
import json
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import poptorch
from openipu.capture import capture_program, describe_optimizer
from openipu.errors import ArchiveError, ExportError
from openipu.graph import LoopCall, RunOptions
from openipu.graph.fingerprint import fingerprint_origin, fingerprint_placement, fingerprint_program
from openipu.graph.serial import dump_program, load_program, pack_tensors, unpack_tensors
from openipu.machine import resolve_system
from openipu.plan import plan_program
from openipu.run import Executable

EXAMPLES = Path(__file__).parents[2] / "examples"


def capture(model, *args, optimizer=None, **kwargs):
    described = None
    if optimizer is not None:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        described = describe_optimizer(optimizer, names)
    return capture_program(model, args, kwargs, training=optimizer is not None, optimizer=described, name="model")


def read_again(program):
    serial = dump_program(program)
    return load_program(serial.document, serial.tensors)


def list_nodes(graph):
    for node in graph.module.graph.nodes:
        yield node
        for body in getattr(node.target, "bodies", ()):
            yield from list_nodes(body)


def check_same(program, other):
    """Everything but the identity of objects."""
    for fingerprint in (fingerprint_program, fingerprint_placement, fingerprint_origin):
        assert fingerprint(program) == fingerprint(other)
    for name in ("name", "hyper_parameters", "state_slots", "unused_parameters", "warnings"):
        assert getattr(program, name) == getattr(other, name)
    assert program.output_tree.spec == other.output_tree.spec
    assert set(program.constants) == set(other.constants)
    for graph, twin in ((program.micro, other.micro), (program.update, other.update)):
        if graph is None:
            assert twin is None
            continue
        assert graph.inputs == twin.inputs
        assert graph.outputs == twin.outputs
        for node, copy in zip(list_nodes(graph), list_nodes(twin), strict=True):
            assert (node.name, node.op, str(node.args), str(node.kwargs)) == (
                copy.name,
                copy.op,
                str(copy.args),
                str(copy.kwargs),
            )
            assert [type(item) for item in node.args] == [type(item) for item in copy.args]
            assert node.meta.get("note") == copy.meta.get("note")
            value, twin_value = node.meta.get("val"), copy.meta.get("val")
            assert type(value) is type(twin_value)
            if isinstance(value, torch.Tensor):
                assert (value.shape, value.stride(), value.dtype) == (
                    twin_value.shape,
                    twin_value.stride(),
                    twin_value.dtype,
                )


def train(program, model, inputs, steps=2):
    """Losses and weights of a few steps."""
    executable = Executable(program, RunOptions(training=True, random_seed=3))
    executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
    executable.set_hyper_parameters({entry.key: 0.1 for entry in program.hyper_parameters})
    results = [executable.run(list(inputs)).outputs for _ in range(steps)]
    weights = {name: torch.empty_like(value) for name, value in model.named_parameters()}
    executable.read_weights(weights, {name: value.clone() for name, value in model.named_buffers()})
    return [leaf for step in results for leaf in step] + list(weights.values())


class Classifier(nn.Module):
    """Convolution, normalisation, dropout, attention-like products, a constant, views with strides."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.normalise = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.25)
        self.out = nn.Linear(64, 5)

    def forward(self, images, labels):
        x = self.dropout(torch.relu(self.normalise(self.convolution(images))))
        rows = x.flatten(2).transpose(1, 2)
        mixed = torch.softmax(rows @ rows.transpose(1, 2), -1) @ rows
        logits = self.out(mixed.flatten(1)) * torch.tensor([1.0, 2.0, 3.0, 4.0, float("inf")]).clamp(max=9.0)
        return logits, nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)


def test_a_training_program_is_the_same_after_reading_and_trains_to_the_same_bits():
    torch.manual_seed(0)
    model = Classifier()
    inputs = torch.randn(2, 3, 4, 4), torch.tensor([0, 4])
    program = capture(model, *inputs, optimizer=torch.optim.SGD(model.parameters(), momentum=0.9))
    other = read_again(program)
    check_same(program, other)
    for expected, found in zip(train(program, model, inputs), train(other, model, inputs), strict=True):
        assert torch.equal(expected, found)
        assert found.isfinite().all()


def test_a_program_that_was_read_plans_to_the_same_figures():
    model = Classifier()
    inputs = torch.randn(2, 3, 4, 4), torch.tensor([0, 4])
    program = capture(model, *inputs, optimizer=torch.optim.SGD(model.parameters(), momentum=0.9))
    options, system = RunOptions(training=True), resolve_system("bow-2000")
    plan, other = (plan_program(item, system, options) for item in (program, read_again(program)))
    assert plan.timing == other.timing
    assert plan.fit == other.fit
    assert plan.ops == other.ops


@pytest.mark.parametrize("name", ["cnn", "lstm", "resnet50", "bert_base"])
def test_the_example_models_are_the_same_after_reading(name, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("plan_models", EXAMPLES / "plan_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    job = getattr(module, name)()
    program = capture(job.model, *job.args, optimizer=job.optimizer)
    check_same(program, read_again(program))


def test_loops_and_branches_are_carried_with_their_graphs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            offset = torch.arange(4.0)

            def body(y):
                (inner,) = poptorch.for_loop(2, lambda z: z * 1.5, [y])
                return self.layer(inner) + offset

            (looped,) = poptorch.for_loop(3, body, [x])
            (chosen,) = poptorch.cond(looped.sum() > 0, lambda a: a + 1, [looped], lambda a: a - 1, [looped])
            return chosen

    model, x = Model(), torch.randn(2, 4)
    program = capture(model, x)
    other = read_again(program)
    check_same(program, other)
    assert any(isinstance(node.target, LoopCall) for node in other.micro.module.graph.nodes)
    results = []
    for item in (program, other):
        executable = Executable(item, RunOptions())
        executable.load_weights(dict(model.named_parameters()), {})
        results.append(executable.run([x]).outputs[0])
    assert torch.equal(*results)


def test_results_keep_their_structure_and_the_values_of_the_host():
    def forward(x):
        kept = torch.tensor([1, 2, 3])
        return {"b": (x + 1, [x * 2, "text", 2.5, None]), 1: OrderedDict(a=x - 1)}, kept[0], True

    program = capture(forward, torch.ones(2))
    other = read_again(program)
    check_same(program, other)
    leaves, twins = program.output_tree.host_leaves, other.output_tree.host_leaves
    assert set(leaves) == set(twins)
    assert [str(leaf) for leaf in leaves.values()] == [str(leaf) for leaf in twins.values()]


def test_results_of_a_registered_class_are_found_in_the_registry():
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=11
    )
    model = transformers.BertForSequenceClassification(config).eval()
    program = capture(model, torch.zeros(1, 4, dtype=torch.long))
    other = read_again(program)
    check_same(program, other)
    assert other.output_tree.spec.type is transformers.modeling_outputs.SequenceClassifierOutput


def change(program, edit):
    """A file in which somebody changed the document."""
    serial = dump_program(program)
    document = json.loads(serial.document)
    edit(document)
    return json.dumps(document).encode(), serial.tensors


@pytest.fixture(scope="module")
def small():
    return capture(lambda x: torch.relu(x.sum(dim=1) + 1), torch.ones(2, 3))


def find_call(document):
    return next(row for row in document["micro"]["nodes"] if type(row[1]) is int)


@pytest.mark.parametrize(
    "name",
    [
        "aten::from_file",
        "aten::save",
        "aten::add_.Tensor",
        "aten::add.out",
        "aten::_print",
        "aten::nothing",
        "aten::__class__",
        "aten::add.__class__",
        "aten::warn",
        "openipu::call",
        "os::system",
        "torch::save",
        "prim::Print",
        "builtins.eval",
        "",
        5,
    ],
)
def test_only_pure_registered_operators_are_accepted(small, name):
    def edit(document):
        document["operators"][0] = name

    with pytest.raises(ArchiveError):
        load_program(*change(small, edit))


@pytest.mark.parametrize("name", ["a b", "x=print(1)", "x\n", "lambda", "", "a.b", "größe", None, 5])
def test_names_that_reach_generated_code_are_identifiers(small, name):
    def rename_node(document):
        find_call(document)[0] = name

    def rename_keyword(document):
        find_call(document)[3] = {name: 1}

    def rename_input(document):
        document["micro"]["nodes"][0][1] = {"placeholder": name}

    for edit in (rename_node, rename_input, *([rename_keyword] if isinstance(name, str) else [])):
        with pytest.raises(ArchiveError, match=r"is not a name|damaged"):
            load_program(*change(small, edit))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (1, {"function": "os.system"}),
        (1, {"get_attr": "__class__"}),
        (1, {"attribute": "missing"}),
        (1, {"loop": ["a", {}, 3, 1]}),
        (1, 99),
        (1, -1),
        (1, True),
        (2, ["%99"]),
        (2, ["%-1"]),
        (2, ["x"]),
        (2, [{"dtype": "load"}]),
        (2, [{"device": "cuda"}]),
        (2, [{"eval": "1"}]),
        (2, [{"tuple": [], "dict": []}]),
        (4, 99),
        (4, -1),
        (5, 99),
        (0, "x"),
    ],
)
def test_a_changed_node_is_refused(small, where, value):
    def edit(document):
        find_call(document)[where] = value
        if where == 0:
            find_call(document)[0] = document["micro"]["nodes"][0][0]

    with pytest.raises(ArchiveError):
        load_program(*change(small, edit))


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("values", ["float32", [-1], [1]]),
        ("values", ["float32", [2, 3], [1]]),
        ("values", ["float32", [2**40, 2**40], [1, 1]]),
        ("values", ["load", [2], [1]]),
        ("values", ["float32", [2.5], [1]]),
        ("notes", ["forward", 5, None, None, 0, 0, None]),
        ("notes", ["sideways", "", None, None, 0, 0, None]),
        ("notes", ["forward", "", 99, None, 0, 0, None]),
        ("lines", ["file", "one", "function"]),
    ],
)
def test_a_changed_table_is_refused(small, table, row):
    def edit(document):
        document[table][0] = row

    with pytest.raises(ArchiveError):
        load_program(*change(small, edit))


def test_a_signature_that_does_not_fit_the_graph_is_refused(small):
    def forget_input(document):
        document["micro"]["inputs"] = []

    def change_shape(document):
        document["micro"]["outputs"][0][2] = [3]

    def return_nothing(document):
        document["micro"]["returned"] = []

    for edit in (forget_input, change_shape, return_nothing):
        with pytest.raises(ArchiveError):
            load_program(*change(small, edit))


def test_another_format_or_no_document_is_refused(small):
    with pytest.raises(ArchiveError, match="format 99"):
        load_program(*change(small, lambda document: document.update(format=99)))
    for content in (b"", b"[]", b"{}", b"\x80\x04", b'"text"', b"[" * 100_000):
        with pytest.raises(ArchiveError):
            load_program(content, pack_tensors({}))


def test_a_class_that_nobody_registered_is_refused_without_an_import(small):
    def edit(document):
        document["output_tree"] = ["registered:antigravity.Module", [], ["*"]]

    with pytest.raises(ArchiveError, match=r"antigravity\.Module, which nothing in this process has registered"):
        load_program(*change(small, edit))
    assert "antigravity" not in sys.modules


Pair = namedtuple("Pair", "first second")


def test_what_only_this_process_has_is_named():
    def call_host(x):
        return poptorch.ipu_print_tensor(x, "shown") + 1

    with pytest.raises(ExportError, match="it calls print_tensor, a function of the host"):
        dump_program(capture(call_host, torch.ones(2)))
    with pytest.raises(ExportError, match="a result is a Pair"):
        dump_program(capture(lambda x: Pair(x + 1, x), torch.ones(2)))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(1.5),
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor([], dtype=torch.bool),
        torch.tensor([True, False]),
        torch.tensor([1.0, float("nan"), -0.0], dtype=torch.bfloat16),
        torch.tensor([1 + 2j]),
        torch.randn(3).to(torch.float8_e4m3fn),
        torch.empty(2, 3, device="meta"),
    ],
)
def test_tensors_come_back_bit_by_bit(tensor):
    (found,) = unpack_tensors(pack_tensors({"a name: with signs": tensor})).values()
    assert (found.shape, found.dtype, found.device) == (tensor.shape, tensor.dtype, tensor.device)
    if not tensor.is_meta:
        assert found.contiguous().view(-1).view(torch.uint8).equal(tensor.contiguous().view(-1).view(torch.uint8))


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_tensors_that_were_cut_off_are_refused(cut):
    content = pack_tensors({"a": torch.arange(4), "b": torch.ones(3)})
    with pytest.raises(ArchiveError):
        unpack_tensors(content[:-cut])
    with pytest.raises(ArchiveError):
        unpack_tensors(content + b"\0")
