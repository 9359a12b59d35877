"""`ipu.ipu_run_config`: settings of estimators for IPUs."""

from __future__ import annotations

from typing import Any, NamedTuple

from openipu_tensorflow.estimator import run_config as _run_config
from openipu_tensorflow.ipu.configuration.tree import IPUConfig


class _Fields(NamedTuple):
    iterations_per_loop: int
    ipu_options: Any
    num_replicas: int
    num_shards: int
    ordinal: int
    prefetch_depth: int | None


class IPURunConfig(_Fields):
    """The loops and the device of an estimator.

    Args:
        iterations_per_loop: steps of one session run, which the device does by itself.
        ipu_options: an `IPUConfig`, which the estimator configures the system with.
        num_replicas: copies of the model, each with data of its own.
        num_shards: IPUs of one copy.
        ordinal: the number of the device.
        prefetch_depth: of the estimator's infeed.
    """

    def __new__(
        cls,
        iterations_per_loop: int = 1,
        ipu_options: Any = None,
        num_replicas: int = 1,
        num_shards: int = 1,
        ordinal: int = 0,
        prefetch_depth: int | None = None,
    ) -> IPURunConfig:
        wanted = num_replicas * num_shards
        if ipu_options is None and wanted > 1:
            raise ValueError("IPU configuration requires more than one device, but `ipu_options` is None.")
        if ipu_options is not None:
            found = _count_ipus(ipu_options, ordinal)
            if found is not None and found != wanted:
                raise ValueError(
                    f"`IPURunConfig` configured with {wanted} devices ({num_replicas} replicas times {num_shards} "
                    f"shards), but `IpuOptions` configured with {found} devices."
                )
        return super().__new__(cls, iterations_per_loop, ipu_options, num_replicas, num_shards, ordinal, prefetch_depth)


def _count_ipus(options: Any, ordinal: int) -> int | None:
    """The IPUs of a device; None where it is known only once the system is configured."""
    if not isinstance(options, IPUConfig):
        raise TypeError(f"ipu_options must be an IPUConfig instance, not {type(options).__name__}.")
    chosen = options.auto_select_ipus or options.select_ipus or 1
    counts = [chosen] if isinstance(chosen, int) else list(chosen)
    if ordinal >= len(counts):
        raise ValueError(
            f"Only {len(counts)} device(s) available to choose from. You tried to pick a device at ordinal {ordinal}."
        )
    return counts[ordinal] if options.auto_select_ipus or not options.select_ipus else None


class RunConfig(_run_config.RunConfig):
    """A `tf.estimator.RunConfig` with an `IPURunConfig`."""

    def __init__(self, ipu_run_config: IPURunConfig | None = None, master: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ipu_run_config = ipu_run_config or IPURunConfig()
        if master:
            raise NotImplementedError("master: estimators run in this process. Use popdist for several.")

    @property
    def ipu_run_config(self) -> IPURunConfig:
        return self._ipu_run_config
