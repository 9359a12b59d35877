"""Several threads use executors: one compilation, no update lost, nothing torn, nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

import poptorch

LONGEST_SECONDS = 1800.0  # a thread that takes longer hangs
CALLS = 12


class Counter(torch.nn.Module):
    """Each update with a learning rate of 1 on ones takes 1 from the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return poptorch.identity_loss((self.weight * x).sum(), "none")


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class Draws(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.dropout(x, 0.5, training=True), torch.randperm(16).to(torch.int32)


def make_options() -> poptorch.Options:
    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    return options


def wrap_counter(model: Counter) -> poptorch.PoplarExecutor:
    return poptorch.trainingModel(model, make_options(), torch.optim.SGD(model.parameters(), lr=1.0))


def run_together(*works: Callable[[], object]) -> None:
    """Start all at once; the first error of any of them is raised, and a thread that hangs is one."""
    gate = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def enter(work: Callable[[], object]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=enter, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if errors:
        raise errors[0]


@contextmanager
def count_compilations() -> Iterator[list[int]]:
    counted: list[int] = []
    handle = poptorch.registerPreCompileHook(lambda: counted.append(1))
    try:
        yield counted
    finally:
        handle.remove()


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_the_first_calls_of_several_threads_compile_once_and_give_each_its_own_result(threads: int) -> None:
    model = Network().eval()
    inputs = [torch.randn(3, 8) for _ in range(threads)]
    alone = poptorch.inferenceModel(model, make_options())
    expected = [alone(x) for x in inputs]
    shared = poptorch.inferenceModel(model, make_options())
    found: list[list[torch.Tensor]] = [[] for _ in range(threads)]

    def call(index: int) -> Callable[[], None]:
        return lambda: found[index].extend(shared(inputs[index]) for _ in range(CALLS))

    with count_compilations() as compilations:
        run_together(*(call(index) for index in range(threads)))
        run_together(*(call(index) for index in range(threads)))  # and warm
    assert len(compilations) == 1
    for results, wanted in zip(found, expected, strict=True):
        assert len(results) == 2 * CALLS
        assert all(torch.equal(result, wanted) for result in results)


@pytest.mark.parametrize("threads", [2, 4, 8])
def test_no_update_of_several_threads_is_lost(threads: int) -> None:
    model = Counter()
    training = wrap_counter(model)

    def train() -> None:
        for _ in range(CALLS):
            training(torch.ones(4))

    run_together(*[train] * threads)
    assert model.weight.tolist() == [-float(CALLS * threads)] * 4
    run_together(*[train] * threads)
    assert model.weight.tolist() == [-float(2 * CALLS * threads)] * 4


def test_different_models_compile_in_different_threads_as_they_would_alone() -> None:
    class Staged(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = poptorch.BeginBlock(torch.nn.Linear(width, width), "first", ipu_id=0)
            self.second = poptorch.BeginBlock(torch.nn.Linear(width, 2), "second", ipu_id=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x))

    def wrap(model: torch.nn.Module) -> poptorch.PoplarExecutor:
        options = make_options().deviceIterations(2)
        options.setExecutionStrategy(poptorch.PipelinedExecution("first", "second"))
        return poptorch.inferenceModel(model, options)

    models = [Staged(width).eval() for width in (3, 5, 7, 9)]
    inputs = [torch.randn(4, width) for width in (3, 5, 7, 9)]
    expected = [wrap(model)(x) for model, x in zip(models, inputs, strict=True)]
    found: dict[int, torch.Tensor] = {}
    executors = [wrap(model) for model in models]

    def call(index: int) -> Callable[[], None]:
        return lambda: found.update({index: executors[index](inputs[index])})

    run_together(*(call(index) for index in range(4)))
    assert all(torch.equal(found[index], expected[index]) for index in range(4))


def test_one_model_is_compiled_for_training_and_evaluation_at_once() -> None:
    class Scaled(Counter):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if self.training else self.weight * x

    model = Scaled()
    for _ in range(3):
        training = wrap_counter(model.train())
        evaluation = poptorch.inferenceModel(model.eval(), make_options())
        model.train()
        seen: list[torch.Tensor] = []
        run_together(
            lambda training=training: [training(torch.ones(4)) for _ in range(CALLS)],
            lambda evaluation=evaluation, seen=seen: seen.extend(evaluation(torch.ones(4)) for _ in range(CALLS)),
            lambda: poptorch.inferenceModel(model, make_options()),
            lambda: [model.weight.sum() for _ in range(CALLS)],
        )
        for values in seen:  # the weights of one moment, never half of an update
            assert len(set(values.tolist())) == 1
        steps = [-values[0].item() for values in seen]
        assert steps == sorted(steps)
        training.destroy()
    assert model.weight.tolist() == [-3.0 * CALLS] * 4


def test_weights_can_be_copied_saved_and_freed_while_another_thread_trains(tmp_path: Path) -> None:
    model = Counter()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    optimizer.param_groups[0]["momentum"] = 0.0
    training = poptorch.trainingModel(model, make_options(), optimizer)
    ended = threading.Event()
    rounds = 5

    def train() -> None:
        try:
            for _ in range(rounds * CALLS):
                training(torch.ones(4))
        finally:
            ended.set()

    def look_after() -> None:
        while not ended.is_set():
            for work in (
                training.copyWeightsToHost,
                lambda: training.setOptimizer(optimizer),
                lambda: training.save(str(tmp_path / "saved.poptorch"), export_model=False),
                optimizer.state_dict,
                training.detachFromDevice,
                training.attachToDevice,
                training.copyWeightsToHostIfNeeded,
                training.destroy,
            ):
                with suppress(poptorch.Error):  # not compiled yet, or attached again already
                    work()

    def look() -> None:
        while not ended.is_set():
            assert len(set(model.weight.tolist())) == 1

    run_together(train, look_after, look)
    training(torch.ones(4))
    assert model.weight.tolist() == [-float(rounds * CALLS + 1)] * 4


def test_programs_with_seeds_draw_the_same_numbers_beside_each_other_as_alone() -> None:
    def wrap(seed: int) -> poptorch.PoplarExecutor:
        executor = poptorch.inferenceModel(Draws(), make_options().randomSeed(seed))
        executor.compile(x)
        return executor

    x = torch.ones(64)
    state = torch.get_rng_state()
    expected = [[executor(x) for _ in range(CALLS)] for executor in map(wrap, (1, 2, 3))]
    executors = list(map(wrap, (1, 2, 3)))
    found: list[list[tuple[torch.Tensor, ...]]] = [[], [], []]

    def call(index: int) -> Callable[[], None]:
        return lambda: found[index].extend(executors[index](x) for _ in range(CALLS))

    torch.set_rng_state(state)
    run_together(*(call(index) for index in range(3)))
    assert torch.equal(torch.get_rng_state(), state)
    for results, wanted in zip(found, expected, strict=True):
        for (dropped, order), (wanted_dropped, wanted_order) in zip(results, wanted, strict=True):
            assert torch.equal(dropped, wanted_dropped)
            assert torch.equal(order, wanted_order)


def test_a_host_function_that_calls_its_own_model_is_told_so() -> None:
    inside: list[poptorch.PoplarExecutor] = []

    class Recursive(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.back = poptorch.CPU(self.call_back, "back")

        def call_back(self, x: torch.Tensor) -> torch.Tensor:
            return inside[0](x) if inside else x

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.back(x) + 1

    executor = poptorch.inferenceModel(Recursive(), make_options())
    inside.append(executor)
    with pytest.raises(poptorch.Error, match=r"being compiled, and code that this calls.*uses the model itself"):
        executor(torch.ones(2))
    inside.clear()
    assert executor(torch.ones(2)).tolist() == [2.0, 2.0]
    inside.append(executor)
    with pytest.raises(poptorch.Error, match=r"being run, and code that this calls.*uses the model itself"):
        executor(torch.ones(2))
    inside.clear()
    assert executor(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_host_function_may_call_another_model_that_is_compiled_and_no_thread_waits_for_ever() -> None:
    helper = poptorch.inferenceModel(torch.nn.ReLU(), make_options())

    class Asks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ask = poptorch.CPU(helper, "ask")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.ask(x) * 2

    executor = poptorch.inferenceModel(Asks(), make_options())
    with pytest.raises(poptorch.Error, match="inside the forward of another"):
        executor(torch.ones(2))
    x = torch.tensor([-1.0, 2.0])
    helper.compile(x)

    def ask() -> None:
        for _ in range(CALLS):
            assert executor(x).tolist() == [0.0, 4.0]

    def help_others() -> None:
        for _ in range(CALLS):
            assert helper(x).tolist() == [0.0, 2.0]

    run_together(ask, help_others, ask, help_others)


def test_an_asynchronous_loader_feeds_two_threads_that_train_one_model() -> None:
    model = Counter()
    training = wrap_counter(model)
    data = torch.utils.data.TensorDataset(torch.ones(4 * CALLS))
    loaders = [
        poptorch.DataLoader(make_options(), data, batch_size=4, mode=poptorch.DataLoaderMode.Async) for _ in range(2)
    ]

    def train(loader: poptorch.DataLoader) -> Callable[[], None]:
        return lambda: [training(batch) for (batch,) in loader]

    try:
        run_together(*map(train, loaders))
    finally:
        for loader in loaders:
            loader.terminate()
    assert model.weight.tolist() == [-2.0 * CALLS] * 4
