"""Options: what is stored, what is refused, and that every setter says what it does here."""

import copy
import inspect
import json

import pytest
import torch

import openipu.graph
import poptorch
from poptorch.options import TABLE, Effect, build_run_options, choose_profile_directory

GROUPS = ("Jit", "Precision", "Training", "TensorLocations", "Distributed", "_Popart")
NOT_SETTERS = {
    "checkIsFrozen",
    "clone",
    "createOrSet",
    "defaultOutputMode",
    "deleteIfExists",
    "exists",
    "from_json",
    "get",
    "loadFromFile",
    "set",
    "toDict",
}


def list_setters():
    def own(thing):
        members = inspect.getmembers(type(thing), inspect.isfunction)
        return [name for name, _ in members if not name.startswith("_")]

    options = poptorch.Options()
    names = {name for name in own(options) if name not in NOT_SETTERS}
    for group in GROUPS:
        kept = NOT_SETTERS - ({"set"} if group == "_Popart" else set())
        names |= {f"{group}.{name}" for name in own(getattr(options, group)) if name not in kept}
    return names


def test_every_setter_has_a_row_that_says_what_it_does_here():
    assert list_setters() == set(TABLE)
    assert all(note for _, note in TABLE.values())


def test_defaults_are_those_of_poptorch():
    options = poptorch.Options()
    assert options.device_iterations == 1
    assert options.replication_factor == 1
    assert (options.input_group_size, options.input_cgt) == (1, poptorch.CommGroupType.Consecutive)
    assert options.broadcast_buffers is True
    assert options.output_mode is poptorch.OutputMode.Default
    assert options.defaultOutputMode()
    assert options.connection_type is poptorch.ConnectionType.Always
    assert options.Training.gradient_accumulation == 1
    assert options.Training.accumulation_and_replication_reduction_type is poptorch.ReductionType.Mean
    strategy = options.Training.meanAccumulationAndReplicationReductionStrategy
    assert strategy is poptorch.MeanReductionStrategy.Post
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (0, 1)
    assert options._Popart.options == {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}
    assert isinstance(options._execution_strategy, poptorch.PipelinedExecution)
    assert not options.exists("random_seed")


def test_setters_chain_and_values_are_attributes():
    options = poptorch.Options().deviceIterations(4).replicationFactor(2).outputMode(poptorch.OutputMode.EveryN, 2)
    assert (options.device_iterations, options.replication_factor, options.output_return_period) == (4, 2, 2)
    options.replication_factor = 8
    assert options.replication_factor == 8


def test_unknown_attributes_are_refused_for_reading_and_writing():
    options = poptorch.Options()
    with pytest.raises(AttributeError, match=r"Invalid attribute device_iteration\."):
        _ = options.device_iteration
    with pytest.raises(AttributeError, match=r"Invalid attribute device_iteration\."):
        options.device_iteration = 3
    with pytest.raises(AssertionError, match="Unknown option"):
        options.set(device_iteration=3)


@pytest.mark.parametrize("value", ["2", 2.0, True, None])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(AssertionError, match="Unexpected type"):
        poptorch.Options().deviceIterations(value)
    with pytest.raises(AssertionError, match="Unexpected type"):
        poptorch.Options().device_iterations = value


@pytest.mark.parametrize("setter", ["deviceIterations", "replicationFactor"])
def test_counts_below_one_are_refused(setter):
    with pytest.raises(ValueError, match=f"{setter} must be at least 1, not 0"):
        getattr(poptorch.Options(), setter)(0)


def test_every_n_needs_a_period():
    for period in (None, 0, -1):
        with pytest.raises(AssertionError, match="EveryN anchor must have output_return_period"):
            poptorch.Options().outputMode(poptorch.OutputMode.EveryN, period)


@pytest.mark.parametrize(
    ("size", "kind", "words"),
    [
        (2, poptorch.CommGroupType.All, "input_group_type cannot be All"),
        (8, poptorch.CommGroupType.Consecutive, "cannot be larger than replication_factor"),
        (3, poptorch.CommGroupType.Orthogonal, "must be a factor of replication_factor"),
    ],
)
def test_input_groups_that_do_not_divide_the_replicas_are_refused(size, kind, words):
    with pytest.raises(ValueError, match=words):
        poptorch.Options().replicationFactor(4).inputReplicaGrouping(size, kind)


def test_no_grouping_means_groups_of_one():
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(4, poptorch.CommGroupType.NoGrouping)
    assert (options.input_group_size, options.input_cgt) == (1, poptorch.CommGroupType.Consecutive)


def test_groups_check_what_they_are_given():
    options = poptorch.Options()
    with pytest.raises(ValueError, match="traceModel\\(True\\) is no longer supported"):
        options.Jit.traceModel(True)
    with pytest.raises(ValueError, match="setPartialsType"):
        options.Precision.setPartialsType(torch.int32)
    with pytest.raises(ValueError, match="runningStatisticsAlwaysFloat"):
        options.Precision.runningStatisticsAlwaysFloat("no")
    with pytest.raises(AssertionError, match="boolean"):
        options.Precision.enableFloatingPointExceptions(1)
    with pytest.raises(ValueError, match=r"must be set to poptorch.ReductionType.Mean or poptorch.ReductionType.Sum"):
        options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)
    for tiles in (31, 33, 194):
        with pytest.raises(AssertionError, match=r"numIOTiles must be an even number between 32 and 192\."):
            options.TensorLocations.numIOTiles(tiles)
    with pytest.raises(AssertionError, match="IPU0"):
        options.setAvailableMemoryProportion({"0": 0.5})
    with pytest.raises(AssertionError, match="randomSeed takes an int"):
        options.randomSeed("7")
    with pytest.raises(AssertionError, match="execution strategy"):
        options.setExecutionStrategy("pipelined")


def test_tensor_locations_are_stored_as_dictionaries():
    options = poptorch.Options()
    settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(16)
    options.TensorLocations.setOptimizerLocation(settings)
    assert options.TensorLocations.location_optimizer == {"onChip": False, "minElementsForOffChip": 16}
    assert options.TensorLocations.location_weight == {}
    with pytest.raises(AssertionError, match="useIOTilesToLoad takes bool"):
        settings.useIOTilesToLoad(1)


def test_a_block_belongs_to_one_stage():
    with pytest.raises(AssertionError, match="a associated with more than one stage"):
        poptorch.PipelinedExecution(poptorch.Stage("a", "b"), poptorch.Stage("a"))
    strategy = poptorch.ShardedExecution(poptorch.Stage("a").ipu(1), poptorch.Stage("b"))
    assert strategy.stage("a")._ipu == 1
    with pytest.raises(AssertionError, match=r"Unknown Block 'c' list of expected Blocks: \['a', 'b'\]"):
        strategy.stage("c")
    with pytest.raises(AssertionError, match="list the phases"):
        poptorch.SerialPhasedExecution()


def test_options_freeze_when_a_model_or_loader_uses_them():
    options = poptorch.Options()
    poptorch.inferenceModel(torch.nn.Linear(1, 1), options)
    changes = [
        lambda: options.deviceIterations(2),
        lambda: options.Training.gradientAccumulation(2),
        lambda: options._Popart.set("key", 1),
        lambda: options.setExecutionStrategy(poptorch.ShardedExecution()),
        lambda: options.enableProfiling("somewhere"),
        lambda: setattr(options, "replication_factor", 2),
        lambda: options.anchorTensor("a", "b"),
    ]
    for change in changes:
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            change()


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda options: options.clone()])
def test_a_clone_is_unfrozen_and_independent(clone):
    options = poptorch.Options().deviceIterations(3).setAvailableMemoryProportion({"IPU0": 0.2})
    options._freeze()
    other = clone(options).deviceIterations(5)
    other.available_memory_proportion["IPU0"] = 0.9
    other.Training.gradientAccumulation(7)
    assert options.device_iterations == 3
    assert options.available_memory_proportion == {"IPU0": 0.2}
    assert options.Training.gradient_accumulation == 1


def test_repr_lists_values_and_groups():
    text = repr(poptorch.Options().deviceIterations(17))
    assert text.startswith("Options(")
    for part in ("device_iterations=17", "Precision=(", "gradient_accumulation=1", "num_distributed_processes=1"):
        assert part in text


def test_a_dictionary_needs_an_output_mode():
    with pytest.raises(AssertionError, match="An output mode must be picked before serialisation"):
        poptorch.Options().toDict()
    values = poptorch.Options().replicationFactor(3).outputMode(poptorch.OutputMode.All).toDict()
    assert (values["replication_factor"], values["gradient_accumulation"]) == (3, 1)


def test_a_file_of_setters_is_applied_line_by_line(tmp_path):
    file = tmp_path / "poptorch.conf"
    file.write_text(
        "# a comment\n\n  deviceIterations(3)\nTraining.gradientAccumulation(2)\n"
        "setExecutionStrategy(poptorch.ShardedExecution())\nPrecision.setPartialsType(torch.half)\n"
    )
    options = poptorch.Options().loadFromFile(str(file))
    assert options.device_iterations == 3
    assert options.Training.gradient_accumulation == 2
    assert isinstance(options._execution_strategy, poptorch.ShardedExecution)
    assert options.Precision.partials_type is torch.half


def test_a_wrong_line_of_a_file_is_shown(tmp_path):
    file = tmp_path / "poptorch.conf"
    file.write_text("deviceIterations(3)\ndeviceIterations(\n")
    with pytest.raises(poptorch.ConfigFileError, match=r"SyntaxError at line 2 of .*\n> options\.deviceIterations\("):
        poptorch.Options().loadFromFile(str(file))
    file.write_text("deviceIteration(3)\n")
    with pytest.raises(poptorch.options.ConfigFileError, match=r"AttributeError at line 1 .*Invalid attribute"):
        poptorch.Options().loadFromFile(str(file))


def test_json_calls_setters_by_path():
    text = json.dumps(
        {
            "deviceIterations": 2,
            "Precision.setPartialsType": "torch.half",
            "_Popart.set": ["outlineThreshold", 1.5],
            "connectionType": "ConnectionType.OnDemand",
        }
    )
    options = poptorch.Options().from_json(text)
    assert options.device_iterations == 2
    assert options.Precision.partials_type is torch.half
    assert options._Popart.options["outlineThreshold"] == 1.5
    assert options.connection_type is poptorch.ConnectionType.OnDemand


def test_the_environment_gives_defaults_to_every_options_object(monkeypatch):
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"replicationFactor": 4}')
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    options = poptorch.Options()
    assert options.replication_factor == 4
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (2, 3)
    assert options.Distributed.disable().numProcesses == 1


def test_old_names_become_run_options():
    options = poptorch.Options().deviceIterations(4).replicationFactor(2).outputMode(poptorch.OutputMode.EveryN, 2)
    options.broadcastBuffers(False).randomSeed(9).setAvailableMemoryProportion({"IPU0": 0.25})
    options.Training.gradientAccumulation(3)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    options.Precision.setPartialsType(torch.float)
    options.TensorLocations.numIOTiles(64)
    assert build_run_options(options, training=True) == openipu.graph.RunOptions(
        training=True,
        device_iterations=4,
        gradient_accumulation=3,
        replicas=2,
        reduction=openipu.graph.Reduction.SUM,
        output_mode=openipu.graph.OutputMode.EVERY_N,
        output_period=2,
        half_partials=False,
        memory_proportions=((0, 0.25),),
        io_tiles=64,
        random_seed=9,
        broadcast_buffers=False,
    )


def test_the_default_output_mode_depends_on_the_model():
    options = poptorch.Options()
    assert build_run_options(options, training=True).output_mode is openipu.graph.OutputMode.FINAL
    assert build_run_options(options, training=False).output_mode is openipu.graph.OutputMode.ALL


def test_values_that_do_not_go_together_are_a_poptorch_error():
    options = poptorch.Options().deviceIterations(3).outputMode(poptorch.OutputMode.EveryN, 2)
    with pytest.raises(
        poptorch.Error, match=r"output_return_period .*must divide poptorch\.Options\(\)\.deviceIterations"
    ):
        build_run_options(options, training=False)


def test_one_of_several_processes_compiles_and_infers_alone_but_cannot_train_alone(tmp_path, monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    options = poptorch.Options().showCompilationProgressBar(False).enableExecutableCaching(str(tmp_path))
    options.Distributed.configureProcessId(0, 2)
    layer = torch.nn.Linear(2, 2)
    model = poptorch.inferenceModel(layer, options)
    model.compile(torch.ones(1, 2))
    assert model(torch.ones(1, 2)).shape == (1, 2)
    loss = torch.nn.Sequential(layer, torch.nn.Flatten())
    loss.forward = lambda x: poptorch.identity_loss(layer(x), reduction="mean")
    training = poptorch.trainingModel(loss, options, poptorch.optim.SGD(layer.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match=r"one of 2 instances .* Start it with poprun"):
        training(torch.ones(1, 2))


def test_options_that_would_change_results_say_once_that_they_do_not(caplog):
    from poptorch import _logging

    _logging._warned.clear()
    for _ in range(2):
        options = poptorch.Options()
        options.Precision.enableStochasticRounding(True)
    told = [record.getMessage() for record in caplog.records]
    missing = [name for name, (effect, _) in TABLE.items() if effect is Effect.MISSING]
    assert len(told) == len(missing)
    for name in missing:
        assert sum(f"poptorch.Options.{name} has no effect here yet" in line for line in told) == 1


def test_profiling_is_asked_for_by_option_or_by_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    assert choose_profile_directory(poptorch.Options(), training=True) is None
    asked = poptorch.Options().enableProfiling(str(tmp_path))
    assert choose_profile_directory(asked, training=True) == tmp_path / "training"
    assert choose_profile_directory(asked.modelName("mine"), training=False) == tmp_path / "mine"
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps({"autoReport.all": "true", "autoReport.directory": "there"}))
    assert str(choose_profile_directory(poptorch.Options(), training=False)) == "there/inference"
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "autoReport.all=true")
    with pytest.raises(poptorch.Error, match="POPLAR_ENGINE_OPTIONS is not JSON"):
        choose_profile_directory(poptorch.Options(), training=False)


@pytest.mark.parametrize(
    "line",
    [
        'deviceIterations(__import__("os").system("touch ran"))',
        'deviceIterations(open("ran", "w").write("x"))',
        '__class__.__init__.__globals__["apply_file"](None, "x")',
        'deviceIterations(torch.load("x"))',
        'deviceIterations(poptorch.load("x"))',
        "deviceIterations((lambda: 3)())",
        "deviceIterations([3 for _ in range(9)][0])",
        'loadFromFile("poptorch.conf")',
        "_values.clear()",
        "deviceIterations(2 ** 99999999)",
        "deviceIterations(" + "(" * 500,
        "deviceIterations(" + "-" * 1500 + "1)",
        "x" * 5000,
        "deviceIterations(3); replicationFactor(2)",
    ],
)
def test_a_file_of_setters_runs_no_python(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poptorch.conf").write_text(line + "\n")
    with pytest.raises(poptorch.ConfigFileError, match=r"at line 1 of .*\n> options\."):
        poptorch.Options().loadFromFile("poptorch.conf")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "values",
    [{"loadFromFile": "x"}, {"__class__.mro": []}, {"_values.clear": []}, {"deviceIterations": "torch.load"}, []],
)
def test_json_reaches_setters_alone(values):
    with pytest.raises(poptorch.ConfigFileError, match="JSON of options"):
        poptorch.Options().from_json(json.dumps(values))


def test_settings_and_arithmetic_are_understood_in_a_file_of_setters(tmp_path):
    file = tmp_path / "poptorch.conf"
    file.write_text(
        "deviceIterations(2 * 4)\noutputMode(poptorch.OutputMode.EveryN, output_return_period=2)\n"
        "TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))\n"
        "setAvailableMemoryProportion({'IPU0': 0.5})\n"
    )
    options = poptorch.Options().loadFromFile(str(file))
    assert options.device_iterations == 8
    assert options.output_mode is poptorch.OutputMode.EveryN
