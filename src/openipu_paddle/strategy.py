"""`paddle.static.IpuStrategy`: the options of a program.

In: options by Paddle's names, checked by type. Out: values for `run_options`. A wrong name or type is an error.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from openipu.errors import OptionError
from openipu_paddle.option_table import LOCATION_FIELDS, LOCATIONS, OPTIONS, SPECIAL, Option

_NEEDS_NO_COMPILATION = frozenset({"lr"})


class OptionStore:
    """What Paddle calls `core.IpuStrategy`: values by name."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {name: copy.copy(option.default) for name, option in OPTIONS.items()}
        self.locations: dict[str, dict[str, int]] = {}
        self.special: dict[str, Any] = {}
        self.patterns: dict[str, bool] = {}
        self.custom_ops: list[dict[str, Any]] = []

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Set several options; none is set where one is wrong."""
        if not isinstance(options, Mapping):
            raise TypeError(f"set_options takes a dictionary of options, not {type(options).__name__}.")
        checked = {name: self._check(name, value) for name, value in options.items()}
        for name, value in checked.items():
            self._set(name, value)

    def _check(self, name: str, value: Any) -> Any:
        if name in SPECIAL:
            return _check_special(name, value)
        option = OPTIONS.get(name)
        if option is None:
            near = difflib.get_close_matches(str(name), [*OPTIONS, *SPECIAL], 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"IpuStrategy has no option {name!r}.{hint}")
        if name == "custom_ops":
            raise OptionError("The option 'custom_ops' is read only: add one with IpuStrategy.add_custom_op().")
        return _check_type(name, option, value)

    def _set(self, name: str, value: Any) -> None:
        if name in LOCATIONS:
            self.locations[name] = {**self.locations.get(name, {}), **value}
        elif name == "custom_op":
            self.custom_ops.append(dict(value))
            self._values["custom_ops"].append(str(value.get("paddle_op", "")))
        elif name in SPECIAL:
            self.special[name] = value
        elif isinstance(value, dict):
            self._values[name] = {**self._values[name], **value}
        elif isinstance(value, list):
            self._values[name] = [*self._values[name], *value]
        else:
            self._values[name] = value

    def get_option(self, name: str) -> dict[str, Any]:
        """Name, type and value of an option."""
        option = OPTIONS.get(name)
        if option is None:
            raise OptionError(f"IpuStrategy has no option {name!r} that can be read.")
        value = copy.copy(self._values[name])
        found = {"name": name, "type": option.type, "value": value}
        return {**found, "value_s": str(value)} if option.type in ("vector", "map") else found

    def get_all_option_names(self) -> list[str]:
        """The names of all options that can be read."""
        return list(OPTIONS)

    def enable_pattern(self, name: str) -> None:
        """Patterns rewrite PopART's graphs; openipu has none of them."""
        self.patterns[str(name)] = True

    def disable_pattern(self, name: str) -> None:
        """See `enable_pattern`."""
        self.patterns[str(name)] = False

    def is_pattern_enabled(self, name: str) -> bool:
        """Was it enabled? Patterns change nothing here."""
        return self.patterns.get(str(name), False)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def _check_type(name: str, option: Option, value: Any) -> Any:
    kinds: dict[str, tuple[type, ...]] = {
        "bool": (bool,),
        "uint64": (int,),
        "double": (float,),
        "string": (str,),
        "vector": (list, set, tuple),
        "map": (dict,),
    }
    wrong = not isinstance(value, kinds[option.type]) or (option.type == "uint64" and isinstance(value, bool))
    if wrong:
        raise OptionError(
            f"The option {name!r} is of type {option.type}, and {value!r} is of type {type(value).__name__}. "
            f"Give it a {' or '.join(kind.__name__ for kind in kinds[option.type])}."
        )
    if option.type == "uint64" and not 0 <= value < 2**64:
        raise OptionError(f"The option {name!r} is a whole number of at least 0, not {value!r}.")
    if option.limit is not None and value >= option.limit:
        raise OptionError(f"The option {name!r} is a number from 0 to {option.limit - 1}, not {value!r}.")
    return list(value) if option.type == "vector" else value


def _check_special(name: str, value: Any) -> Any:
    if name == "compilation_progress_logger":
        if not callable(value):
            raise OptionError(f"The option {name!r} is a function of progress and total, not {value!r}.")
        return value
    if not isinstance(value, dict):
        raise OptionError(f"The option {name!r} is a dictionary, not {value!r}.")
    if name == "custom_op" and (not isinstance(value.get("version", 1), int) or not value.get("paddle_op")):
        raise OptionError(f"The option 'custom_op' needs a paddle_op, and a whole number as its version: {value!r}.")
    if name in LOCATIONS:
        unknown = [key for key in value if key not in LOCATION_FIELDS]
        if unknown:
            raise OptionError(f"The option {name!r} has no {unknown[0]!r}. It has: {', '.join(LOCATION_FIELDS)}.")
    return value


class IpuStrategy:
    """The options of programs that `IpuCompiledProgram` compiles."""

    def __init__(self) -> None:
        self._ipu_strategy = OptionStore()
        self._ipu_strategy.set_options(
            {
                "location_optimizer": {"on_chip": 0, "use_replicated_tensor_sharding": 1},
                "accumulation_and_replication_reduction_type": 1,
                "mean_accumulation_and_replication_reduction_strategy": 1,
            }
        )
        self.has_custom_ops = False
        self.custom_op_names: list[str] = []
        self.need_compile = True
        self._optimizer: Any = None
        import paddle

        if paddle.in_dynamic_mode():
            self.register_patch()

    def register_patch(self) -> None:
        """From here on, `paddle.jit.to_static` compiles for IPUs with this strategy."""
        from openipu_paddle import dynamic

        dynamic.register_patch(self)

    def release_patch(self) -> None:
        """Undo `register_patch`."""
        from openipu_paddle import dynamic

        dynamic.release_patch()

    def set_optimizer(self, optimizer: Any) -> None:
        """The optimizer of a dynamic program."""
        import paddle

        if not paddle.in_dynamic_mode():
            raise RuntimeError("Only needs to set optimizer in dynamic mode: a static program holds its own.")
        self._optimizer = optimizer
        self._ipu_strategy.set_options(self.parse_optimizer(optimizer))

    def parse_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """The options that an optimizer of the dynamic mode decides."""
        return {"lr": float(optimizer.get_lr()), "is_dynamic": True}

    def set_graph_config(
        self,
        num_ipus: int = 1,
        is_training: bool = True,
        micro_batch_size: int = 1,
        enable_manual_shard: bool = False,
    ) -> None:
        """How many IPUs, and what the program is for."""
        if num_ipus == 1 and enable_manual_shard:
            raise RuntimeError("Only if num_ipus > 1, enable_manual_shard is able to be set True.")
        self.set_options(
            {
                "num_ipus": num_ipus,
                "is_training": is_training,
                "micro_batch_size": micro_batch_size,
                "enable_manual_shard": enable_manual_shard,
            }
        )

    def set_pipelining_config(
        self,
        enable_pipelining: bool = False,
        batches_per_step: int = 1,
        enable_gradient_accumulation: bool = False,
        accumulation_factor: int = 1,
    ) -> None:
        """How micro-batches follow one another."""
        if enable_pipelining and not self.get_option("enable_manual_shard"):
            raise RuntimeError("Only if enable_manual_shard=True, enable_pipelining is able to be set True.")
        self.set_options(
            {
                "enable_pipelining": enable_pipelining,
                "batches_per_step": batches_per_step,
                "enable_gradient_accumulation": enable_gradient_accumulation,
                "accumulation_factor": accumulation_factor,
            }
        )

    def set_precision_config(self, enable_fp16: bool = False) -> None:
        """Whether the program computes in half."""
        self.set_options({"enable_fp16": enable_fp16})

    def add_custom_op(
        self, paddle_op: str, popart_op: str | None = None, domain: str = "custom.ops", version: int = 1
    ) -> None:
        """What an op of one's own is called outside of Paddle: by PopART, or by `openipu.register_custom_op`."""
        named = paddle_op if popart_op is None else popart_op
        entry = {"paddle_op": paddle_op, "popart_op": named, "domain": domain, "version": version}
        self.set_options({"custom_op": entry})
        self.custom_op_names.append(paddle_op)
        self.has_custom_ops = True

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Set options by name."""
        self._ipu_strategy.set_options(options)
        if set(options) - _NEEDS_NO_COMPILATION:
            self.need_compile = True

    def get_option(self, option: str) -> Any:
        """The value of an option."""
        return self._ipu_strategy.get_option(option)["value"]

    def enable_pattern(self, pattern: str) -> None:
        """Patterns rewrite PopART's graphs; openipu has none of them."""
        self._ipu_strategy.enable_pattern(pattern)

    def disable_pattern(self, pattern: str) -> None:
        """See `enable_pattern`."""
        self._ipu_strategy.disable_pattern(pattern)

    @property
    def num_ipus(self) -> int:
        """IPUs of all replicas together."""
        return int(self.get_option("num_ipus"))

    @property
    def is_training(self) -> bool:
        """Does the program train?"""
        return bool(self.get_option("is_training"))

    @property
    def enable_pipelining(self) -> bool:
        """Do stages work at the same time?"""
        return bool(self.get_option("enable_pipelining"))

    @property
    def enable_fp16(self) -> bool:
        """Does the program compute in half?"""
        return bool(self.get_option("enable_fp16"))

    @property
    def progress_logger(self) -> Callable[[int, int], None] | None:
        """Who is told how far a compilation is."""
        found: Callable[[int, int], None] | None = self._ipu_strategy.special.get("compilation_progress_logger")
        return found
