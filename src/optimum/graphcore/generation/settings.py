"""What `parallelize` is told about generation, and what `generate` is checked against.

In: keyword arguments of `parallelize`, by the names of Optimum Graphcore. Out: `GenerationSettings`, or an error that
names the argument.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from optimum.graphcore.ipu_configuration import IncompatibleIPUConfigError


@dataclass(frozen=True)
class GenerationSettings:
    """Sizes that are None are those of the first call of `generate`; others are fixed, and a call must fit them."""

    use_cache: bool = True  # keys and values of seen tokens stay on the device
    use_cross_cache: bool = False  # those of the encoder's output as well: they are computed once a sequence
    batch_size: int | None = None
    max_length: int | None = None
    num_beams: int | None = None
    prompt_length: int | None = None  # tokens of a prompt that are read at once; 0: one after the other
    encoder_max_length: int | None = None  # shorter inputs of the encoder are filled up; None: the inputs decide
    use_encoder_output_buffer: bool = False  # the encoder's output is written to the decoder once a sequence
    use_cond_encoder: bool = False  # the encoder is part of the decoder's program, run in its first step
    on_device_generation_steps: int = 0  # tokens chosen by the device itself between two calls; 0: the host chooses
    use_group_quantized_linears: bool = False
    batch_serialization_factor: int = 1
    sequence_serialization_factor: int = 1

    def __post_init__(self) -> None:
        if self.use_cond_encoder and self.use_encoder_output_buffer:
            raise ValueError(
                "`use_cond_encoder=True` is incompatible with `use_encoder_output_buffer=True`, only set one to True."
            )
        if min(self.batch_serialization_factor, self.sequence_serialization_factor) < 1:
            raise ValueError("`batch_serialization_factor` and `sequence_serialization_factor` must be at least 1.")
        if self.batch_serialization_factor > 1 and self.sequence_serialization_factor > 1:
            raise ValueError(
                "Attention is serialized along one dimension: set only one of `batch_serialization_factor` and "
                "`sequence_serialization_factor` to more than 1."
            )
        for name in ("on_device_generation_steps", "prompt_length"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"`{name}` is at least 0, not {getattr(self, name)}.")
        if self.on_device_generation_steps and not self.use_cache:
            raise ValueError(
                "`on_device_generation_steps` needs the tokens that were seen on the device: pass `use_cache=True`."
            )

    @classmethod
    def read(cls, model_class: type, arguments: dict[str, Any]) -> GenerationSettings:
        """From what `parallelize` was given."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(arguments) - known)
        if unknown:
            raise TypeError(
                f"{model_class.__name__}.parallelize() got unexpected arguments {unknown}. It knows for_generation and "
                f"{sorted(known)}."
            )
        return cls(**arguments)

    def check_model(self, model_class: type, has_encoder: bool, encoder_reads_mask: bool) -> None:
        """Refuse what a model has no part for."""
        asked = [
            name
            for name in (
                "use_cross_cache",
                "use_encoder_output_buffer",
                "use_cond_encoder",
                "use_group_quantized_linears",
            )
            if getattr(self, name)
        ]
        asked += [
            name for name in ("batch_serialization_factor", "sequence_serialization_factor") if getattr(self, name) > 1
        ]
        if asked and not has_encoder:
            raise NotImplementedError(f"{asked} are for models with an encoder; {model_class.__name__} has none.")
        if self.use_cond_encoder and encoder_reads_mask:
            raise NotImplementedError(
                f"use_cond_encoder is for encoders without an attention mask, as Whisper's; {model_class.__name__} has "
                "one. use_encoder_output_buffer keeps the encoder's output on the device as well."
            )

    def check_call(self, num_beams: int, max_length: int, batch_size: int) -> None:
        """Refuse a call of `generate` that does not fit the sizes that `parallelize` fixed."""
        for name, fixed, given in (
            ("num_beams", self.num_beams, num_beams),
            ("max_length", self.max_length, max_length),
            ("batch_size", self.batch_size, batch_size),
        ):
            too_much = fixed is not None and (given != fixed if name == "num_beams" else given > fixed)
            if too_much:
                raise ValueError(
                    f"KV caches were created with {name}={fixed}, but `model.generate()` is being called with "
                    f"{name}={given}. Pass {name}={given} to `parallelize`, or leave it out there: the first call "
                    "of `generate` then decides."
                )


def check_replication(replicas: int, settings: GenerationSettings) -> None:
    """Refuse what cannot be done on several replicas."""
    if replicas > 1 and settings.use_encoder_output_buffer:
        raise IncompatibleIPUConfigError(
            f"Replication is not supported when `use_encoder_output_buffer=True`: inference_replication_factor is "
            f"{replicas}. Set it to 1, or leave the encoder's output a streamed input."
        )
