"""How a program is to be run: the options that every front end turns its own names into."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from openipu.errors import OptionError, Term
from openipu.numerics import Overflow

_TERMS: dict[str, Term] = {
    "device_iterations": Term.DEVICE_ITERATIONS,
    "gradient_accumulation": Term.GRADIENT_ACCUMULATION,
    "output_period": Term.OUTPUT_PERIOD,
}


class OutputMode(StrEnum):
    """Which results come back to the host."""

    ALL = "all"
    FINAL = "final"
    EVERY_N = "every_n"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class OutputChoice:
    """Which results of one output come back to the host, where it is not as `output_mode` says."""

    leaf: int  # `GraphOutput.index`
    mode: OutputMode = OutputMode.ALL
    period: int = 1  # EVERY_N: micro-batches of a replica between results

    def __post_init__(self) -> None:
        if not isinstance(self.period, int) or self.period < 1:
            raise OptionError(f"The period of an output must be a whole number of at least 1, not {self.period!r}.")


class Reduction(StrEnum):
    """How gradients of accumulation steps, or of replicas, are combined."""

    MEAN = "mean"
    SUM = "sum"
    RUNNING_MEAN = "running mean"  # the mean at any time, so that no sum overflows; `MEAN` weighs each share first, too


class EngineMode(StrEnum):
    """How a program is executed on the host."""

    AUTO = "auto"  # PyTorch's operators at once; C++ kernels when they have been compiled in the background
    OPERATORS = "operators"  # PyTorch's operators; no kernels are compiled for the program
    KERNELS = "kernels"  # waits for the program's C++ kernels before the first result
    REFERENCE = "reference"  # as recorded, operator by operator: slow, and what all others are compared with


# Other words for engines, from earlier versions.
ENGINE_ALIASES = {"instant": EngineMode.OPERATORS, "compiled": EngineMode.KERNELS}


class Strategy(StrEnum):
    """How stages over several IPUs take turns. `Note.stage` and `Note.ipu` say where each node is."""

    PIPELINED = "pipelined"  # all stages at once, each on another micro-batch
    SHARDED = "sharded"  # one stage after the other
    SERIAL_PHASES = "serial phases"  # phases one after the other on the same IPUs; `Note.stage` is the phase
    PARALLEL_PHASES = "parallel phases"  # even and odd phases on two sets of IPUs, one loading while the other runs


class Recompute(StrEnum):
    """Which activations are made again in backward instead of being kept."""

    NONE = "none"
    STANDARD = "standard"  # all but those of matrix products, which are kept
    NORM_ONLY = "norm only"
    ALL = "all"
    PIPELINE = "pipeline"  # each stage keeps its inputs and its checkpoints


class TensorRole(StrEnum):
    """What a tensor location speaks of."""

    ACTIVATION = "activation"
    WEIGHT = "weight"
    OPTIMIZER = "optimizer"
    ACCUMULATOR = "accumulator"


@dataclass(frozen=True, slots=True)
class TensorLocation:
    """Where tensors of one role are kept when they are not in use."""

    on_chip: bool = True
    replicated_sharding: bool = False  # each replica keeps one share
    minimum_off_chip_elements: int = 2
    minimum_sharded_elements: int = 8192
    io_tiles_load: bool = False
    io_tiles_store: bool = False


class GradientTracking(StrEnum):
    """Which half gradients automatic loss scaling looks at."""

    ALL = "all"  # every result of the backward pass
    PRODUCTS = "products"  # results of its matrix products and convolutions
    OUTPUTS = "outputs"  # outputs of the program that are said to be gradients


@dataclass(frozen=True, slots=True)
class LossScaleControl:
    """Automatic loss scaling: the scale is doubled, or halved where too many half gradients are large."""

    bin_edge: float = 0.125  # a gradient is large above this share of the largest half number
    threshold: float = 1e-7  # the share of large gradients above which the scale is halved
    update_period: int = 1  # weight updates from one change of the scale to the next
    tracking: GradientTracking = GradientTracking.ALL
    outputs: tuple[int, ...] = ()  # leaves that OUTPUTS means

    def __post_init__(self) -> None:
        for name in ("bin_edge", "threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name} of automatic loss scaling must lie in 0 to 1, not {getattr(self, name)!r}.")
        if self.update_period < 1:
            raise OptionError(
                f"update_period of automatic loss scaling must be at least 1 update, not {self.update_period!r}."
            )


@dataclass(frozen=True, slots=True)
class Tap:
    """A tensor inside the program that is read back after each call, under a name of the user's."""

    name: str
    tensor: str  # as `openipu.run.list_tensors` names it
    mode: OutputMode = OutputMode.ALL
    period: int = 1  # EVERY_N: device iterations between values


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """A parameter with a value for each group of replicas; on the host it has one more dimension, in front."""

    parameter: str
    group_of_replica: tuple[int, ...]
    one_per_group: bool = True  # on the host: a value per group, else one per replica

    @property
    def groups(self) -> int:
        return max(self.group_of_replica) + 1

    @property
    def host_values(self) -> int:
        """The size of the host tensor's first dimension."""
        return self.groups if self.one_per_group else len(self.group_of_replica)

    def host_index(self, group: int) -> int:
        """Where the host tensor holds the value of a group."""
        return group if self.one_per_group else self.group_of_replica.index(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One frozen set of options. Front ends build it; plan and run read it."""

    training: bool = False
    device_iterations: int = 1
    gradient_accumulation: int = 1
    replicas: int = 1  # of this process
    instances: int = 1  # processes with as many replicas each, which share every update
    reduction: Reduction = Reduction.MEAN  # over accumulation steps, and over replicas where nothing else is said
    replica_reduction: Reduction | None = None  # over replicas and instances; None: as `reduction`
    output_mode: OutputMode = OutputMode.ALL
    output_period: int = 1  # EVERY_N: device iterations between results
    output_choices: tuple[OutputChoice, ...] = ()  # outputs with a mode of their own
    half_partials: bool = False  # half products are summed in half, not in float
    stochastic_rounding: bool = False  # of float32 results to one of the two nearest half numbers
    half_overflow: Overflow = Overflow.INFINITY  # what a result that is too large for half becomes
    available_memory_proportion: float = 0.6
    io_tiles: int = 0
    engine: EngineMode = EngineMode.AUTO
    without_rules: frozenset[str] = frozenset()  # rules of the engine to leave out, to find one at fault
    verify: int = 0  # first calls to compare with the reference engine
    batching: bool = True  # micro-batches may run as one where that is the same maths
    random_seed: int | None = None
    deterministic: bool = False  # the same bits in every run: nothing is compiled, and nothing that depends on load
    broadcast_buffers: bool = True  # False: each replica keeps buffers of its own
    strategy: Strategy = Strategy.PIPELINED
    continuous: bool = False  # a training pipeline updates after each micro-batch, while others are under way
    recompute: Recompute | None = None  # None: PIPELINE where a training program is pipelined over stages, else NONE
    locations: tuple[tuple[TensorRole, TensorLocation], ...] = ()
    remote_buffers: frozenset[str] = frozenset()  # buffers beside the IPU: a program loads and stores entries of them
    memory_proportions: tuple[tuple[int, float], ...] = ()  # (IPU, available-memory proportion) where it differs
    overlapped_io: bool = False  # host streams run on I/O tiles while the others compute
    synthetic_data: bool = False  # the device makes its inputs up and keeps its results: no stream of the host
    taps: tuple[Tap, ...] = ()
    replica_groups: tuple[ReplicaGroups, ...] = ()
    loss_scale_control: LossScaleControl | None = None  # None: the loss scale is what the optimizer says
    floating_point_exceptions: bool = False  # stop where arithmetic makes an infinity or a NaN of ordinary numbers

    def __post_init__(self) -> None:
        for name in ("device_iterations", "gradient_accumulation", "replicas", "instances", "output_period"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise OptionError(f"{_TERMS.get(name, name)} must be a whole number of at least 1, not {value!r}.")
        if not 0 <= self.available_memory_proportion <= 1:
            raise OptionError(
                f"available_memory_proportion must lie between 0 and 1, not {self.available_memory_proportion!r}."
            )
        if self.deterministic and self.engine is EngineMode.KERNELS:
            raise OptionError(
                "A deterministic run compiles nothing: whether C++ kernels can be built, and when, depends on the "
                "machine's load. Leave out the engine kernels (OPENIPU_ENGINE, --engine), or the option deterministic."
            )
        if not self.training and self.gradient_accumulation != 1:
            raise OptionError(
                f"{Term.GRADIENT_ACCUMULATION} needs training; for inference use {Term.DEVICE_ITERATIONS} instead."
            )
        if self.output_mode is OutputMode.EVERY_N and self.device_iterations % self.output_period:
            raise OptionError(
                f"{Term.OUTPUT_PERIOD} ({self.output_period}) must divide {Term.DEVICE_ITERATIONS} "
                f"({self.device_iterations})."
            )

        if self.continuous and (
            not self.training or self.gradient_accumulation != 1 or self.strategy is not Strategy.PIPELINED
        ):
            raise OptionError(
                "A continuous pipeline is for training that is pipelined and does not accumulate gradients: the option "
                f"continuous does not go with {Term.GRADIENT_ACCUMULATION}, inference or another strategy."
            )
        leaves = [choice.leaf for choice in self.output_choices]
        if len(set(leaves)) != len(leaves):
            raise OptionError(
                f"An output has more than one mode: {sorted(leaves)} are the outputs that were given one."
            )

    def choice_of(self, leaf: int) -> OutputChoice | None:
        """The mode of an output's own, if it has one."""
        return next((choice for choice in self.output_choices if choice.leaf == leaf), None)

    def location_of(self, role: TensorRole) -> TensorLocation:
        return dict(self.locations).get(role, TensorLocation())

    @property
    def micro_batches(self) -> int:
        """Micro-batches in one call."""
        return self.device_iterations * self.gradient_accumulation * self.replicas


# Options that change how a program is run on this host, and nothing that is planned.
HOST_ONLY = ("engine", "without_rules", "verify", "batching", "random_seed", "deterministic")


def describe_options(options: RunOptions, without: Collection[str]) -> dict[str, str]:
    """What the key of something made with these options holds: all of them but those named.

    An option is left out where somebody has said that it does not matter, never because it was forgotten.
    """
    names = [field.name for field in dataclasses.fields(options)]
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise ValueError(f"There is no option {', '.join(unknown)} that could be left out of a key.")
    return {name: repr(getattr(options, name)) for name in names if name not in without}
