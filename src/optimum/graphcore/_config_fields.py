"""The fields of an IPUConfig as data: what each may hold.

In: a field's name and a value. Out: nothing, or TypeError/ValueError that name the field. `check_together` compares
fields with one another, for one mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openipu.errors import OptionError

if TYPE_CHECKING:
    from optimum.graphcore.ipu_configuration import IPUConfig

AUTO = "auto"
OUTPUT_MODES = ("all", "sum", "final", "default")


class IPUConfigFileError(OptionError, OSError):
    """A file holds no configuration. Transformers' users expect an OSError where a file cannot be read."""


class IncompatibleIPUConfigError(ValueError):
    """Values of an IPUConfig that do not go together, or do not suit the model."""


@dataclass(frozen=True)
class Field:
    """What one field may hold: a scalar of a kind, a list of that kind, one of some words, or None."""

    kind: type
    scalar: bool = True
    listed: bool = False
    optional: bool = False
    at_least: float | None = None
    words: tuple[str, ...] = ()
    consecutive: bool = False  # a list whose entries above zero stand side by side, at least one of them

    def describe(self) -> str:
        """The type as a user would write it."""
        parts = [self.kind.__name__] if self.scalar else []
        parts += [f"list[{self.kind.__name__}]"] if self.listed else []
        parts += [repr(word) for word in self.words] if self.kind is not str else []
        return " | ".join(parts + (["None"] if self.optional else []))

    def accepts(self, value: Any) -> bool:
        """Whether the type is right; the value is looked at afterwards."""
        if value is None:
            return self.optional
        if isinstance(value, str) and value in self.words:
            return True
        if isinstance(value, list):
            return self.listed and all(_is_a(item, self.kind) for item in value)
        return self.scalar and _is_a(value, self.kind)


def _is_a(value: Any, kind: type) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)


def _list_fields() -> dict[str, Field]:
    count = Field(int, at_least=1)
    factor = Field(int, optional=True, at_least=1)
    splits = Field(int, scalar=False, listed=True, optional=True, at_least=0, consecutive=True)
    flag = Field(bool)
    layers = Field(int, scalar=False, listed=True, at_least=-1, words=(AUTO,))
    in_both_modes = {
        "replication_factor": count,
        "layers_per_ipu": layers,
        "ipus_per_replica": Field(int, optional=True, at_least=1),
        "matmul_proportion": Field(float, listed=True, at_least=0),
        "embedding_serialization_factor": factor,
        "serialized_embedding_splits_per_ipu": splits,
        "projection_serialization_factor": factor,
        "serialized_projection_splits_per_ipu": splits,
        "device_iterations": count,
        "parallelize_kwargs": Field(dict),
    }
    return {
        **in_both_modes,
        **{f"inference_{name}": field for name, field in in_both_modes.items()},
        "gradient_accumulation_steps": count,
        "optimizer_state_offchip": flag,
        "replicated_tensor_sharding": flag,
        "enable_half_partials": flag,
        "recompute_checkpoint_every_layer": flag,
        "output_mode": Field(str, words=OUTPUT_MODES),
        "seed": Field(int, optional=True),
        "auto_loss_scaling": flag,
        "executable_cache_dir": Field(str),
        "explicit_ir_inference": flag,
        "execute_encoder_on_cpu_for_generation": flag,
    }


FIELDS = _list_fields()


def check_field(name: str, value: Any) -> None:
    """Raise TypeError or ValueError if a field may not hold this value."""
    field = FIELDS.get(name)
    if field is None:
        return
    if not field.accepts(value):
        raise TypeError(
            f"Setting `IPUConfig` attribute: {name}, type: {field.describe()} with value={value!r}, "
            f"type: {type(value)} is invalid."
        )
    if isinstance(value, str):
        if field.words and value not in field.words:
            raise ValueError(
                f"`IPUConfig` attribute `{name}` can only take values in {field.words}. You provided: value={value!r}"
            )
        return
    if field.at_least is not None and value is not None:
        _check_least(name, value, field.at_least)
    if field.consecutive and value is not None:
        _check_splits(name, value)


def _check_least(name: str, value: Any, least: float) -> None:
    if isinstance(value, list):
        if any(item < least for item in value):
            raise ValueError(f"`IPUConfig` attribute `{name}` must have all elements >= {least}. You provided {value=}")
    elif value < least:
        raise ValueError(f"`IPUConfig` attribute `{name}` must be >= {least}. You provided {value=}")


def _check_splits(name: str, value: list[int]) -> None:
    used = [ipu for ipu, splits in enumerate(value) if splits]
    if not used:
        raise ValueError(f"`IPUConfig` attribute `{name}={value}` must have atleast 1 split on 1 IPU.")
    if used[-1] - used[0] + 1 != len(used):
        raise ValueError(f"`IPUConfig` attribute `{name}={value}` must have its splits on consecutive IPUs.")


def check_together(config: IPUConfig, prefix: str) -> None:
    """Compare fields of one mode; `prefix` is "" for training and "inference_" for inference."""

    def read(name: str) -> Any:
        return getattr(config, prefix + name)

    for layer in ("embedding", "projection"):
        factor, splits = f"{layer}_serialization_factor", f"serialized_{layer}_splits_per_ipu"
        if read(factor) and read(splits):
            raise IncompatibleIPUConfigError(
                f"Only one of `{prefix}{factor}` and `{prefix}{splits}` should be used at once. The factor splits the "
                f"{layer} layer on one IPU that the model chooses; the list says how many splits each IPU gets."
            )
    ipus = read("ipus_per_replica")
    proportion, layers = read("matmul_proportion"), read("layers_per_ipu")
    counted = [("matmul_proportion", proportion if isinstance(proportion, list) else None)]
    if layers != AUTO and -1 not in layers:  # wildcards are spread when the model is known
        counted.append(("layers_per_ipu", layers))
    counted += [(name, read(name)) for name in FIELDS if name.startswith("serialized_")]
    for name, value in counted:
        if value and ipus is not None and len(value) != ipus:
            raise IncompatibleIPUConfigError(
                f"{prefix}{name}={value} should use the same number of IPUs as {prefix}ipus_per_replica={ipus}."
            )
