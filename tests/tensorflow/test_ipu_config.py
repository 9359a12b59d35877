"""`IPUConfig`: a tree of strict options, each of which acts or has its reason, and the devices that it makes."""

from __future__ import annotations

import copy

import pytest

from openipu.graph import Recompute, Reduction, Strategy
from openipu.numerics import Overflow
from openipu_tensorflow.ipu import config, utils
from openipu_tensorflow.ipu.configuration import devices, effects, flags
from openipu_tensorflow.ipu.configuration.run_options import (
    Arrangement,
    build_run_options,
    choose_machine,
    find_profile,
)


@pytest.fixture(autouse=True)
def _reset(monkeypatch):
    monkeypatch.delenv(flags.VARIABLE, raising=False)
    yield
    config.reset_ipu_configuration()


def configure(**options):
    made = config.IPUConfig()
    made.auto_select_ipus = 1
    made.from_dict({name.replace("__", "."): value for name, value in options.items()})
    made.configure_ipu_system()
    return devices.find_device("/device:IPU:0")


def test_all_57_options_have_an_effect_or_a_reason():
    options = config.IPUConfig().to_dict()
    assert len(options) == 57
    assert set(options) == set(effects.CONFIG_EFFECTS)
    assert all(text.startswith(("acts: ", "no effect: ")) for text in effects.EFFECTS.values())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("allow_recompute", 1), ("auto_select_ipus", True), ("ipu_model.version", 2), ("io_tiles.num_io_tiles", 1.0)],
)
def test_a_value_of_another_type_is_a_type_error_that_names_both(name, wrong):
    made = config.IPUConfig()
    owner, _, last = name.rpartition(".")
    with pytest.raises(TypeError, match=f"Trying to set {name} to {wrong!r}, but it must be of type"):
        setattr(getattr(made, owner) if owner else made, last, wrong)


def test_a_misspelt_option_is_a_value_error_that_says_what_was_meant():
    made = config.IPUConfig()
    with pytest.raises(ValueError, match=r"'num_io_tile' is not a valid .* Did you mean 'io_tiles.num_io_tiles'"):
        made.io_tiles.num_io_tile = 1
    with pytest.raises(ValueError, match=r"Did you mean 'io_tiles.num_io_tiles'"):
        made.num_io_tiles = 1
    assert not hasattr(made, "num_io_tiles")


def test_a_category_cannot_be_assigned():
    with pytest.raises(TypeError, match="io_tiles is a category and cannot be assigned to"):
        config.IPUConfig().io_tiles = 3


def test_json_brings_every_option_back():
    made = config.IPUConfig()
    made.auto_select_ipus = (2, 4)
    made.selection_order = config.SelectionOrder.SNAKE
    made.matmuls.poplar_options = {"availableMemoryProportion": "0.3"}
    again = config.IPUConfig()
    again.from_json(made.to_json().replace("[2, 4]", "[2, 4]"))
    assert again.selection_order is config.SelectionOrder.SNAKE
    assert again.to_dict() | {"auto_select_ipus": (2, 4)} == made.to_dict()


def test_a_copy_does_not_change_with_its_original():
    made = config.IPUConfig()
    other = copy.deepcopy(made)
    made.io_tiles.num_io_tiles = 32
    assert other.io_tiles.num_io_tiles == 0


@pytest.mark.parametrize("text", ["not json", "[1]"])
def test_json_that_is_no_configuration_is_refused(text):
    with pytest.raises((ValueError, TypeError), match="JSON"):
        config.IPUConfig().from_json(text)


def test_devices_have_the_ipus_that_were_asked_for():
    made = config.IPUConfig()
    made.auto_select_ipus = [2, 4]
    made.configure_ipu_system()
    assert [utils.get_num_of_ipus_in_device(f"/device:IPU:{number}") for number in range(2)] == [2, 4]
    assert len(utils.get_ipu_config()) == 2


def test_without_a_configuration_there_is_none_to_get():
    with pytest.raises(RuntimeError, match=r"No IPU devices configured\."):
        utils.get_ipu_config()


def test_another_configuration_needs_a_reset():
    import tensorflow as tf

    configure()
    other = config.IPUConfig()
    other.auto_select_ipus = 2
    with pytest.raises(tf.errors.FailedPreconditionError):
        config.configure_ipu_system(other, reset_configuration=False)
    other.configure_ipu_system()
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 2


def test_options_reach_the_program():
    device = configure(
        allow_recompute=True,
        floating_point_behaviour__nanoo=True,
        floating_point_behaviour__esr=1,
        floating_point_behaviour__oflo=True,
        io_tiles__num_io_tiles=64,
        io_tiles__place_ops_on_io_tiles=True,
        matmuls__poplar_options={"availableMemoryProportion": "0.3", "partialsType": "half"},
        convolutions__poplar_options={"availableMemoryProportion": "0.5"},
    )
    options = build_run_options(device, Arrangement(training=True, device_iterations=8, strategy=Strategy.PIPELINED))
    assert options.recompute is Recompute.PIPELINE
    assert options.stochastic_rounding
    assert options.half_overflow is Overflow.NAN
    assert options.floating_point_exceptions
    assert (options.io_tiles, options.overlapped_io) == (64, True)
    assert options.available_memory_proportion == 0.3  # the smaller of 0.3 and 0.5
    assert options.half_partials
    assert options.device_iterations == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"availableMemoryProporton": "0.3"}, "Did you mean 'availableMemoryProportion'"),
        ({"availableMemoryProportion": "1.5"}, "a number from 0 to 1"),
        ({"partialsType": "double"}, "'float' or 'half'"),
    ],
)
def test_options_of_libraries_are_checked(given, message):
    device = configure(matmuls__poplar_options=given)
    with pytest.raises(ValueError, match=message):
        build_run_options(device, Arrangement())


def test_several_processes_share_updates_that_are_reduced():
    device = configure(experimental__multi_replica_distribution__process_count=2)
    shared = Arrangement(training=True, replica_reduction=Reduction.MEAN)
    assert build_run_options(device, shared).instances == 2
    assert build_run_options(device, Arrangement(training=True)).instances == 1
    assert build_run_options(device, Arrangement()).instances == 2  # for values that replicas exchange


def test_the_model_of_an_ipu_has_the_tiles_that_were_asked_for(monkeypatch):
    monkeypatch.setenv(flags.VARIABLE, "--use_ipu_model")
    made = config.IPUConfig()
    made.ipu_model.tiles_per_ipu = 128
    made.ipu_model.version = "ipu1"
    machine = choose_machine(made)
    assert (machine.target.architecture, machine.target.tiles) == ("ipu1", 128)


def test_engine_options_say_where_the_profile_goes(tmp_path):
    made = config.IPUConfig()
    assert find_profile(made) is None
    made.compilation_poplar_options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    assert find_profile(made) == tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--use_synthetic_dat", "Did you mean --use_synthetic_data"),
        ("--synthetic_data_categories=weights", "unknown synthetic data category 'weights'"),
        ("--synthetic_data_initializer=random", "needs --use_synthetic_data"),
        ("--ipu_model_tiles=many", "no whole number"),
        ("--log_cycle_count", "needs a value"),
    ],
)
def test_a_wrong_flag_is_an_error_that_names_it(monkeypatch, text, message):
    monkeypatch.setenv(flags.VARIABLE, text)
    with pytest.raises(ValueError, match=message):
        config.IPUConfig().configure_ipu_system()


def test_ipus_are_held_as_long_as_the_system_is_configured(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path))
    device = configure()
    assert len(device.leases) == 1
    config.reset_ipu_configuration()
    assert not device.leases


def test_on_demand_takes_ipus_with_the_first_program_and_never_takes_none():
    device = configure(device_connection__type=config.DeviceConnectionType.ON_DEMAND.value)
    assert not device.leases
    device.attach("program")
    assert len(device.leases) == 1
    device = configure(
        device_connection__type=config.DeviceConnectionType.NEVER.value, device_connection__version="ipu2"
    )
    device.attach("program")
    assert not device.leases
