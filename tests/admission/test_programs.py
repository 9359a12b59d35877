"""Programs from files: every captured one is accepted, and what capture never writes is refused by name."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import poptorch
from openipu.admission import Limits, check_program, read_program, run_once
from openipu.capture import capture_program
from openipu.errors import ArchiveError, ProgramFileError
from openipu.graph import RunOptions
from openipu.graph.fingerprint import fingerprint_program
from openipu.graph.serial import load_program, pack_tensors, unpack_tensors
from openipu.machine import resolve_system
from openipu.plan import plan_program

KINDS = ["loops", "pictures", "pictures_training", "sequences", "words"]


@pytest.mark.parametrize("name", KINDS)
def test_a_captured_program_is_accepted_and_runs_as_before(programs, files, name):
    program, serial = programs[name], files[name]
    found = read_program(serial.document, serial.tensors)
    assert fingerprint_program(found) == fingerprint_program(program)
    torch.manual_seed(0)
    expected = run_once(program)
    torch.manual_seed(0)
    for value, other in zip(expected, run_once(found), strict=True):
        assert torch.equal(value, other)


def test_a_half_program_is_accepted(files):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)).half()
    check_program(
        capture_program(model, (torch.ones(1, 3, 8, 8).half(),), {}, training=False, optimizer=None, name="model")
    )


def change(serial, edit):
    described = json.loads(serial.document)
    edit(described)
    return json.dumps(described).encode(), serial.tensors


def find_call(described, name):
    """The rows of nodes that call an operator of this name."""
    numbers = [
        index for index, known in enumerate(described["operators"]) if known.partition(".")[0] == f"aten::{name}"
    ]
    graphs = [described["micro"], *([described["update"]] if described["update"] else [])]
    return [row for graph in graphs for row in graph["nodes"] if row[1] in numbers and type(row[1]) is int]


def replace_first(name, arguments, returns=None, keywords=None):
    """An edit: the first node that is not an input calls `name` instead; %i is the first input of the micro-batch."""

    def edit(described):
        nodes = described["micro"]["nodes"]
        place = next(index for index, row in enumerate(nodes) if not isinstance(row[1], dict))
        described["operators"].append(name)
        described["values"].append(returns or described["values"][nodes[place][4]])
        number = len(described["operators"]) - 1
        nodes[place] = [
            nodes[place][0],
            number,
            arguments,
            keywords or {},
            len(described["values"]) - 1,
            nodes[place][5],
        ]

    return edit


@pytest.mark.parametrize(
    "name",
    [
        "aten::_ctc_loss",  # without a row in the op table
        "aten::max_unpool2d",
        "aten::_unsafe_index.Tensor",
        "aten::resize",
        "aten::set.source_Tensor",
        "aten::_fused_adam",
        "aten::_scaled_dot_product_flash_attention",  # of another machine
    ],
)
def test_an_operator_beyond_the_table_is_refused_with_its_node(files, name):
    edit = replace_first(name, [])
    with pytest.raises(ProgramFileError, match=rf"node \w+ \({name}\): this operator"):
        read_program(*change(files["pictures"], edit))


def test_only_what_stands_in_the_op_table_is_written_to_a_file():
    class Model(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    program = capture_program(Model(), (torch.ones(3),), {}, training=False, optimizer=None, name="model")
    with pytest.raises(ProgramFileError, match="is not in the table"):
        check_program(program)


@pytest.mark.parametrize(
    ("arguments", "keywords", "problem"),
    [
        (["%0", True, False], {}, "takes no argument"),
        ([], {}, "argument self): is missing"),
        ([{"text": "x"}], {}, "argument self): 'x' is not a Tensor"),
        (["%0"], {"self": "%0"}, "takes no argument 'self'"),
        (["%0"], {"out": "%0"}, "takes no argument 'out'"),
    ],
)
def test_arguments_are_held_against_the_schema(files, arguments, keywords, problem):
    edit = replace_first("aten::relu", arguments, keywords=keywords)
    with pytest.raises(ProgramFileError, match=r"node \w+ \(aten::relu") as error:
        read_program(*change(files["pictures"], edit))
    assert problem in str(error.value)


@pytest.mark.parametrize("given", [{"device": "meta"}, {"device": "cpu"}])
def test_the_only_device_is_the_processor(files, given):
    edit = replace_first("aten::full", [[2], 1.0], ["float32", [2], [1]], {"device": given})

    def attempt():
        described, tensors = change(files["pictures"], edit)
        read_program(described, tensors)

    if given["device"] == "meta":
        with pytest.raises(ProgramFileError, match=r"argument device\): device\(type='meta'\) is not a Optional"):
            attempt()
    else:  # a later node finds the wrong shape
        with pytest.raises(ProgramFileError, match="has no channels"):
            attempt()


def test_a_lie_about_a_result_is_found_out(files):
    def shape(described):
        described["values"][find_call(described, "relu")[0][4]] = ["float32", [2, 4, 8, 9], [288, 72, 9, 1]]

    def stride(described):
        row = described["values"][find_call(described, "relu")[0][4]]
        row[2] = [1, *row[2][1:]]

    def kind(described):
        described["values"][find_call(described, "relu")[0][4]][0] = "int32"

    for edit in (shape, stride, kind):
        with pytest.raises(ProgramFileError, match=r"declared"):
            read_program(*change(files["pictures"], edit))


def test_a_view_beyond_its_memory_is_refused(files):
    edit = replace_first(
        "aten::as_strided", ["%0", [2, 4, 8, 8], stride := [1 << 20, 64, 8, 1]], ["float32", [2, 4, 8, 8], stride]
    )
    with pytest.raises(ProgramFileError, match=r"as_strided\): .* a view over 4,195,328 bytes leaves the \d+ of its"):
        read_program(*change(files["pictures"], edit))


def test_memory_is_counted_before_it_is_taken(files):
    def add(described):
        described["operators"] += ["aten::full", "aten::sum"]
        described["values"] += [["float32", [1 << 33], [1]], ["float32", [], []]]
        values, operators = len(described["values"]), len(described["operators"])
        nodes = described["micro"]["nodes"]
        nodes.append(["wide", operators - 2, [[1 << 33], 1.0], {}, values - 2, None])

    with pytest.raises(ProgramFileError, match=r"needs 34,\d{3},\d{3},\d{3} bytes of memory at once"):
        read_program(*change(files["pictures"], add), Limits(memory_bytes=16 << 30))
    content = pack_tensors({"a": torch.ones(2)}).replace(b"[2]", b"[1099511627776]")
    with pytest.raises(ArchiveError, match="8 bytes instead of 4398046511104"):
        unpack_tensors(content)


def test_memory_of_one_tensor_is_counted_once_for_all_its_views():
    def forward(x):
        for _ in range(100):
            x = (x.t() + 1).reshape(1000, 1000)
        return x

    program = capture_program(forward, (torch.ones(1000, 1000),), {}, training=False, optimizer=None, name="model")
    check_program(program, Limits(memory_bytes=20 << 20))  # never more than 4 of 4 MB live at once
    with pytest.raises(ProgramFileError, match="needs"):
        check_program(program, Limits(memory_bytes=7 << 20))


def test_a_tensor_is_not_cut_into_a_billion(files):
    def edit(described):
        described["values"][0] = ["int8", [1 << 30], [1]]
        replace_first("aten::unbind.int", ["%0"])(described)

    with pytest.raises(ProgramFileError, match=r"unbind|another shape or type"):
        read_program(*change(files["pictures"], edit))


def test_loops_are_counted(files):
    def edit(described):
        row = next(row for row in described["micro"]["nodes"] if isinstance(row[1], dict) and "loop" in row[1])
        row[1]["loop"][2] = 10**9

    with pytest.raises(ProgramFileError, match="its loops run"):
        read_program(*change(files["loops"], edit))


def test_nodes_names_and_documents_have_limits(files):
    serial = files["pictures"]
    with pytest.raises(ProgramFileError, match=r"more nodes than allowed|more than 10 rows"):
        read_program(serial.document, serial.tensors, replace(Limits(), nodes=10))
    with pytest.raises(ProgramFileError, match="1,000 are allowed"):
        read_program(serial.document, serial.tensors, replace(Limits(), document_bytes=1000))

    def lengthen(described):
        described["name"] = "x" * 100_000

    with pytest.raises(ProgramFileError, match="at most 10,000 characters") as error:
        read_program(*change(serial, lengthen))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("name", "edit", "problem"),
    [
        ("words", lambda d: d["micro"]["inputs"][0].__setitem__(1, "seed"), "is a seed"),
        ("words", lambda d: d["update"]["outputs"][0].__setitem__(0, "tap"), "is a tap"),
        ("words", lambda d: d["state_slots"].append(d["state_slots"][0]), "stands there twice"),
        ("words", lambda d: d["hyper_parameters"].clear(), "not one of its hyper-parameters"),
        ("words", lambda d: d["state_slots"][0].__setitem__(2, [1 << 20]), "belongs to no slot"),
        ("pictures", lambda d: d["hyper_parameters"].append(["lr", 0]), "no update"),
        ("pictures", lambda d: d.__setitem__("output_tree", ["list", None, ["*", "*"]]), "do not fill"),
    ],
)
def test_the_signature_is_that_of_a_captured_program(files, name, edit, problem):
    with pytest.raises(ProgramFileError, match=problem):
        read_program(*change(files[name], edit))


def test_a_constant_has_its_values_and_nothing_lies_twice_in_the_file(files):
    tensors = unpack_tensors(files["pictures"].tensors)
    (key,) = tensors
    for held, problem in (
        ({key: tensors[key].to("meta")}, "has no values"),
        ({**tensors, "constant:other": torch.ones(2)}, "'other' is used by no graph"),
        ({}, "missing"),
    ):
        with pytest.raises(ProgramFileError, match=problem):
            read_program(files["pictures"].document, pack_tensors(held))
    header, _, content = files["pictures"].tensors.partition(b"\n")
    described = json.loads(header)
    for row in ([*described["tensors"][0]], ["b", "float32", [0], "cpu", -4], ["b", "float32", [1], "cpu", True]):
        listed = json.dumps({**described, "tensors": [*described["tensors"], row]}).encode()
        with pytest.raises(ArchiveError, match="stands there twice, or does not lie within the file"):
            unpack_tensors(listed + b"\n" + content)
    wrong = pack_tensors({"a": torch.tensor([True, False])})[:-1] + b"\x07"
    with pytest.raises(ArchiveError, match="neither true nor false"):
        unpack_tensors(wrong)


def test_a_number_format_that_no_program_has_is_refused(files):
    def edit(described):
        described["values"][0][0] = "quint8"

    with pytest.raises(ProgramFileError, match="damaged"):
        read_program(*change(files["pictures"], edit))


def test_a_function_of_the_host_cannot_be_named(files):
    def edit(described):
        row = next(row for row in described["micro"]["nodes"] if isinstance(row[1], dict) and "loop" in row[1])
        row[1] = {"function": ["os.system", "ls"]}

    with pytest.raises(ProgramFileError, match=r"os\.system|which no file can hold"):
        read_program(*change(files["loops"], edit))


def test_an_accepted_program_can_be_planned(files):
    for serial in files.values():
        program = read_program(serial.document, serial.tensors)
        assert plan_program(program, resolve_system("bow-2000"), RunOptions(training=program.training)).ops
    assert load_program(serial.document, serial.tensors).name == program.name


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.special.bessel_j0(self.layer(x))


def test_a_model_with_an_operator_beyond_the_table_is_captured_again_when_it_is_loaded(tmp_path):
    file, options = str(tmp_path / "a.poptorch"), poptorch.Options().showCompilationProgressBar(False)
    model = Doubled().eval()
    executor = poptorch.inferenceModel(model, options)
    executor.compileAndExport(file, torch.ones(2, 4), export_model=False)
    expected = executor(torch.ones(2, 4))
    other = poptorch.inferenceModel(model, options)
    other.loadExecutable(file)
    assert torch.equal(other(torch.ones(2, 4)), expected)
