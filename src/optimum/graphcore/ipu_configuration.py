"""How a model is spread over IPUs and run: the `ipu_config.json` that goes with a checkpoint.

In: fields, a file, a directory, an id or a model. Out: an `IPUConfig`, and from it `poptorch.Options`.
"""

from __future__ import annotations

import copy
import os
import warnings
from pathlib import Path
from typing import Any, ClassVar, Self

from optimum.configuration_utils import BaseConfig
from optimum.utils import logging

import poptorch
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from optimum.graphcore._config_fields import (
    AUTO,
    FIELDS,
    IncompatibleIPUConfigError,
    IPUConfigFileError,
    check_field,
    check_together,
)
from optimum.graphcore._config_legacy import count_pod_ipus, translate_legacy
from optimum.graphcore._config_options import build_options
from optimum.graphcore._config_text import parse_overrides
from optimum.graphcore.configurations import find_configuration

__all__ = ["AUTO", "IPU_CONFIG_NAME", "IPUConfig", "IncompatibleIPUConfigError"]

logger = logging.get_logger(__name__)

IPU_CONFIG_NAME = "ipu_config.json"
_LARGEST_FILE = 1 << 20
_DEFAULT_MATMUL_PROPORTION = 0.2
_BASE_FIELDS = frozenset(BaseConfig().to_dict())


class _OfMode:
    """An attribute that reads and writes the field of the mode that the configuration is in."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, config: IPUConfig | None, owner: type | None = None) -> Any:
        return self if config is None else getattr(config, config._get_managed_attr_mode_name(self.name))

    def __set__(self, config: IPUConfig, value: Any) -> None:
        setattr(config, config._get_managed_attr_mode_name(self.name), value)


class IPUConfig(BaseConfig):  # type: ignore[misc]
    """Where layers go, how batches are made up, and what memory is used for. See docs/optimum.md for each field.

    A field whose name starts with `inference_` holds the value for evaluation and prediction. `layers_per_ipu` counts
    layers for each IPU; -1 takes an even share of what is left, and "auto" lets the plan of the model decide.
    """

    CONFIG_NAME = IPU_CONFIG_NAME
    FULL_CONFIGURATION_FILE = IPU_CONFIG_NAME
    modes: ClassVar[tuple[str, str]] = ("training", "inference")

    _layers_per_ipu = _OfMode("layers_per_ipu")
    _ipus_per_replica = _OfMode("ipus_per_replica")
    _matmul_proportion = _OfMode("matmul_proportion")
    _embedding_serialization_factor = _OfMode("embedding_serialization_factor")
    _serialized_embedding_splits_per_ipu = _OfMode("serialized_embedding_splits_per_ipu")
    _projection_serialization_factor = _OfMode("projection_serialization_factor")
    _serialized_projection_splits_per_ipu = _OfMode("serialized_projection_splits_per_ipu")
    _parallelize_kwargs = _OfMode("parallelize_kwargs")

    def __init__(
        self,
        replication_factor: int = 1,
        inference_replication_factor: int = 1,
        gradient_accumulation_steps: int = 1,
        layers_per_ipu: list[int] | str = [-1],  # noqa: B006 (copied below)
        inference_layers_per_ipu: list[int] | str | None = None,
        ipus_per_replica: int | None = None,
        inference_ipus_per_replica: int | None = None,
        optimizer_state_offchip: bool = False,
        replicated_tensor_sharding: bool = False,
        matmul_proportion: float | list[float] = _DEFAULT_MATMUL_PROPORTION,
        inference_matmul_proportion: float | list[float] | None = None,
        enable_half_partials: bool = True,
        embedding_serialization_factor: int | None = None,
        inference_embedding_serialization_factor: int | None = None,
        serialized_embedding_splits_per_ipu: list[int] | None = None,
        inference_serialized_embedding_splits_per_ipu: list[int] | None = None,
        projection_serialization_factor: int | None = None,
        inference_projection_serialization_factor: int | None = None,
        serialized_projection_splits_per_ipu: list[int] | None = None,
        inference_serialized_projection_splits_per_ipu: list[int] | None = None,
        recompute_checkpoint_every_layer: bool = False,
        device_iterations: int = 1,
        inference_device_iterations: int = 1,
        output_mode: str = "final",
        seed: int | None = None,
        auto_loss_scaling: bool = False,
        executable_cache_dir: str = "",
        explicit_ir_inference: bool = False,
        parallelize_kwargs: dict[str, Any] | None = None,
        inference_parallelize_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in FIELDS}
        values = translate_legacy(given | kwargs)
        unknown = {name: values[name] for name in values if name not in FIELDS and name not in _BASE_FIELDS}
        if unknown:
            listed = "\n".join(f"  {name}={value}" for name, value in unknown.items())
            raise IncompatibleIPUConfigError(f"IPUConfig received unknown arguments:\n{listed}")
        self._mode = "training"
        values = {name: copy.deepcopy(value) for name, value in values.items() if name in FIELDS}
        for name, value in _fill_defaults(values).items():
            setattr(self, name, value)
        self._validate_ipu_config()

    @classmethod
    def _get_config_dict(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        name = os.fspath(pretrained_model_name_or_path)
        found = None if os.path.exists(name) else find_configuration(name)
        if found is not None:
            return found, kwargs
        result: tuple[dict[str, Any], dict[str, Any]] = super()._get_config_dict(name, **kwargs)
        return result

    @classmethod
    def _dict_from_json_file(cls, json_file: str | os.PathLike[str]) -> dict[str, Any]:
        origin = Origin(
            f"The configuration {json_file}", IPUConfigFileError, "Write it with IPUConfig.save_pretrained."
        )
        return read_json(Path(json_file), dict[str, Any], origin, _LARGEST_FILE)

    @classmethod
    def auto(cls, model: Any, example_inputs: Any = None, *, system: Any = None, **kwargs: Any) -> IPUConfig:
        """A configuration for a model, split by the memory and the cycles of its plan on a system.

        `example_inputs` is one micro-batch, a dictionary of tensors; without it one is made from `batch_size` and
        `sequence_length`. `training`, `fp32`, and any field of a configuration, such as `ipus_per_replica`, are
        understood as well.
        """
        from optimum.graphcore.automatic import find_config  # planning needs much that a configuration does not

        return find_config(model, example_inputs, system=system, **kwargs)

    def plan(self, model: Any, example_inputs: Any = None, *, system: Any = None, **kwargs: Any) -> Any:
        """The plan of a model under this configuration: its memory (`plan.fit`), cycles and samples a second.

        The model may be on the meta device. Inputs and further arguments are those of `auto`, but fields.
        """
        from optimum.graphcore.planning import plan_config

        return plan_config(self, model, example_inputs, system=system, **kwargs)

    @property
    def mode(self) -> str:
        """Which fields the attributes with a leading underscore stand for: "training" or "inference"."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in self.modes:
            raise ValueError(
                f"`IPUConfig` mode can only take values in {self.modes}. You provided: {value=}. Use the `train` and "
                "`eval` methods."
            )
        self._mode = value

    def train(self) -> Self:
        """Speak of training from here on."""
        self._mode = "training"
        return self

    def eval(self) -> Self:
        """Speak of inference from here on."""
        self._mode = "inference"
        return self

    def _get_managed_attr_mode_name(self, attr: str) -> str:
        return f"inference_{attr}" if self._mode == "inference" and f"inference_{attr}" in FIELDS else attr

    def __setattr__(self, name: str, value: Any) -> None:
        check_field(name, value)
        super().__setattr__(name, value)

    def _validate_ipu_config(self) -> Self:
        if self.replicated_tensor_sharding and self.replication_factor == 1:
            logger.info("`replicated_tensor_sharding` is not used when `replication_factor=1`")
        for prefix in ("", "inference_"):
            check_together(self, prefix)
            for layer in ("embedding", "projection"):
                factor = f"{prefix}{layer}_serialization_factor"
                if (
                    getattr(self, factor) is None
                    and getattr(self, f"{prefix}serialized_{layer}_splits_per_ipu") is None
                ):
                    setattr(self, factor, 1)
        return self

    def to_options(
        self, for_inference: bool = False, compile_only: bool = False, pod_type: str | None = None
    ) -> poptorch.Options:
        """The options of one mode. With `compile_only` a program is compiled and planned, and never run."""
        config = self if pod_type is None else self.for_pod_type(pod_type)
        return build_options(config, for_inference, compile_only)

    def for_pod_type(self, pod_type: str) -> IPUConfig:
        """A copy that uses all IPUs of a pod. Deprecated: training arguments have `n_ipu`."""
        warnings.warn("`pod_type` is deprecated, use `n_ipu`.", FutureWarning, stacklevel=3)
        return self.for_ipu_count(count_pod_ipus(pod_type))

    def for_ipu_count(self, n_ipu: int) -> IPUConfig:
        """A copy with as many replicas as fit on so many IPUs."""
        config = copy.deepcopy(self)
        for prefix in ("", "inference_"):
            ipus = getattr(self, f"{prefix}ipus_per_replica") or 1
            if ipus > n_ipu:
                raise IncompatibleIPUConfigError(
                    f"{prefix}ipus_per_replica={ipus} needs more than the {n_ipu} IPUs that `n_ipu` allows. Raise "
                    "`n_ipu`, or spread the layers over fewer IPUs."
                )
            setattr(config, f"{prefix}replication_factor", n_ipu // ipus)
        return config

    def batch_size_factor(self, for_inference: bool = False, pod_type: str | None = None) -> int:
        """Micro-batches in one call: replicas x accumulation (in training) x device iterations."""
        config = self if pod_type is None else self.for_pod_type(pod_type)
        if for_inference:
            return int(config.inference_replication_factor * config.inference_device_iterations)
        return int(config.replication_factor * config.gradient_accumulation_steps * config.device_iterations)

    def update_from_string(self, update_str: str) -> None:
        """Set fields from text: `key=value,key=[a b]`. All of them, or none if one is wrong."""
        values = parse_overrides(update_str)
        for prefix in ("", "inference_"):
            layers = values.get(f"{prefix}layers_per_ipu")
            if isinstance(layers, list) and layers != [-1]:
                values.setdefault(f"{prefix}ipus_per_replica", len(layers))
        changed = copy.deepcopy(self)
        for name, value in values.items():
            setattr(changed, name, value)
        changed._validate_ipu_config()
        self.__dict__.update(changed.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """All fields, as they are written to `ipu_config.json`."""
        fields: dict[str, Any] = super().to_dict()
        fields.pop("_mode", None)
        return fields


def _fill_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """Fields that follow from others: inference does as training does, and the list of layers tells the IPUs."""
    filled = dict(values)
    layers = filled["layers_per_ipu"]
    check_field("layers_per_ipu", layers)
    inference_layers = filled["inference_layers_per_ipu"] = filled["inference_layers_per_ipu"] or layers
    check_field("inference_layers_per_ipu", inference_layers)
    if filled["ipus_per_replica"] is None and layers != AUTO:
        filled["ipus_per_replica"] = len(layers)
    if filled["inference_ipus_per_replica"] is None:
        ipus = filled["ipus_per_replica"]
        follows_layers = inference_layers != [-1] or (layers != AUTO and ipus == len(layers))
        if follows_layers and inference_layers != AUTO:
            ipus = len(inference_layers)
        filled["inference_ipus_per_replica"] = ipus
    proportion = filled["matmul_proportion"]
    if filled["inference_matmul_proportion"] is None:
        fits = not isinstance(proportion, list) or len(proportion) == filled["inference_ipus_per_replica"]
        filled["inference_matmul_proportion"] = proportion if fits else _DEFAULT_MATMUL_PROPORTION
    for name in ("replication_factor", "inference_replication_factor"):
        if not isinstance(filled[name], int) or isinstance(filled[name], bool):
            raise ValueError(
                f"{name} must be of type `int`. You provided: {name}={filled[name]}, {type(filled[name])}."
            )
    for name in ("parallelize_kwargs", "inference_parallelize_kwargs"):
        filled[name] = filled[name] or {}
    filled.setdefault("execute_encoder_on_cpu_for_generation", False)
    return filled
