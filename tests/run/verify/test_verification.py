"""Verification names what is wrong, goes on with right results, and is silent where all is well."""

import copy
import warnings

import pytest
import torch

from models import MODELS, OPTIMIZERS, WithLoss, make_data, make_model
from openipu.errors import OptionError
from openipu.graph import EngineMode, OutputKind, RunOptions
from openipu.overrides import read_verified_calls
from openipu.run.engine.pass_list import list_rules
from openipu.run.verify import VerificationWarning, read_reproducer, verify_calls

aten = torch.ops.aten


def scale_first_gradient(draft):
    """A rule that is wrong: one gradient is 1 % too large."""
    for node in draft.graph.find_nodes(op="call_function", target=aten.tanh_backward.default):
        with draft.graph.inserting_after(node):
            scaled = draft.graph.call_function(aten.mul.Tensor, (node, 1.01))
        scaled.meta = dict(node.meta)
        node.replace_all_uses_with(scaled, delete_user_cb=lambda user, own=scaled: user is not own)


def tanh_by_kernel(values):
    """A kernel that forgets the last element."""
    result = torch.tanh(values)
    result.view(-1)[-1] = 0.0
    return result


def use_kernel(draft):
    for node in draft.graph.find_nodes(op="call_function", target=aten.tanh.default):
        node.target = tanh_by_kernel


def train(start_training, name, options, *, calls=4, steps=3, optimizer="momentum", half=False):
    model = WithLoss(make_model(name, half)).train()
    x, labels = make_data(name, options.micro_batches, half)
    trained = start_training(model, OPTIMIZERS[optimizer](model.parameters()), [x, labels], options)
    verification = verify_calls(trained.executable, steps) if steps else None
    outputs = [trained.executable.run([x, labels]).outputs for _ in range(calls)]
    return trained, verification, outputs


PLAIN = RunOptions(training=True, engine=EngineMode.OPERATORS, random_seed=2)


@pytest.mark.parametrize(
    ("rule", "change"), [("scale a gradient", scale_first_gradient), ("tanh by a kernel", use_kernel)]
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_wrong_rule_is_named_and_results_are_right(start_training, plant, rule, change, optimizer):
    right, _, expected = train(start_training, "perceptron", PLAIN, steps=0, optimizer=optimizer)
    weights = right.read_weights()
    plant(rule, change)
    with pytest.warns(VerificationWarning, match=rule) as caught:
        trained, verification, outputs = train(start_training, "perceptron", PLAIN, optimizer=optimizer)
    assert verification.fault.rule == rule
    assert trained.executable.engine_mode is EngineMode.REFERENCE
    assert "differs by" in str(caught[0].message)
    for found, wanted in zip(outputs, expected, strict=True):
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "change"), [("scale a gradient", scale_first_gradient), ("tanh by a kernel", use_kernel)]
)
def test_the_reproducer_is_small_and_reproduces(start_training, plant, monkeypatch, rule, change):
    plant(rule, change)
    with pytest.warns(VerificationWarning):
        trained, verification, _ = train(start_training, "perceptron", PLAIN)
    found = read_reproducer(verification.path)
    assert rule in found.fault
    assert found.trial.run(found.without)
    whole = trained.executable.program
    assert len(found.trial.program.update.outputs_of(OutputKind.PARAMETER)) < 4
    assert len(found.trial.program.micro.outputs) < len(whole.micro.outputs)
    monkeypatch.undo()
    assert not found.trial.run(found.without)  # the list of rules is right again


def test_a_rule_that_fails_is_named(start_training, plant):
    def fail(draft):
        raise IndexError("no such node")

    plant("fail", fail)
    options = RunOptions(training=True, engine=EngineMode.OPERATORS, verify=3)
    with pytest.warns(VerificationWarning, match="the engine raised IndexError"):
        _, verification, outputs = train(start_training, "perceptron", options)
    assert verification.fault.rule == "fail"
    assert len(outputs) == 4


def test_inference_is_verified(start_inference, plant):
    model, (x, _) = make_model("perceptron"), make_data("perceptron")
    plant("tanh by a kernel", use_kernel)
    executable = start_inference(model, [x], RunOptions(engine=EngineMode.OPERATORS))
    verification = verify_calls(executable, 1)
    with pytest.warns(VerificationWarning, match="output 0"):
        (scores,) = executable.run([x]).outputs
    assert verification.fault.rule == "tanh by a kernel"
    torch.testing.assert_close(scores, model(x).detach())


VARIANTS = {
    "plain": {},
    "accumulation": {"gradient_accumulation": 3},
    "replicas": {"replicas": 2, "gradient_accumulation": 2, "broadcast_buffers": False},
    "iterations": {"device_iterations": 2},
}


@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MODELS)
def test_no_false_alarm_and_the_same_results(start_training, name, variant, half):
    options = RunOptions(training=True, engine=EngineMode.OPERATORS, random_seed=2, **VARIANTS[variant])
    plain, _, expected = train(start_training, name, options, steps=0, half=half, optimizer="Adam")
    with warnings.catch_warnings():
        warnings.simplefilter("error", VerificationWarning)
        checked, verification, found = train(start_training, name, options, half=half, optimizer="Adam")
    assert verification.compared == 3
    assert checked.executable.engine_mode is EngineMode.OPERATORS
    for mine, others in zip(found, expected, strict=True):
        assert all(torch.equal(left, right) for left, right in zip(mine, others, strict=True))
    weights = plain.read_weights()
    assert all(torch.equal(value, weights[key]) for key, value in checked.read_weights().items())


@pytest.mark.parametrize(
    "options",
    [{"stochastic_rounding": True}, {"half_partials": True}, {"stochastic_rounding": True, "gradient_accumulation": 2}],
    ids=str,
)
@pytest.mark.parametrize("name", ["perceptron", "cnn", "transformer"])
def test_number_options_raise_no_alarm(start_training, name, options):
    asked = RunOptions(training=True, engine=EngineMode.OPERATORS, random_seed=2, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", VerificationWarning)
        _, verification, _ = train(start_training, name, asked, half=True)
    assert verification.compared == 3


def test_the_global_random_stream_goes_on_as_without(start_training):
    places = []
    for steps in (0, 2):
        torch.manual_seed(9)
        train(start_training, "dropout", RunOptions(training=True, engine=EngineMode.OPERATORS), steps=steps)
        places.append(torch.get_rng_state())
    assert torch.equal(*places)


def test_calls_are_compared_again_when_the_engine_changes(start_training):
    trained, verification, _ = train(start_training, "perceptron", PLAIN, steps=2)
    x, labels = make_data("perceptron")
    assert verification.compared == 2
    trained.executable._supervisor.rebuild()
    trained.executable.run([x, labels])
    assert verification.compared == 3


def test_effects_do_not_happen_twice(start_inference):
    from openipu.capture import call_in_graph
    from openipu.graph import FunctionCall

    seen = []

    class Prints(torch.nn.Module):
        def forward(self, x):
            def write(value):
                seen.append(value)
                return (value.clone(),)

            return call_in_graph(FunctionCall("write", write, acts=True), [x], [x])[0] + 1

    x = torch.randn(2, 3)
    executable = start_inference(Prints(), [x], RunOptions(engine=EngineMode.OPERATORS))
    verification = verify_calls(executable, 3)
    with pytest.warns(VerificationWarning, match="must not run twice") as caught:
        executable.run([x])
    executable.run([x])  # a second warning would be an error
    assert len(caught) == 1
    assert len(seen) == 2
    assert verification.compared == 0


def test_wrong_inputs_have_their_own_message(start_inference):
    x = torch.randn(4, 6)
    executable = start_inference(make_model("perceptron"), [x], RunOptions(engine=EngineMode.OPERATORS))
    verify_calls(executable, 3)
    with pytest.raises(Exception, match="shape") as plain:
        executable.run_once([x[:, :5]])
    with pytest.raises(type(plain.value), match="shape"):
        executable.run([x[:, :5]])


def test_inputs_are_left_alone(start_inference):
    x = torch.randn(4, 6)
    kept = copy.deepcopy(x)
    executable = start_inference(make_model("perceptron"), [x], RunOptions(engine=EngineMode.OPERATORS))
    verify_calls(executable, 1)
    executable.run([x])
    assert torch.equal(x, kept)


def test_rules_have_names_of_their_own():
    rules = list_rules()
    assert len(set(rules)) == len(rules) > 20
    assert "sample from the seed" not in rules  # without it, results would be others


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "٣"])
def test_a_bad_number_of_calls_is_refused(text):
    with pytest.raises(OptionError, match="OPENIPU_VERIFY"):
        read_verified_calls(text)


def test_numbers_of_calls():
    assert read_verified_calls(None) == read_verified_calls("") == read_verified_calls("0") == 0
    assert read_verified_calls("12") == 12
