"""Paddle's options as `RunOptions`.

In: an `OptionStore`. Out: the options of the core, and what Paddle alone has a name for.
"""

from __future__ import annotations

from dataclasses import dataclass

from openipu.errors import OptionError
from openipu.graph import (
    LossScaleControl,
    Recompute,
    Reduction,
    RunOptions,
    Strategy,
    TensorLocation,
    TensorRole,
)
from openipu_paddle.option_table import UNSET_SEED
from openipu_paddle.strategy import OptionStore

_ROLES = {
    "location_activation": TensorRole.ACTIVATION,
    "location_weight": TensorRole.WEIGHT,
    "location_optimizer": TensorRole.OPTIMIZER,
    "location_accumulator": TensorRole.ACCUMULATOR,
}
# none, standard, norm only, pipeline, all: the order of PopART's RecomputationType
_RECOMPUTE = (None, Recompute.STANDARD, Recompute.NORM_ONLY, Recompute.PIPELINE, Recompute.ALL)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a run is put together: what the shapes of feeds and fetches follow from."""

    batches: int
    accumulation: int
    replicas: int
    shows_accumulation: bool
    shows_replicas: bool

    @property
    def micro_batches(self) -> int:
        return self.batches * self.accumulation * self.replicas

    @property
    def leading(self) -> tuple[int, ...]:
        """The dimensions in front of a fetched tensor."""
        return (
            *((self.replicas,) if self.shows_replicas else ()),
            *((self.accumulation,) if self.shows_accumulation else ()),
            *((self.batches,) if self.batches > 1 else ()),
        )


def read_shape(store: OptionStore) -> Shape:
    """Batches, accumulation and replicas."""
    accumulates = bool(store["enable_gradient_accumulation"]) and bool(store["is_training"])
    replicates = bool(store["enable_replicated_graphs"])
    return Shape(
        store["batches_per_step"],
        store["accumulation_factor"] if accumulates else 1,
        store["replicated_graph_count"] if replicates else 1,
        accumulates,
        replicates,
    )


def build_run_options(store: OptionStore) -> RunOptions:
    """The core's options."""
    shape = read_shape(store)
    _check(store, shape)
    proportion = store["available_memory_proportion"]
    seed = store["random_seed"]
    automatic = store["automatic_loss_scaling_settings.enabled"] and store["is_training"]
    return RunOptions(
        training=store["is_training"],
        device_iterations=shape.batches,
        gradient_accumulation=shape.accumulation,
        replicas=shape.replicas,
        reduction=Reduction.SUM if store["accumulation_and_replication_reduction_type"] == 0 else Reduction.MEAN,
        half_partials=store["enable_half_partial"] or store["partials_type_matmuls"] == "half",
        stochastic_rounding=store["enable_stochastic_rounding"],
        available_memory_proportion=proportion if proportion > 0 else 0.6,
        io_tiles=store["num_io_tiles"],
        random_seed=None if seed == UNSET_SEED else int(seed) & 0x7FFFFFFFFFFFFFFF,
        broadcast_buffers=False,  # statistics of a norm are each replica's own
        strategy=Strategy.PIPELINED if store["enable_pipelining"] else Strategy.SHARDED,
        recompute=_RECOMPUTE[store["auto_recomputation"]],
        locations=tuple((_ROLES[name], _read_location(fields)) for name, fields in store.locations.items()),
        synthetic_data=store["synthetic_data_mode"] != 0,
        loss_scale_control=_read_loss_scale(store) if automatic else None,
        floating_point_exceptions=store["enable_floating_point_checks"],
    )


def _read_location(fields: dict[str, int]) -> TensorLocation:
    plain = TensorLocation()
    return TensorLocation(
        on_chip=bool(fields.get("on_chip", True)),
        replicated_sharding=bool(fields.get("use_replicated_tensor_sharding", False)),
        minimum_off_chip_elements=int(fields.get("min_elements_for_off_chip", plain.minimum_off_chip_elements)),
        minimum_sharded_elements=int(
            fields.get("min_elements_for_replicated_tensor_sharding", plain.minimum_sharded_elements)
        ),
        io_tiles_load=bool(fields.get("use_io_tiles_to_load", False)),
        io_tiles_store=bool(fields.get("use_io_tiles_to_store", False)),
    )


def _read_loss_scale(store: OptionStore) -> LossScaleControl:
    return LossScaleControl(
        bin_edge=store["automatic_loss_scaling_settings.bin_edge_location"],
        threshold=store["automatic_loss_scaling_settings.threshold_upper_count_proportion"],
    )


def _check(store: OptionStore, shape: Shape) -> None:
    for name in ("num_ipus", "batches_per_step", "micro_batch_size", "accumulation_factor", "replicated_graph_count"):
        if store[name] < 1:
            raise OptionError(f"The option {name!r} must be at least 1, not {store[name]}.")
    if store["num_ipus"] % shape.replicas:
        raise OptionError(
            f"num_ipus ({store['num_ipus']}) counts the IPUs of all replicas, and {shape.replicas} replicas cannot "
            f"share them evenly: set num_ipus to a multiple of replicated_graph_count."
        )
