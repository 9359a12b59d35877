"""`TF_POPLAR_FLAGS`: the switches of the original's driver.

In: the environment. Out: checked `PoplarFlags`. A flag that is unknown, or a value that cannot be read, is an error
that names it: the original ends the process there.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

VARIABLE = "TF_POPLAR_FLAGS"


class SyntheticDataCategory(Enum):
    """What the device makes up instead of getting it from the host."""

    Seed = 0
    Infeed = 1
    Outfeed = 2
    HostEmbedding = 3
    Parameters = 4


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: its default, and what it does here."""

    default: bool | int | str
    effect: str


_COMPILER = "no effect: decides how the original's compiler works, not what is computed"
_THREADS = "no effect: this host's own settings of threads count"
FLAGS: Mapping[str, Flag] = {
    "help": Flag(False, "acts: every flag is printed when the system is configured"),
    "executable_cache_path": Flag("", "acts: plans and native code are kept there"),
    "use_ipu_model": Flag(False, "acts: the machine is the one that ipu_model of the configuration describes"),
    "ipu_model_tiles": Flag(0, "acts: with use_ipu_model, how many tiles an IPU has"),
    "use_synthetic_data": Flag(False, "acts: nothing is read from infeeds, and outfeeds stay empty"),
    "synthetic_data_categories": Flag(
        "", "acts: infeed and outfeed, as use_synthetic_data; seed, hostembedding and parameters stay what they are"
    ),
    "synthetic_data_initializer": Flag(
        "", "acts: random, normal, uniform, or a whole number for all elements; without it zeros"
    ),
    "log_cycle_count": Flag(-1, "acts: the planned cycles of a run are logged, from this tile on"),
    "max_compilation_threads": Flag(-1, _THREADS),
    "max_infeed_threads": Flag(-1, _THREADS),
    "null_data_feed": Flag(False, "acts: infeeds deliver zeros"),
    "tensor_map_file_path": Flag("", "no effect: where tensors lie stands in the profile"),
    "dump_schedule_as_dot": Flag(False, "no effect: the order of ops stands in the profile"),
    "fallback_scheduler": Flag(False, _COMPILER),
    "while_loop_brute_force_max_trip_count": Flag(128, _COMPILER),
    "show_progress_bar": Flag("auto", "acts: true, false, or auto for a terminal"),
    "use_on_demand": Flag(False, "acts: as device_connection.type ON_DEMAND"),
    "on_demand_device_poll_time": Flag(1000, "no effect: how often the pod is asked is openipu's choice"),
    "on_demand_device_timeout": Flag(3600000, "acts: how long, in milliseconds, to wait for IPUs that others hold"),
    "sync_replica_start": Flag(False, "no effect: replicas of one process always start together"),
    "disable_poplar_version_check": Flag(False, "no effect: there is no other version to compare with"),
    "allow_nans": Flag(False, "no effect: random numbers here are never NaN"),
    "enable_hlo_verifier": Flag(False, _COMPILER),
}
_CATEGORIES = {category.name.lower(): category for category in SyntheticDataCategory}


@dataclass(frozen=True)
class PoplarFlags:
    """Flags by name, each with a value of its kind."""

    values: Mapping[str, bool | int | str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bool | int | str:
        return self.values.get(name, FLAGS[name].default)

    @property
    def categories(self) -> frozenset[SyntheticDataCategory]:
        """What the device makes up."""
        if self["use_synthetic_data"]:
            return frozenset(SyntheticDataCategory)
        return frozenset(_CATEGORIES[name] for name in _split(str(self["synthetic_data_categories"])))


def read_flags(environment: Mapping[str, str] | None = None) -> PoplarFlags:
    """The flags of the environment, checked."""
    text = (os.environ if environment is None else environment).get(VARIABLE, "")
    values: dict[str, bool | int | str] = {}
    for word in shlex.split(text):
        name, given, value = word.removeprefix("--").removeprefix("-").partition("=")
        if not word.startswith("-") or name not in FLAGS:
            near = difflib.get_close_matches(name, FLAGS, 1)
            meant = f" Did you mean --{near[0]}?" if near else f" There are: {', '.join(FLAGS)}."
            raise ValueError(f"{VARIABLE}: unknown flag {word[:100]!r}.{meant}")
        values[name] = _read_value(name, value if given else None)
    flags = PoplarFlags(values)
    unknown = [name for name in _split(str(flags["synthetic_data_categories"])) if name not in _CATEGORIES]
    if unknown:
        raise ValueError(
            f"{VARIABLE}: unknown synthetic data category {unknown[0][:100]!r}. There are: {', '.join(_CATEGORIES)}."
        )
    _check_initializer(flags)
    return flags


def _read_value(name: str, value: str | None) -> bool | int | str:
    default = FLAGS[name].default
    if isinstance(default, bool):
        word = "true" if value is None else value.lower()
        if word not in ("true", "false", "1", "0"):
            raise ValueError(f"{VARIABLE}: --{name} is {word[:100]!r}, which is neither true nor false.")
        return word in ("true", "1")
    if value is None:
        raise ValueError(f"{VARIABLE}: --{name} needs a value: --{name}=VALUE.")
    if isinstance(default, int):
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{VARIABLE}: --{name} is {value[:100]!r}, which is no whole number.") from None
    return value


def _check_initializer(flags: PoplarFlags) -> None:
    chosen = str(flags["synthetic_data_initializer"])
    if not chosen:
        return
    if not flags.categories:
        raise ValueError(
            f"{VARIABLE}: --synthetic_data_initializer needs --use_synthetic_data or --synthetic_data_categories."
        )
    if chosen not in ("random", "uniform", "normal") and not chosen.lstrip("-").isdigit():
        raise ValueError(
            f"{VARIABLE}: --synthetic_data_initializer is {chosen[:100]!r}: random, uniform, normal or a whole number."
        )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def running_on_ipu_model() -> bool:
    """Does `TF_POPLAR_FLAGS` ask for the model of an IPU?"""
    return "--use_ipu_model" in os.environ.get(VARIABLE, "")


def use_synthetic_data_for(synthetic_data_category: SyntheticDataCategory) -> bool:
    """Does `TF_POPLAR_FLAGS` ask the device to make up data of this category?"""
    return synthetic_data_category in read_flags().categories
