"""The ops of ai.graphcore, one by one, against torch and numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from graphcore_models import make_body, make_call, make_graphcore_model, run_op
from onnx import helper

from openipu.errors import AbortError, TranslationError
from openipu.host.beam_search import search_beams
from openipu.model_files import compile_file, run_file
from openipu.translate.module import ForeignModule
from openipu.translate.onnx.graphcore.domain import DOMAIN
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

torch.manual_seed(7)
X = torch.randn(3, 4)
Y = torch.randn(3, 4)
WHOLE = torch.tensor([[5, -5, 12], [7, 1, 0]], dtype=torch.int32)
OTHER = torch.tensor([[3, 3, -7], [2, 6, 9]], dtype=torch.int32)
IMAGE = torch.randn(2, 4, 5, 6)

ALL_58 = {
    *(
        "Call",
        "PackedDataBlock",
        "BatchNormalization",
        "GroupNormalization",
        "Subsample",
        "PrintTensor",
        "Nop",
        "Scale",
    ),
    *("ScaledAdd", "LSTM", "Gelu", "GeluErf", "Swish", "Detach", "Round", "NearbyInt", "DepthToSpace", "Init"),
    *("DynamicSlice", "DynamicUpdate", "DynamicZero", "DynamicAdd", "SequenceSlice", "ReplicatedAllReduce"),
    *("ReplicatedReduceScatter", "L1", "Nll", "IdentityLoss", "Ctc", "CtcBeamSearchDecoder", "MultiConv"),
    *("ShapedDropout", "Atan2", "Expm1", "Log1p", "Fmod", "Remainder", "Reshape", "Reverse", "Slice", "Abort"),
    *("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseXnor", "BitwiseNot", "Bucketize", "Sort", "ReduceMedian"),
    *("ScatterReduce", "GroupedGather", "IncrementMod", "TensorRemap", "SplineBasis", "SplineWeighting"),
    *("NormalizeImage", "CopyVarUpdate"),
}  # scatterreduce and groupedscatterreduce are one op


def test_the_table_has_every_op_that_the_builder_writes() -> None:
    assert {op for domain, op in TABLE.list_ops() if domain == DOMAIN} == ALL_58


SIMPLE: list[tuple[str, tuple[torch.Tensor, ...], dict[str, Any], Callable[..., torch.Tensor]]] = [
    ("Gelu", (X,), {}, lambda x: F.gelu(x, approximate="tanh")),
    ("GeluErf", (X,), {}, F.gelu),
    ("Swish", (X,), {}, F.silu),
    ("Detach", (X,), {}, lambda x: x),
    ("Scale", (WHOLE,), {"scale": 2.0}, lambda x: 2 * x),
    ("Nop", (X,), {}, lambda x: x),
    ("TensorRemap", (X,), {"remap_type": 0}, lambda x: x),
    ("Round", (torch.tensor([-2.5, -1.5, -0.4, 0.5, 1.5, 2.5]),), {}, lambda x: torch.tensor([-3.0, -2, 0, 1, 2, 3])),
    ("NearbyInt", (torch.tensor([-2.5, -1.5, 0.5, 1.5]),), {}, lambda x: torch.tensor([-2.0, -2, 0, 2])),
    ("Expm1", (X,), {}, torch.expm1),
    ("Log1p", (X.abs(),), {}, torch.log1p),
    ("Atan2", (X, Y), {}, torch.atan2),
    ("Fmod", (X, Y), {}, torch.fmod),
    ("Fmod", (WHOLE, OTHER), {}, torch.fmod),
    ("Remainder", (WHOLE, OTHER), {}, torch.remainder),
    ("BitwiseAnd", (WHOLE, OTHER), {}, torch.bitwise_and),
    ("BitwiseOr", (WHOLE, OTHER), {}, torch.bitwise_or),
    ("BitwiseXor", (WHOLE, OTHER), {}, torch.bitwise_xor),
    ("BitwiseXnor", (WHOLE, OTHER), {}, lambda x, y: ~(x ^ y)),
    ("BitwiseNot", (WHOLE,), {}, torch.bitwise_not),
    ("Scale", (X,), {"scale": 2.5}, lambda x: x * 2.5),
    ("ScaledAdd", (X, Y), {"scale0": 0.5, "scale1": -2.0}, lambda x, y: 0.5 * x - 2 * y),
    ("ScaledAdd", (X, Y, torch.tensor(3.0), torch.tensor(4.0)), {}, lambda x, y, a, b: a * x + b * y),
    ("IncrementMod", (torch.tensor([5.0, -5, 1]),), {"increment": 3.0, "modulus": 4.0}, lambda x: torch.fmod(x + 3, 4)),
    ("IncrementMod", (WHOLE,), {"increment": 3.0, "modulus": 4.0}, lambda x: torch.fmod(x + 3, 4)),
    ("Reshape", (X,), {"shape": [2, -1]}, lambda x: x.reshape(2, -1)),
    ("Reverse", (X,), {"dimensions": [1]}, lambda x: x.flip(1)),
    ("Slice", (X,), {"starts": [1], "ends": [3], "axes": [1]}, lambda x: x[:, 1:3]),
    ("Subsample", (IMAGE,), {"strides": [1, 2, 3, 4]}, lambda x: x[:, ::2, ::3, ::4]),
    ("DepthToSpace", (IMAGE,), {"blocksize": 2, "mode": "CRD"}, lambda x: F.pixel_shuffle(x, 2)),
    ("L1", (X,), {"lambda": 0.1, "reduction": "Mean"}, lambda x: 0.1 * x.abs().mean()),
    ("L1", (X,), {"lambda": 0.1, "reduction": "None"}, lambda x: 0.1 * x.abs()),
    ("IdentityLoss", (X,), {"reduction": "Sum"}, lambda x: x.sum()),
    ("ReplicatedAllReduce", (X,), {}, lambda x: x),
    ("ReplicatedReduceScatter", (X,), {}, lambda x: x.reshape(-1)),
    ("ShapedDropout", (X,), {"shape": [3, 1], "ratio": 0.5}, lambda x: x),  # in inference nothing is dropped
    (
        "NormalizeImage",
        (torch.rand(2, 3, 3, 3), torch.tensor([1.0, 2, 3]), torch.tensor([4.0, 5, 6])),
        {"scale": 0.5},
        lambda x, o, s: F.pad((x * 0.5 - o) * s, (0, 1)),
    ),
]


@pytest.mark.parametrize("case", range(len(SIMPLE)), ids=[f"{entry[0]}-{n}" for n, entry in enumerate(SIMPLE)])
def test_an_op_gives_what_torch_gives(case: int) -> None:
    op, inputs, attributes, wanted = SIMPLE[case]
    (found,) = run_op(op, *inputs, **attributes)
    torch.testing.assert_close(found, wanted(*inputs))


def test_unsigned_numbers_count_round_and_have_remainders() -> None:
    numbers = torch.tensor([5, 10, 1], dtype=torch.uint32)
    (found,) = run_op("IncrementMod", numbers, increment=3.0, modulus=4.0)
    assert found.dtype is torch.uint32
    assert found.tolist() == [0, 1, 0]


@pytest.mark.parametrize(("number", "dtype"), [(11, torch.float32), (12, torch.float16), (6, torch.int32)])
def test_init_makes_a_tensor_of_a_shape_and_a_format(number: int, dtype: torch.dtype) -> None:
    """Formats have the numbers that PopART gives them, not those of ONNX."""
    nodes = [
        make_call("Init", [], ["z"], shape=[3, 4], data_type=number, init_type=1),
        helper.make_node("Add", ["x", "z"], ["y"]),
    ]
    x = (10 * X).to(dtype)
    torch.testing.assert_close(run_file(make_graphcore_model(nodes, {"x": x}, ["y"]), {"x": x})["y"], x)


def test_init_with_a_format_that_popart_does_not_have_is_refused() -> None:
    model = make_graphcore_model([make_call("Init", [], ["z"], shape=[2], data_type=99, init_type=1)], {}, ["z"])
    with pytest.raises(TranslationError, match="data_type 99"):
        run_file(model, {})


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ignored", [None, 1])
@pytest.mark.parametrize("reduction", ["Mean", "Sum", "None"])
def test_nll_is_that_of_torch_on_logarithms_of_probabilities(log: bool, ignored: int | None, reduction: str) -> None:
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[0, 1, 4], [2, 1, 3]], dtype=torch.int32)
    x = logits.log_softmax(-1) if log else logits.softmax(-1)
    extra = {} if ignored is None else {"ignoreIndex": ignored}
    (found,) = run_op("Nll", x, labels, reduction=reduction, inputIsLogProbability=int(log), **extra)
    wanted = F.nll_loss(
        logits.log_softmax(-1).movedim(-1, 1),
        labels.long(),
        reduction=reduction.lower(),
        ignore_index=-100 if ignored is None else ignored,
    )
    torch.testing.assert_close(found, wanted)


def test_a_loss_of_which_every_label_is_ignored_is_zero() -> None:
    labels = torch.tensor([1, 1], dtype=torch.int32)
    (found,) = run_op("Nll", torch.full((2, 3), 1 / 3), labels, reduction="Mean", ignoreIndex=1)
    assert found.item() == 0.0


def test_a_probability_of_zero_has_a_finite_loss() -> None:
    (found,) = run_op("Nll", torch.tensor([[0.0, 1.0]]), torch.tensor([0], dtype=torch.int32), reduction="Sum")
    torch.testing.assert_close(found, -torch.log(torch.tensor(1e-7)))


@pytest.mark.parametrize(
    ("log", "wanted"), [(False, [-math.log(0.25), -math.log(1e-7)]), (True, [-math.log(0.25), 0.0])]
)
def test_a_label_that_is_no_class_counts_as_one_of_probability_zero(log: bool, wanted: list[float]) -> None:
    x = torch.full((2, 4), 0.25)
    labels = torch.tensor([3, 4], dtype=torch.int32)  # there are classes 0 to 3
    (found,) = run_op("Nll", x.log() if log else x, labels, reduction="None", inputIsLogProbability=int(log))
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_what_is_no_probability_counts_as_the_least_one() -> None:
    (found,) = run_op("Nll", torch.full((1, 3), -2.5), torch.tensor([1], dtype=torch.int32), reduction="Sum")
    torch.testing.assert_close(found, torch.tensor(-math.log(1e-7)))


@pytest.mark.parametrize("reduction", ["Mean", "Sum", "None"])
def test_ctc_divides_its_mean_by_the_lengths_of_the_labels(reduction: str) -> None:
    logarithms = torch.randn(6, 2, 5).log_softmax(-1)
    labels = torch.tensor([[1, 2, 3], [4, 1, 0]], dtype=torch.int32)
    lengths, sizes = torch.tensor([6, 5], dtype=torch.int32), torch.tensor([3, 2], dtype=torch.int32)
    (found,) = run_op("Ctc", logarithms, labels, lengths, sizes, blank=0, reduction=reduction, outDataType=1)
    wanted = F.ctc_loss(logarithms, labels.long(), lengths.long(), sizes.long(), reduction=reduction.lower())
    torch.testing.assert_close(found, wanted)


def test_the_decoder_finds_the_only_path_and_its_probability() -> None:
    sure = torch.full((4, 1, 3), 0.01)
    for step, label in enumerate((1, 0, 2, 2)):  # 1, blank, 2, 2 again: the labels 1, 2
        sure[step, 0, label] = 0.98
    lengths = torch.tensor([4], dtype=torch.uint32)
    scores, sizes, labels = run_op(
        "CtcBeamSearchDecoder", sure.log(), lengths, outputs=3, blank=0, beam_width=8, top_paths=2
    )
    assert sizes.dtype is torch.uint32
    assert labels.dtype is torch.uint32
    assert sizes[0, 0] == 2
    assert labels[0, 0, :2].tolist() == [1, 2]
    assert scores[0, 0] > scores[0, 1]


def search_all(values: np.ndarray, blank: int, width: int) -> float:
    """A prefix beam search that leaves no class out: the probability of the best path."""
    beams = {(): (1.0, 0.0)}
    for step in values:
        grown: dict[tuple[int, ...], np.ndarray] = {}
        for path, (in_blank, in_label) in beams.items():
            for label, share in enumerate(step):
                parts = [(path, (in_blank + in_label, 0.0))]
                if label != blank:
                    repeats = path[-1:] == (label,)
                    parts = [((*path, label), (0.0, in_blank if repeats else in_blank + in_label))]
                    parts += [(path, (0.0, in_label))] * repeats
                for key, gain in parts:
                    grown[key] = grown.get(key, np.zeros(2)) + share * np.array(gain)
        kept = sorted(grown, key=lambda key: -grown[key].sum())[:width]
        beams = {key: (grown[key][0], grown[key][1]) for key in kept}
    return max(sum(pair) for pair in beams.values())


@pytest.mark.parametrize("seed", range(6))
def test_a_narrow_beam_counts_every_way_to_the_paths_in_it(seed: int) -> None:
    """More classes than beams: a path in the beam grows by classes that no new path would be made with."""
    values = torch.log_softmax(torch.rand(8, 1, 12, generator=torch.Generator().manual_seed(seed)), 2)
    scores, _, _ = search_beams(values, torch.tensor([8]), blank=3, beam_width=4, top_paths=1)
    assert float(scores.exp()) == pytest.approx(search_all(values[:, 0].exp().numpy(), 3, 4), rel=1e-4)


def test_dynamic_slices_start_where_data_say() -> None:
    x, start = torch.randn(5, 12, 7), torch.tensor([2, 6], dtype=torch.uint32)
    part = torch.randn(2, 3, 7)
    places = {"axes": [0, 1], "sizes": [2, 3]}
    torch.testing.assert_close(run_op("DynamicSlice", x, start, **places)[0], x[2:4, 6:9])
    for op, inputs in (("DynamicUpdate", (part,)), ("DynamicAdd", (part,)), ("DynamicZero", ())):
        wanted = x.clone()
        wanted[2:4, 6:9] = {"DynamicUpdate": part, "DynamicAdd": x[2:4, 6:9] + part, "DynamicZero": part * 0}[op]
        torch.testing.assert_close(run_op(op, x, start, *inputs, **places)[0], wanted)


def test_a_slice_of_one_may_leave_its_dimension_out() -> None:
    x, start = torch.randn(5, 4), torch.tensor([3], dtype=torch.int32)
    torch.testing.assert_close(run_op("DynamicSlice", x, start, torch.zeros(4), axes=[0], sizes=[1])[0], x[3])


@pytest.mark.parametrize("zero", [0, 1])
def test_sequences_are_copied_from_place_to_place(zero: int) -> None:
    source, target = torch.randn(6, 3), torch.randn(5, 3)
    lengths, starts, goals = (torch.tensor(v, dtype=torch.uint32) for v in ([1, 2], [0, 4], [2, 0]))
    (found,) = run_op("SequenceSlice", source, target, lengths, starts, goals, zeroUnused=zero)
    wanted = target * 0 if zero else target.clone()
    wanted[2:3], wanted[0:2] = source[0:1], source[4:6]
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("together", [1, 2])
def test_a_graph_runs_on_packed_sequences(together: int) -> None:
    sizes = [3, 1, 2, 4]
    offsets = np.cumsum([0, *sizes[:-1]])
    data = torch.randn(10, 3)
    turned = helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1])
    body = make_body([turned, helper.make_node("MatMul", ["a", "t"], ["b"])], ["a"], ["b"])
    begin, length = torch.tensor(offsets, dtype=torch.uint32), torch.tensor(sizes, dtype=torch.uint32)
    (found,) = run_op(
        "PackedDataBlock",
        *(data, begin, length, begin, length),
        maxSequenceLengths=[5],
        resultSize=10,
        callbackBatchSize=together,
        callback=body,
    )
    wanted = torch.zeros(10, 5)
    for first, size in zip(offsets, sizes, strict=True):
        rows = data[first : first + size]
        wanted[first : first + size, :size] = rows @ rows.t()
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("reduction", ["sum", "max", "min", "mul", "none"])
@pytest.mark.parametrize("start", [False, True])
def test_a_scatter_reduces_rows(reduction: str, start: bool) -> None:
    source, index = torch.randn(6, 3), torch.tensor([0, 2, 2, 1, 0, 4], dtype=torch.int32)
    initial = torch.randn(5, 3) if start else None
    if reduction == "none":
        index = torch.tensor([0, 2, 3, 1, 5, 4], dtype=torch.int32)[:5]
        source = source[:5]
        index = torch.tensor([0, 2, 3, 1, 4], dtype=torch.int32)
    (found,) = run_op("ScatterReduce", source, index, initial, axis=0, axis_size=5, reduction=reduction)
    wide = index.long()[:, None].expand(-1, 3)
    base = initial if initial is not None else torch.full((5, 3), 1.0 if reduction == "mul" else 0.0)
    if reduction == "none":
        wanted = base.scatter(0, wide, source)
    else:
        kinds = {"sum": "sum", "max": "amax", "min": "amin", "mul": "prod"}
        wanted = base.scatter_reduce(0, wide, source, kinds[reduction], include_self=start)
    torch.testing.assert_close(found, wanted)


def test_groups_scatter_and_gather_each_for_itself() -> None:
    source, index = torch.randn(2, 6, 3), torch.randint(0, 5, (2, 6), dtype=torch.int32)
    (found,) = run_op("ScatterReduce", source, index, axis=1, axis_size=5, reduction="sum", group_size=2)
    wanted = torch.zeros(2, 5, 3).scatter_add(1, index.long()[..., None].expand(-1, -1, 3), source)
    torch.testing.assert_close(found, wanted)
    places = torch.randint(0, 6, (2, 4), dtype=torch.int32)
    (rows,) = run_op("GroupedGather", source, places, axis=1, group_size=2)
    torch.testing.assert_close(rows, torch.stack([source[g][places[g].long()] for g in range(2)]))


def test_buckets_sorting_and_medians_answer_with_32_bit_indices() -> None:
    bounds = torch.tensor([-1.0, 0.0, 1.0])
    for right in (0, 1):
        (found,) = run_op("Bucketize", X, bounds, right=right)
        torch.testing.assert_close(found, torch.bucketize(X, bounds, right=bool(right), out_int32=True))
    values, places = run_op("Sort", X, outputs=2, axis=1, descending=1, stable=1)
    wanted = X.sort(1, descending=True)
    torch.testing.assert_close(values, wanted.values)
    assert places.dtype is torch.int32
    assert torch.equal(places.long(), wanted.indices)
    middle, place = run_op("ReduceMedian", X, outputs=2, axes=[1], keepdims=0)
    found_median = X.median(1)
    torch.testing.assert_close(middle, found_median.values)
    assert place.dtype is torch.int32
    assert torch.equal(place.long(), found_median.indices)
    (whole, _) = run_op("ReduceMedian", X, outputs=2, keepdims=1)
    torch.testing.assert_close(whole, X.median().reshape(1, 1))


def test_splines_of_degree_one_interpolate() -> None:
    points = torch.tensor([[0.25], [0.5]])
    sizes, is_open = torch.tensor([5], dtype=torch.int32), torch.tensor([1], dtype=torch.uint8)
    basis, index = run_op("SplineBasis", points, sizes, is_open, outputs=2, degree=1)
    torch.testing.assert_close(basis, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # 0.25 * 4 = 1, 0.5 * 4 = 2
    assert index.tolist() == [[1, 2], [2, 3]]
    weight, x = torch.randn(5, 3, 2), torch.randn(2, 3)
    (found,) = run_op("SplineWeighting", x, weight, basis, index)
    torch.testing.assert_close(found, torch.stack([x[0] @ weight[1], x[1] @ weight[2]]))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_basis_functions_of_a_point_add_up_to_one(degree: int) -> None:
    sizes, is_open = torch.tensor([6, 7], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.uint8)
    basis, index = run_op("SplineBasis", torch.rand(9, 2), sizes, is_open, outputs=2, degree=degree)
    assert list(basis.shape) == list(index.shape) == [9, (degree + 1) ** 2]
    torch.testing.assert_close(basis.sum(1), torch.ones(9))
    assert int(index.min()) >= 0
    assert int(index.max()) < 42


def test_group_norm_also_answers_with_its_statistics() -> None:
    scale, bias = torch.randn(4), torch.randn(4)
    result, mean, inverse = run_op("GroupNormalization", IMAGE, scale, bias, outputs=3, num_groups=2)
    torch.testing.assert_close(result, F.group_norm(IMAGE, 2, scale, bias))
    rows = IMAGE.reshape(4, -1)
    torch.testing.assert_close(mean, rows.mean(1))
    torch.testing.assert_close(inverse, (rows.var(1, unbiased=False) + 1e-5).rsqrt())


@pytest.mark.parametrize("lengths", [None, [5, 3]])
@pytest.mark.parametrize("whole", [0, 1])
def test_lstm_has_the_gates_forget_input_cell_output(lengths: list[int] | None, whole: int) -> None:
    torch.manual_seed(3)
    layer = torch.nn.LSTM(3, 4)
    x, state = torch.randn(5, 2, 3), torch.randn(2, 2, 4)
    joined = torch.cat((layer.weight_ih_l0, layer.weight_hh_l0), 1).detach().reshape(4, 4, 7).transpose(1, 2)
    weights = joined[[1, 0, 2, 3]].contiguous()
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0).detach().reshape(4, 4)[[1, 0, 2, 3]]
    given = None if lengths is None else torch.tensor(lengths, dtype=torch.int32)
    output, cell = run_op("LSTM", x, weights, bias, state, given, outputs=2, output_full_sequence=whole)
    for sample, length in enumerate(lengths or [5, 5]):
        part = slice(sample, sample + 1)
        wanted, (hidden, last) = layer(x[:length, part], (state[:1, part], state[1:, part]))
        torch.testing.assert_close(cell[part], last[0], rtol=1e-4, atol=1e-5)
        found = output[:length, part] if whole else output[part]
        torch.testing.assert_close(found, wanted if whole else hidden[0], rtol=1e-4, atol=1e-5)
        if whole:
            assert not output[length:, sample].any()


def test_several_convolutions_are_one_op() -> None:
    first, second = torch.randn(1, 2, 6, 6), torch.randn(1, 3, 5, 5)
    weights = torch.randn(4, 2, 3, 3), torch.randn(2, 3, 2, 2)
    bias = torch.randn(2)
    found = run_op(
        "MultiConv",
        *(first, weights[0], None, second, weights[1], bias),
        outputs=2,
        numConvs=2,
        strides=[1, 1, 2, 2],
        pads=[1, 1, 1, 1, 0, 0, 1, 1],
        dilations=[1, 1, 1, 1],
    )
    torch.testing.assert_close(found[0], F.conv2d(first, weights[0], padding=1), rtol=1e-4, atol=1e-5)
    wanted = F.conv2d(F.pad(second, (0, 1, 0, 1)), weights[1], bias, stride=2)
    torch.testing.assert_close(found[1], wanted, rtol=1e-4, atol=1e-5)


def test_zeros_between_the_elements_of_an_input_make_a_transposed_convolution() -> None:
    x, weight = torch.randn(1, 2, 4, 4), torch.randn(2, 3, 2, 2)
    turned = weight.transpose(0, 1).flip(2, 3).contiguous()
    (found,) = run_op("MultiConv", x, turned, numConvs=1, inDilations=[2, 2], pads=[1, 1, 1, 1])
    torch.testing.assert_close(found, F.conv_transpose2d(x, weight, stride=2), rtol=1e-4, atol=1e-5)


def test_a_call_runs_its_graph_on_its_inputs() -> None:
    body = make_body([helper.make_node("Sub", ["a", "b"], ["c"])], ["a", "b"], ["c"])
    nodes = [make_call("Call", ["x", "y"], ["z"], callee=body), make_call("Call", ["z", "x"], ["w"], callee=body)]
    given = {"x": X, "y": Y}
    torch.testing.assert_close(run_file(make_graphcore_model(nodes, given, ["w"]), given)["w"], X - Y - X)


def test_a_call_with_too_few_inputs_is_refused() -> None:
    body = make_body([helper.make_node("Sub", ["a", "b"], ["c"])], ["a", "b"], ["c"])
    with pytest.raises(TranslationError, match="has 1 inputs, and the graph 'body' that it calls has 2"):
        run_op("Call", X, callee=body)


def test_a_print_writes_the_name_of_its_tensor_even_if_nobody_reads_it(capfd: pytest.CaptureFixture[str]) -> None:
    numbers = torch.tensor([5, 7, 12], dtype=torch.int32)
    nodes = [make_call("PrintTensor", ["x"], ["p"]), helper.make_node("Identity", ["x"], ["y"])]
    run_file(make_graphcore_model(nodes, {"x": numbers}, ["y"]), {"x": numbers})
    assert "x: [ 5  7 12]" in capfd.readouterr().err


@pytest.mark.parametrize("condition", [False, True])
def test_an_abort_ends_the_run_if_its_condition_holds(condition: bool) -> None:
    given = {"x": X, "stop": torch.tensor([condition])}
    nodes = [make_call("Abort", ["stop"], [], name="halt"), helper.make_node("Identity", ["x"], ["y"])]
    model = make_graphcore_model(nodes, given, ["y"])
    if condition:
        with pytest.raises(AbortError, match="halt"):
            run_file(model, given)
    else:
        torch.testing.assert_close(run_file(model, given)["y"], X)


def test_an_assigned_variable_keeps_its_value_from_run_to_run() -> None:
    body = make_body([make_call("CopyVarUpdate", ["a", "b"], ["c"])], ["a", "b"], ["c"])
    nodes = [
        helper.make_node("Add", ["count", "x"], ["more"]),
        make_call("CopyVarUpdate", ["count", "more"], ["y"]),
        helper.make_node("Add", ["inner", "x"], ["other"]),
        make_call("Call", ["inner", "other"], ["z"], callee=body),  # also under another name
    ]
    x = torch.tensor([2.0])
    weights = {"count": np.zeros(1, np.float32), "inner": np.ones(1, np.float32)}
    compiled, data = compile_file(make_graphcore_model(nodes, {"x": x}, ["y", "z"], weights), {"x": x})
    found = [[float(value) for value in compiled.executable.run(data).outputs] for _ in range(3)]
    assert found == [[2, 3], [4, 5], [6, 7]]


def test_batch_norm_in_training_keeps_running_statistics() -> None:
    torch.manual_seed(5)
    x, scale, bias = torch.randn(4, 3, 2, 2), torch.rand(3), torch.rand(3)
    nodes = [make_call("BatchNormalization", ["x", "s", "b", "mean", "var"], ["y", "m", "v", "sm", "sv"], momentum=0.9)]
    held = {"s": scale.numpy(), "b": bias.numpy(), "mean": np.zeros(3, np.float32), "var": np.ones(3, np.float32)}
    module = ForeignModule(read_model(make_graphcore_model(nodes, {"x": x}, ["y"], held)).graph, TABLE)
    assert {name for name, _ in module.named_buffers()} == {"mean", "var"}
    result = module.train()(x)["y"]
    torch.testing.assert_close(result, F.batch_norm(x, None, None, scale, bias, True))
    buffers = dict(module.named_buffers())
    torch.testing.assert_close(buffers["mean"], 0.1 * x.mean((0, 2, 3)))
    torch.testing.assert_close(buffers["var"], 0.9 + 0.1 * x.var((0, 2, 3)))  # of a sample, as in PyTorch


def test_reductions_over_replicas_say_what_is_missing() -> None:
    graph = read_model(make_graphcore_model([make_call("ReplicatedAllReduce", ["x"], ["y"])], {"x": X}, ["y"])).graph
    with pytest.raises(TranslationError, match="exchanges data between 4 replicas while they run"):
        ForeignModule(graph, TABLE, replicas=4)(X)


def test_an_assignment_to_what_is_no_variable_is_refused() -> None:
    with pytest.raises(TranslationError, match="assigns to 'x0', which is not an initializer"):
        run_op("CopyVarUpdate", X, Y)


@pytest.mark.parametrize("reduction", ["Sum", "Max"])
def test_scattering_into_a_larger_tensor_by_spread_indices_touches_the_right_rows(reduction: str) -> None:
    source, start = torch.randn(4, 6, 3), torch.zeros(5, 7, 3)
    indices = torch.tensor([2, 0, 2, 4]).reshape(4, 1, 1)
    (found,) = run_op("ScatterReduce", source, indices.to(torch.int32), start, axis=0, axis_size=5, reduction=reduction)
    wanted = start.clone()
    for row, place in enumerate(indices.flatten().tolist()):
        part = wanted[place, :6]
        wanted[place, :6] = part + source[row] if reduction == "Sum" else torch.maximum(part, source[row])
    torch.testing.assert_close(found, wanted)
