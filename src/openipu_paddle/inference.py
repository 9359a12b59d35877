"""`paddle.inference` on IPUs: a configuration that has them, and a predictor that runs on openipu.

In: a saved model and Paddle's calls. Out: results by handle. Everything without `enable_ipu` is Paddle's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openipu.errors import InputError, OptionError
from openipu.explore import make_advisor
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.graph import RunOptions, Strategy
from openipu.session import Compiled, FrontEnd, compile_model
from openipu.translate.paddle import (
    CustomName,
    PaddleModel,
    PaddleModule,
    build_graph,
    find_shape,
    halve_ops,
    name_custom_ops,
    open_model,
    read_legacy,
    read_model,
    read_parameters,
    read_pir,
    read_weights,
    shard_evenly,
    slice_program,
)
from openipu_paddle.devices import reserve_ipus
from openipu_paddle.scopes import to_numpy, to_torch


@dataclass
class IpuSettings:
    """What `enable_ipu` and `set_ipu_config` say."""

    ipu_device_num: int = 1
    ipu_micro_batch_size: int = 1
    ipu_enable_pipelining: bool = False
    ipu_batches_per_step: int = 1
    ipu_enable_fp16: bool = False
    ipu_replica_num: int = 1
    ipu_available_memory_proportion: float = 1.0
    ipu_enable_half_partial: bool = False
    ipu_enable_model_runtime_executor: bool = False  # another way to the same results

    custom_ops: dict[str, CustomName] = field(default_factory=dict)  # by the type of Paddle's op

    def update(self, values: Mapping[str, Any]) -> None:
        """Set several; each must be of its type."""
        names = [name for name in self.__dataclass_fields__ if name != "custom_ops"]
        for name, value in values.items():
            if name not in names:
                known = ", ".join(names)
                raise OptionError(f"There is no IPU option {name!r} for inference. There are: {known}.")
            wanted = type(getattr(self, name))
            if wanted is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if not isinstance(value, wanted):
                raise OptionError(f"The IPU option {name!r} is a {wanted.__name__}, and {value!r} is not.")
            setattr(self, name, value)

    def build_options(self) -> RunOptions:
        """The core's options."""
        for name in ("ipu_device_num", "ipu_micro_batch_size", "ipu_batches_per_step", "ipu_replica_num"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.ipu_enable_pipelining and self.ipu_batches_per_step < self.ipu_device_num:
            raise OptionError(
                f"A pipeline over {self.ipu_device_num} IPUs needs at least as many batches per step, not "
                f"{self.ipu_batches_per_step}: raise ipu_batches_per_step of enable_ipu."
            )
        return RunOptions(
            device_iterations=self.ipu_batches_per_step,
            replicas=self.ipu_replica_num,
            half_partials=self.ipu_enable_half_partial,
            available_memory_proportion=self.ipu_available_memory_proportion,
            strategy=Strategy.PIPELINED if self.ipu_enable_pipelining else Strategy.SHARDED,
        )


def make_config_class(base: Any) -> Any:
    """Paddle's configuration, with IPUs."""

    class Config(base):  # type: ignore[misc]
        """Where a model lies, and how it is run."""

        def __init__(self, *files: Any) -> None:
            super().__init__(*files)
            self._ipu: IpuSettings | None = None
            self._buffers: tuple[bytes, bytes] | None = None

        def enable_ipu(
            self,
            ipu_device_num: int = 1,
            ipu_micro_batch_size: int = 1,
            ipu_enable_pipelining: bool = False,
            ipu_batches_per_step: int = 1,
        ) -> None:
            """Run on IPUs; a model over several is cut evenly."""
            self._settings().update(
                {
                    "ipu_device_num": ipu_device_num,
                    "ipu_micro_batch_size": ipu_micro_batch_size,
                    "ipu_enable_pipelining": ipu_enable_pipelining,
                    "ipu_batches_per_step": ipu_batches_per_step,
                }
            )

        def set_ipu_config(
            self,
            ipu_enable_fp16: bool = False,
            ipu_replica_num: int = 1,
            ipu_available_memory_proportion: float = 1.0,
            ipu_enable_half_partial: bool = False,
            ipu_enable_model_runtime_executor: bool = False,
        ) -> None:
            """More of how it runs."""
            self._settings().update(
                {
                    "ipu_enable_fp16": ipu_enable_fp16,
                    "ipu_replica_num": ipu_replica_num,
                    "ipu_available_memory_proportion": ipu_available_memory_proportion,
                    "ipu_enable_half_partial": ipu_enable_half_partial,
                    "ipu_enable_model_runtime_executor": ipu_enable_model_runtime_executor,
                }
            )

        def set_ipu_custom_info(
            self,
            ipu_custom_ops_info: Sequence[Any] = (),
            ipu_custom_patterns: Mapping[str, bool] | None = None,
        ) -> None:
            """What custom ops are called outside of Paddle: op, name, domain, version; patterns have no effect."""
            self._settings().custom_ops.update(map(_read_custom, ipu_custom_ops_info))

        def load_ipu_config(self, config_path: str) -> None:
            """All of these from a JSON file."""
            origin = Origin(str(config_path), OptionError, "Check the file of IPU options.")
            content = read_json(Path(config_path), dict[str, Any], origin)
            names = {name: value for name, value in content.items() if name not in _CUSTOM}
            self._settings().update(names)
            self.set_ipu_custom_info(*(content[name] for name in _CUSTOM[:1] if name in content))

        def use_ipu(self) -> bool:
            """Does the model run on IPUs?"""
            return self._ipu is not None

        def set_model_buffer(self, program: bytes, program_size: int, weights: bytes, weights_size: int) -> None:
            """A model in memory, in either form."""
            self._buffers = (bytes(program)[:program_size], bytes(weights)[:weights_size])
            super().set_model_buffer(program, program_size, weights, weights_size)

        def _settings(self) -> IpuSettings:
            if self._ipu is None:
                self._ipu = IpuSettings()
            return self._ipu

    return Config


_CUSTOM = ("ipu_custom_ops_info", "ipu_custom_patterns")


class Handle:
    """An input or output of a predictor."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._array: np.ndarray[Any, Any] | None = None

    def name(self) -> str:
        return self._name

    def reshape(self, shape: Sequence[int]) -> None:
        """The data decide the shape."""

    def copy_from_cpu(self, data: Any) -> None:
        if not isinstance(data, np.ndarray):
            raise TypeError(f"copy_from_cpu takes a numpy array, not {type(data).__name__}.")
        self._array = data.copy()

    def share_external_data(self, data: Any) -> None:
        self._array = np.asarray(data)

    def copy_to_cpu(self) -> np.ndarray[Any, Any]:
        if self._array is None:
            raise InputError(f"{self._name!r} has no data yet: call run() first.")
        return self._array.copy()

    def shape(self) -> list[int]:
        return [] if self._array is None else list(self._array.shape)

    @property
    def array(self) -> np.ndarray[Any, Any] | None:
        return self._array


class IpuPredictor:
    """Runs a saved model."""

    def __init__(self, config: Any) -> None:
        self._settings: IpuSettings = config._ipu
        self._options = self._settings.build_options()
        self._model, self._weights = _read(config)
        self._inputs = {name: Handle(name) for name in self._model.feeds}
        self._outputs = {name: Handle(name) for name in self._model.fetches}
        self._compiled: dict[tuple[tuple[int, ...], ...], tuple[Compiled, list[torch.dtype]]] = {}
        self._config = config

    def get_input_names(self) -> list[str]:
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        return list(self._outputs)

    def get_input_handle(self, name: str) -> Handle:
        return _find(self._inputs, name, "input")

    def get_output_handle(self, name: str) -> Handle:
        return _find(self._outputs, name, "output")

    def clone(self, *args: Any) -> IpuPredictor:
        return IpuPredictor(self._config)

    def clear_intermediate_tensor(self) -> None:
        """A compiled program keeps none."""

    def try_shrink_memory(self) -> int:
        return 0

    def run(self, inputs: Sequence[Any] | None = None) -> Any:
        """Run on the handles' data, or on a list of arrays or tensors."""
        if inputs is not None:
            for handle, value in zip(self._inputs.values(), inputs, strict=True):
                handle.share_external_data(value)
        missing = [name for name, handle in self._inputs.items() if handle.array is None]
        if missing:
            raise InputError(f"The input {missing[0]!r} has no data: copy_from_cpu to its handle before run().")
        values = [to_torch(handle.array) for handle in self._inputs.values() if handle.array is not None]
        compiled, dtypes = self._compile(values)
        leaves = [value.to(dtype) for value, dtype in zip(values, dtypes, strict=True)]
        for handle, value in zip(self._outputs.values(), compiled.executable.run(leaves).outputs, strict=True):
            handle.share_external_data(to_numpy(value.float() if value.dtype is torch.float16 else value))
        if inputs is None:
            return True
        return [handle.copy_to_cpu() for handle in self._outputs.values()]

    def _compile(self, values: Sequence[torch.Tensor]) -> tuple[Compiled, list[torch.dtype]]:
        key = tuple(tuple(value.shape) for value in values)
        if key in self._compiled:
            return self._compiled[key]
        count = self._options.micro_batches
        for name, value in zip(self._model.feeds, values, strict=True):
            if value.dim() and value.shape[0] % count:
                raise InputError(
                    f"The input {name!r} of shape {list(value.shape)} cannot be cut into {count} micro-batches "
                    "(batches per step x replicas)."
                )
            micro = (value.shape[0] // count, *value.shape[1:]) if value.dim() else ()
            find_shape(self._model, name, micro)
        module, dtypes = self._build()
        inputs = [
            torch.empty(value.shape, dtype=dtype, device="meta") for value, dtype in zip(values, dtypes, strict=True)
        ]
        ipus = self._settings.ipu_device_num * self._settings.ipu_replica_num
        compiled = compile_model(
            module,
            inputs,
            options=self._options,
            name=Path(self._model.file).stem or "paddle_model",
            show_progress=False,
            front_end=FrontEnd(
                reserve=lambda program: reserve_ipus(ipus, program.name),
                advise=make_advisor("paddle"),
            ),
        )
        compiled.executable.load_weights(dict(module.named_parameters()), dict(module.named_buffers()))
        self._compiled[key] = compiled, dtypes
        return self._compiled[key]

    def _build(self) -> tuple[PaddleModule, list[torch.dtype]]:
        model, half = self._model, self._settings.ipu_enable_fp16
        ops = name_custom_ops(slice_program(model.program, model.fetches).forward, self._settings.custom_ops)
        ops = shard_evenly(ops, self._settings.ipu_device_num)
        ops = halve_ops(ops) if half else ops
        built = build_graph(model.program, ops, model.feeds, model.fetches, name=model.graph.name)

        def fit(dtype: torch.dtype) -> torch.dtype:
            wide = torch.float32 if dtype is torch.float64 else dtype
            return torch.float16 if half and wide is torch.float32 else wide

        weights = {name: self._weights[name] for name in built.held}
        held = {name: value.to(fit(value.dtype)) for name, value in weights.items()}
        return PaddleModule(built.graph, held).eval(), [fit(entry.dtype) for entry in model.feeds.values()]


def _read_custom(entry: Any) -> tuple[str, CustomName]:
    """One entry of `ipu_custom_ops_info`."""
    fields = list(entry) if isinstance(entry, list | tuple) else []
    if len(fields) != 4 or not all(isinstance(part, str) for part in fields[:3]) or not str(fields[3]).isdecimal():
        raise OptionError(f'A custom op is told as ["op", "name", "domain", "version"], not as {entry!r}.')
    return fields[0], CustomName(fields[1], fields[2], int(fields[3]))


def _find(handles: Mapping[str, Handle], name: str, kind: str) -> Handle:
    if name not in handles:
        raise InputError(f"The model has no {kind} {name!r}. It has: {', '.join(handles)}.")
    return handles[name]


def _read(config: Any) -> tuple[PaddleModel, dict[str, torch.Tensor]]:
    if config._buffers is not None:
        content, what = config._buffers[0], "the model's buffer"
        new = content.lstrip()[:1] == b"{"  # of Paddle's two forms, one is JSON
        model = open_model(read_pir(content, what).program if new else read_legacy(content, what))
        kept = [entry.name for entry in model.program.main.variables.values() if entry.persistable and entry.dtype]
        found = read_parameters(memoryview(config._buffers[1]), kept, "the weights' buffer")
    else:
        program, weights = config.prog_file(), config.params_file()
        if not program:
            raise OptionError(
                "The configuration names no model. Give Config the paths of .pdmodel or .json and .pdiparams files."
            )
        model = read_model(Path(program))
        found = read_weights(model, Path(weights)) if model.held else {}
    return model, {name: weight.read() for name, weight in found.items() if name in model.held}


def extend_creation(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`create_predictor` that knows configurations with IPUs."""

    def create_predictor(config: Any) -> Any:
        return IpuPredictor(config) if getattr(config, "_ipu", None) is not None else original(config)

    return create_predictor
