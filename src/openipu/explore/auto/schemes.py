"""Which schemes are worth a search: IPUs in a replica, replicas, micro-batches in flight, what is kept, where state is.

In: a system, run options, what the caller fixed. Out: a list of `Scheme`, and the run options of a layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from openipu.errors import OptionError
from openipu.explore.auto.estimate import Scheme
from openipu.explore.auto.types import Keep, Layout, StateHome
from openipu.graph import InputKind, OutputKind, Program, Recompute, RunOptions, Strategy, TensorRole
from openipu.machine import System
from openipu.ops.cost import Operand

_TAILS = 3  # how many segments may close the pipeline on IPU 0
DEFAULT_ROUNDS = 16  # micro-batches in flight for each IPU, where neither the job nor the caller says how many


@dataclass(frozen=True, slots=True)
class Limits:
    """What the caller fixed. None: the search chooses."""

    ipus_per_replica: int | None = None
    replicas: int | None = None
    samples: int | None = None  # between two updates (training) or in one call (inference), all replicas
    head_on_first_ipu: bool | None = None  # does the last stage go back to IPU 0, beside a weight that both share?


def list_schemes(
    program: Program, system: System, options: RunOptions, micro_batch: int, segments: int, limits: Limits
) -> list[Scheme]:
    """All schemes that the system has room for."""
    found: list[Scheme] = []
    for ipus in _list_ipus(system, segments, limits):
        shared = _share_out(system, options, micro_batch, ipus, limits)
        if shared is None:
            continue
        replicas, rounds = shared
        for tail in _list_tails(ipus, segments, limits.head_on_first_ipu):
            stages = ipus if tail is None else ipus + 1
            if (segments if tail is None else tail) < ipus:
                continue  # a stage without anything to do
            if rounds < (2 * stages - 1 if options.training else stages) and stages > 1:
                continue  # fewer micro-batches than stages: some would never work
            found.extend(
                Scheme(ipus, replicas, rounds, keep, home, tail)
                for keep in _list_keeps(options, stages)
                for home in _list_homes(program, system, options, replicas)
            )
    return found


def make_options(options: RunOptions, layout: Layout, scheme: Scheme) -> RunOptions:
    """The run options of one layout."""
    recompute = layout.keep.recompute
    if len(layout.stages) == 1 and layout.keep is not Keep.ALL:
        recompute = Recompute.ALL  # a single stage keeps everything unless it is told otherwise
    locations = dict(options.locations)
    if options.training and TensorRole.OPTIMIZER not in locations and layout.state_home is not StateHome.ON_CHIP:
        locations[TensorRole.OPTIMIZER] = layout.state_home.locate(scheme.replicas)
    changed = replace(
        options,
        strategy=Strategy.PIPELINED,
        recompute=recompute if options.training else options.recompute,
        replicas=scheme.replicas,
        memory_proportions=tuple(enumerate(layout.proportions)),
        locations=tuple(locations.items()),
    )
    if options.training:
        return replace(changed, gradient_accumulation=scheme.rounds)
    return replace(changed, device_iterations=scheme.rounds)


def measure_variables(program: Program, options: RunOptions, scheme: Scheme) -> int:
    """Bytes of weights, accumulators and optimizer state that one replica holds at least, on all of its IPUs."""
    weights = [Operand(entry.shape, entry.dtype).bytes for entry in program.micro.inputs_of(InputKind.PARAMETER)]
    state = sum(Operand(slot.shape, slot.dtype).bytes for slot in program.state_slots)
    roles = {role for role, location in options.locations if not location.on_chip or location.replicated_sharding}
    held = 0 if TensorRole.WEIGHT in roles else sum(weights)
    if options.training and scheme.rounds > 1 and TensorRole.ACCUMULATOR not in roles:
        trained = program.micro.outputs_of(OutputKind.GRADIENT)
        held += sum(Operand(entry.shape, entry.dtype).bytes for entry in trained)
    if scheme.state_home is StateHome.ON_CHIP:
        held += state
    return held


def _list_ipus(system: System, segments: int, limits: Limits) -> list[int]:
    """Powers of two, as devices come; without links between IPUs only one."""
    most = system.ipus // (limits.replicas or 1)
    if limits.ipus_per_replica is not None:
        if limits.ipus_per_replica > most:
            raise OptionError(
                f"{limits.ipus_per_replica} IPUs for each of {limits.replicas or 1} replicas are more than the "
                f"{system.ipus} of {system.name}. Choose a larger system, or fewer."
            )
        return [limits.ipus_per_replica]
    if system.ipu_link_bytes_per_second <= 0:
        return [1]
    return [2**power for power in range(most.bit_length()) if 2**power <= min(most, segments)]


def _share_out(
    system: System, options: RunOptions, micro_batch: int, ipus: int, limits: Limits
) -> tuple[int, int] | None:
    """(replicas, micro-batches in flight) so that the wished number of samples comes out, or None."""
    samples = limits.samples
    if samples is None:
        rounds = options.gradient_accumulation if options.training else options.device_iterations
        given = rounds * options.replicas
        samples = micro_batch * (given if given > 1 else DEFAULT_ROUNDS * system.ipus)
    wished = limits.replicas or max(1, system.ipus // ipus)
    for replicas in range(wished, 0, -1):
        if samples % (micro_batch * replicas) == 0:
            return replicas, samples // (micro_batch * replicas)
        if limits.replicas is not None:
            return None
    return None


def _list_tails(ipus: int, segments: int, head_on_first_ipu: bool | None) -> Iterator[int | None]:
    if not head_on_first_ipu:
        yield None
    if head_on_first_ipu is not False and ipus > 1:
        for count in range(1, _TAILS + 1):
            if segments - count >= ipus:
                yield segments - count


def _list_keeps(options: RunOptions, stages: int) -> tuple[Keep, ...]:
    if not options.training:
        return (Keep.ALL,)
    return (Keep.ALL, Keep.STAGE_INPUTS, Keep.LAYER_INPUTS) if stages > 1 else (Keep.ALL, Keep.LAYER_INPUTS)


def _list_homes(program: Program, system: System, options: RunOptions, replicas: int) -> tuple[StateHome, ...]:
    """From the quickest to the smallest. What the user decided stays."""
    location = dict(options.locations).get(TensorRole.OPTIMIZER)
    if location is not None:
        shared = location.replicated_sharding and replicas > 1
        on_chip = StateHome.SHARED if shared else StateHome.ON_CHIP
        return (on_chip if location.on_chip else StateHome.OFF_CHIP,)
    if not options.training or not program.state_slots:
        return (StateHome.ON_CHIP,)
    homes = [StateHome.ON_CHIP]
    if replicas > 1 and system.ipu_link_bytes_per_second > 0:
        homes.append(StateHome.SHARED)
    if system.streaming_memory_bytes > 0 and system.streaming_bytes_per_second > 0:
        homes.append(StateHome.OFF_CHIP)
    return tuple(homes)
