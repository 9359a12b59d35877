"""Batched models compute what a loop over their micro-batches computes, or say why they cannot."""

import dataclasses
import functools
import operator

import pytest
import torch
import transformers
from batching_case import FACTOR, Case, batch, check, count, trace
from torch import fx, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from openipu.capture import capture_program, describe_optimizer
from openipu.errors import InternalError
from openipu.graph import RECURRENT_OPS, GraphInput, GraphOutput, InputKind, OutputKind, RunOptions, Tap, note_of
from openipu.run import list_tensors
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import random_bits
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.micro_batches import (
    NotBatchable,
    batch_draft,
    choose_factor,
    estimate_batched_bytes,
    estimate_peak_bytes,
)

aten = torch.ops.aten


# Whole models ---------------------------------------------------------------------------------------------------------


class Adapter(nn.Module):
    """A model and the way to call it."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model.train(), call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def capture_case(model, inputs, factor=FACTOR, options=None, seed=7) -> Case:
    """A training draft of the model, for inputs of `factor` micro-batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    first = tuple(value[: value.shape[0] // factor] if value.dim() else value for value in inputs)
    program = capture_program(model, first, {}, training=True, optimizer=spec, name="model")
    draft = draft_micro(program, options or RunOptions(training=True))
    weights = dict(model.named_parameters()) | dict(model.named_buffers())
    bound, values = dict(draft.bound), {}
    for entry in draft.inputs:
        if entry.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            bound[entry.node] = weights[entry.name].detach()
        elif entry.kind is InputKind.HYPER:
            bound[entry.node] = torch.tensor(8.0)
        elif entry.kind is InputKind.INPUT:
            values[entry.node] = inputs[entry.index]
        elif entry.kind is InputKind.SEED:
            values[entry.node] = torch.arange(factor, dtype=torch.int32) * 1013 + seed
    return Case(draft, bound, values)


def make_cnn():
    layers = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6),
        nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(24, 10),
    )  # fmt: skip
    model = Adapter(layers, lambda m, x, y: functional.cross_entropy(m(x), y, label_smoothing=0.1))
    return model, lambda n: (torch.randn(n, 1, 14, 14), torch.randint(0, 10, (n,)))


def make_bert():
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = Adapter(
        transformers.BertForMaskedLM(config), lambda m, x, a, y: m(input_ids=x, attention_mask=a, labels=y).loss
    )

    def make(n):
        tokens = torch.randint(0, 50, (n, 8))
        labels = torch.where(torch.rand(n, 8) < 0.5, tokens, -100)
        labels[:, 0] = 1
        return tokens, (torch.arange(8) < torch.randint(4, 9, (n, 1))).long(), labels

    return model, make


def make_gpt2():
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    config.loss_type = "ForCausalLM"
    model = Adapter(transformers.GPT2LMHeadModel(config), lambda m, x: m(input_ids=x, labels=x).to_tuple()[:2])
    return model, lambda n: (torch.randint(0, 50, (n, 8)),)


def make_vit():
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8,
        num_labels=5, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
    )  # fmt: skip
    model = Adapter(
        transformers.ViTForImageClassification(config), lambda m, x, y: m(pixel_values=x, labels=y).to_tuple()[:2]
    )
    return model, lambda n: (torch.randn(n, 3, 16, 16), torch.randint(0, 5, (n,)))


def make_mlp():
    layers = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 5))

    def call(m, x, y):
        scores = m(x)
        return {
            "loss": functional.cross_entropy(scores, y, ignore_index=3),
            "scores": scores,
            "best": scores.argmax(-1),
        }

    def make(n):
        labels = torch.randint(0, 5, (n,))
        labels[:: max(n // FACTOR, 1)] = 0
        return torch.randn(n, 6), labels

    return Adapter(layers, call), make


def make_embedding():
    model = Adapter(nn.Embedding(20, 4, padding_idx=0), lambda m, x, y: functional.mse_loss(m(x), y))
    return model, lambda n: (torch.randint(0, 20, (n, 5)), torch.randn(n, 5, 4))


def make_recurrent(layer=nn.LSTM):
    model = layer(4, 6, num_layers=2, bidirectional=True, batch_first=True)
    return Adapter(model, lambda m, x, y: functional.mse_loss(m(x)[0], y)), lambda n: (
        torch.randn(n, 5, 4),
        torch.randn(n, 5, 12),
    )


def make_gru():
    return make_recurrent(nn.GRU)


def make_rnn():
    return make_recurrent(nn.RNN)


MODELS = {
    maker.__name__.removeprefix("make_"): maker
    for maker in (
        make_cnn,
        make_bert,
        make_gpt2,
        make_vit,
        make_mlp,
        make_embedding,
        make_recurrent,
        make_gru,
        make_rnn,
    )
}


@functools.cache
def make_case(name, samples=1, factor=FACTOR) -> Case:
    torch.manual_seed(3)
    model, make = MODELS[name]()
    return capture_case(model, make(samples * factor), factor)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_losses_and_gradients_of_the_loop(name, samples):
    check(make_case(name, samples))


@pytest.mark.parametrize("factor", [1, 2, 8])
def test_any_number_of_micro_batches_is_batched(factor):
    check(make_case("bert", 1, factor), factor)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_a_batched_transformer_has_no_more_products_than_one_micro_batch(name):
    case = make_case(name)
    products = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.embedding_dense_backward.default)
    assert count(batch(case.draft), *products) == count(case.draft, *products)


def test_a_weight_gradient_is_computed_once_and_never_one_by_one():
    case = make_case("gpt2")
    for node, entry in zip(batch(case.draft).results, case.draft.outputs, strict=True):
        if entry.kind is OutputKind.GRADIENT and len(entry.shape) == 2:
            sizes = [value.meta["val"].numel() for value in node.all_input_nodes if value.op != "placeholder"]
            assert node.target is not aten.sum.dim_IntList, (entry.name, sizes)


@pytest.mark.parametrize("name", ["recurrent", "gru", "rnn", "cnn"])
def test_layers_are_not_unrolled(name):
    case = make_case(name)
    layers = [*RECURRENT_OPS.values(), aten.convolution.default, aten.convolution_backward.default]
    assert count(batch(case.draft), *layers) == count(case.draft, *layers)
    assert sum(count(case.draft, *layers)) >= 4


def test_micro_batches_have_masks_of_their_own():
    case = make_case("cnn", 2)
    batched = batch(case.draft)
    assert count(batched, random_bits) == count(case.draft, random_bits) == [2]
    other = dataclasses.replace(case, inputs=dict(case.inputs))
    (seed,) = (entry.node for entry in case.draft.inputs if entry.kind is InputKind.SEED)
    other.inputs[seed] = case.inputs[seed] + 1
    first, second = case.run_batched(batched)[0], other.run_batched(batched)[0]
    assert (first != second).all()
    assert len(set(first.tolist())) == FACTOR


def test_a_seed_is_a_vector_in_the_batched_draft():
    graph = fx.Graph()
    seed, x = graph.placeholder("seed"), graph.placeholder("x")
    seed.meta["val"] = torch.empty((), dtype=torch.int32, device="meta")
    x.meta["val"] = torch.empty(2, 3, device="meta")
    total = graph.call_function(aten.add.Tensor, (x, seed))
    total.meta["val"] = x.meta["val"]
    graph.output((total,))
    inputs = (
        GraphInput("seed", InputKind.SEED, "seed", (), torch.int32),
        GraphInput("x", InputKind.INPUT, "x", (2, 3), torch.float32, 0),
    )
    draft = Draft(graph, inputs, (GraphOutput(OutputKind.OUTPUT, "y", (2, 3), torch.float32, 0),))
    batched = batch(draft, 2)
    assert [entry.shape for entry in batched.inputs] == [(2,), (4, 3)]
    (y,) = generate_function(batched.graph, {}, "f")(torch.tensor([5, 7], dtype=torch.int32), torch.zeros(4, 3))
    assert y[:, 0].tolist() == [5, 5, 7, 7]


def test_the_loss_of_a_micro_batch_without_labels_is_nan_and_spoils_no_other():
    case = make_case("mlp", 2)
    inputs = {name: value.clone() for name, value in case.inputs.items()}
    labels = next(value for value in inputs.values() if not value.is_floating_point())
    labels[2:4] = 3
    other = dataclasses.replace(case, inputs=inputs)
    losses, expected = other.run_batched(batch(case.draft))[0], other.run_loop()[0]
    torch.testing.assert_close(losses, expected, equal_nan=True)
    assert losses.isnan().tolist() == [False, True, False]


def test_new_nodes_have_the_notes_of_their_origin():
    case = make_case("vit")
    lines = {note_of(node).line for node in case.draft.graph.nodes}
    for node in batch(case.draft).graph.nodes:
        if node.op == "call_function":
            assert note_of(node).line in lines
            assert note_of(node).module.startswith("model") or not note_of(node).module


def test_batching_leaves_the_draft_as_it_was():
    case = make_case("mlp")
    before = str(case.draft.graph)
    batch(case.draft)
    assert str(case.draft.graph) == before


# Refusals -------------------------------------------------------------------------------------------------------------


def refuse(draft) -> str:
    result = batch_draft(draft, 2)
    assert isinstance(result, NotBatchable)
    assert choose_factor(draft, 4, 1 << 40) in (1, 2, 4)
    return str(result)


def test_statistics_that_forward_writes_are_not_batched():
    model = Adapter(
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), lambda m, x: functional.mse_loss(m(x), torch.zeros(2, 3))
    )
    case = capture_case(model, (torch.randn(4, 4),), 2)
    assert "forward writes buffer model.1.running_mean" in refuse(case.draft)
    assert choose_factor(case.draft, 4, 1 << 40) == 1


def test_half_precision_gradients_are_not_batched():
    model = Adapter(nn.Linear(4, 3).half(), lambda m, x: functional.mse_loss(m(x), torch.zeros(2, 3).half()))
    case = capture_case(model, (torch.randn(4, 4).half(),), 2)
    assert "the gradient of model.weight is float16: it is rounded before it is accumulated" in refuse(case.draft)


def test_tapped_tensors_are_not_batched():
    model = Adapter(nn.Linear(4, 3), lambda m, x: functional.mse_loss(m(x), torch.zeros(2, 3)))
    spec = describe_optimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), {id(v): n for n, v in model.named_parameters()}
    )
    program = capture_program(model, (torch.randn(2, 4),), {}, training=True, optimizer=spec, name="model")
    tensor = next(name for name, node in list_tensors(program).items() if "mse_loss" in name)
    draft = draft_micro(program, RunOptions(training=True, taps=(Tap("t", tensor),)))
    assert "is tapped" in refuse(draft)


def test_draws_from_a_random_stream_are_not_batched(build_program):
    case = trace(build_program, lambda x: (x + torch.randn(6),), {"x": torch.randn(6, 6)})
    assert "randn draws from a random stream" in refuse(case.draft)


def test_functions_of_the_host_are_not_batched(build_program):
    case = trace(build_program, lambda x: (x + 1,), {"x": torch.randn(6, 6)})
    node = next(node for node in case.draft.graph.nodes if node.target is aten.add.Tensor)
    node.target = operator.add
    assert "add" in refuse(case.draft)
    assert "function of the host" in refuse(case.draft)


def test_memory_read_by_its_layout_is_not_batched(build_program):
    case = trace(build_program, lambda x: (aten.as_strided(x, [2], [1]) + 1,), {"x": torch.randn(6, 6)})
    assert refuse(case.draft).startswith("as_strided reads memory by its layout")


def test_too_many_operators_without_a_batched_form_are_not_batched(build_program):
    def invert(x):
        for _ in range(9):
            x = torch.linalg.inv_ex(x).inverse
        return (x,)

    case = trace(build_program, invert, {"x": torch.eye(6)[:, :2].contiguous()})
    assert "have no form for several micro-batches" in refuse(case.draft)


def test_a_factor_below_one_is_an_error_of_ours():
    with pytest.raises(InternalError, match="batched 0 times"):
        batch_draft(make_case("mlp").draft, 0)


# Memory ---------------------------------------------------------------------------------------------------------------


class Watch(TorchDispatchMode):
    """Counts the bytes of storages that are alive, by looking at what each operator returns."""

    def __init__(self, given):
        self.given = {value.untyped_storage()._cdata for value in given}
        self.alive = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in torch.utils._pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata not in self.given:
                storage = value.untyped_storage()
                self.alive[storage._cdata] = (
                    torch.multiprocessing.reductions.StorageWeakRef(storage),
                    storage.nbytes(),
                )
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return result


@torch.no_grad()
def measure_peak(case: Case, draft: Draft) -> int:
    function = generate_function(draft.graph, case.bound, "watched")
    arguments = [case.inputs[entry.node] for entry in draft.inputs if entry.node in case.inputs]
    with Watch([*case.bound.values(), *arguments]) as watch:
        function(*arguments)
    return watch.peak


@pytest.mark.parametrize("name", ["cnn", "bert", "gpt2", "mlp"])
def test_the_estimated_peak_is_the_measured_one(name):
    case = make_case(name, 2)
    batched = batch(case.draft)
    assert estimate_peak_bytes(batched) == pytest.approx(measure_peak(case, batched), rel=0.05)


@pytest.mark.parametrize("name", ["cnn", "bert", "gpt2", "vit"])
@pytest.mark.parametrize("keep", [True, False])
def test_the_peak_after_batching_is_known_before(name, keep):
    case = make_case(name)
    exact = estimate_peak_bytes(batch(case.draft, 8), keep_gradients=keep)
    assert estimate_batched_bytes(case.draft, 8, keep_gradients=keep) == pytest.approx(exact, rel=0.1)


def test_the_largest_divisor_within_the_budget_is_chosen():
    draft = make_case("bert").draft
    budgets = {factor: estimate_batched_bytes(draft, factor) for factor in (1, 2, 3, 4, 6, 12)}
    assert choose_factor(draft, 12, budgets[12]) == 12
    assert choose_factor(draft, 12, budgets[12] - 1) == 6
    assert choose_factor(draft, 12, budgets[6] - 1) == 4
    assert choose_factor(draft, 12, 0) == 1
