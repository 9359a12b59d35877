"""`ipu.scopes`: where ops are placed, and how they are marked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from openipu_tensorflow.graphs.places import OUTSIDE, SHARD

FRONTEND_ATTRIBUTES_NAME = "_XlaFrontendAttributes"
_PREFIX = "_ipu_attribute_"


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: Any) -> Iterator[None]:
    """Ops inside are compiled together: the number of the group."""
    with _mark({"_XlaScope": _text(f"jit_scope_ipu_{ipu_scope}")}):
        yield


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Ops inside are on an IPU device, variables are resource variables."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import variable_scope

    current = variable_scope.get_variable_scope()
    with variable_scope.variable_scope(current, use_resource=True), ops.device(device), ipu_jit_scope(0):
        yield


@contextlib.contextmanager
def ipu_shard(index: int | Iterable[int]) -> Iterator[None]:
    """Ops inside, and those of their gradients, are on one IPU of the device, or on several; -1: on all of them."""
    numbers = [index] if isinstance(index, int) else list(index)
    if not numbers or any(isinstance(entry, bool) or not isinstance(entry, int) or entry < -1 for entry in numbers):
        raise ValueError(
            f"A shard is the number of an IPU of the device, from 0, or several of them, or -1 for all, not {index!r}."
        )
    from tensorflow.core.framework import attr_value_pb2

    value = attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(i=numbers))
    with _mark({SHARD: value}):
        yield


@contextlib.contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Ops inside run on the host while the program waits, each as a call of its own; loops and branches do not."""
    from openipu_tensorflow.ipu.clusters.tracing import current_trace

    trace = current_trace()
    if trace is None:
        raise ValueError(
            "outside_compilation_scope is only valid inside a compilation: use it in a function that "
            "ipu.ipu_compiler.compile gets."
        )
    if trace.outside:
        raise ValueError("Illegal nesting: one outside_compilation_scope cannot stand inside another.")
    trace.outside += 1
    try:
        with _mark({OUTSIDE: _text(name)}):
            yield
    finally:
        trace.outside -= 1


@contextlib.contextmanager
def frontend_attribute(attribute_name: str, attribute_value: str, restore_to: str | None = None) -> Iterator[None]:
    """Ops inside carry a text under a name; `restore_to` is what those of the enclosing scope carry afterwards."""
    from tensorflow.python.framework import ops

    if not isinstance(attribute_name, str) or not isinstance(attribute_value, str):
        raise TypeError(f"Names and values of attributes are texts, not {attribute_name!r} and {attribute_value!r}.")
    graph = ops.get_default_graph()
    with _mark({_PREFIX + attribute_name: _text(attribute_value)}):
        yield
    if restore_to is not None:
        graph._attr_scope_map[_PREFIX + attribute_name] = _text(restore_to)


@contextlib.contextmanager
def stochastic_rounding(override: bool) -> Iterator[None]:
    """Ops inside round half results by chance, or do not, whatever the configuration says.

    One program has one way of rounding here: a scope that asks for another one than the configuration is refused.
    """
    from openipu_tensorflow.ipu.configuration.devices import list_devices
    from openipu_tensorflow.ipu.configuration.enums import StochasticRoundingBehaviour
    from openipu_tensorflow.ipu.configuration.message import read_rounding

    if not isinstance(override, bool):
        raise TypeError(f"stochastic_rounding takes True or False, not {override!r}.")
    for device in list_devices()[:1]:
        behaviour = device.config.floating_point_behaviour
        set_on = behaviour.set_all or read_rounding(behaviour.esr) is not StochasticRoundingBehaviour.OFF
        if set_on != override:
            raise NotImplementedError(
                f"stochastic_rounding({override}) inside a program that is configured otherwise: a program has one way "
                "of rounding here. Set floating_point_behaviour.esr of the IPUConfig to it."
            )
    with frontend_attribute("STOCHASTIC_ROUNDING", "THREESTATE_ON" if override else "THREESTATE_OFF"):
        yield


@contextlib.contextmanager
def partials_type(override_type: Any) -> Iterator[None]:
    """Products inside are summed in this type. A program has one: half, where any scope, stage or option says so."""
    from tensorflow.python.framework import dtypes

    found = dtypes.as_dtype(override_type)
    if found not in (dtypes.float32, dtypes.float16):
        raise ValueError(f"Partials are float16 or float32, not {found.name}.")
    with frontend_attribute("PARTIALS_TYPE", "float" if found == dtypes.float32 else "half"):
        yield


@contextlib.contextmanager
def _mark(attributes: dict[str, Any]) -> Iterator[None]:
    from tensorflow.python.framework import ops

    with ops.get_default_graph()._attr_scope(attributes):
        yield


def _text(value: str) -> Any:
    from tensorflow.core.framework import attr_value_pb2

    return attr_value_pb2.AttrValue(s=value.encode())
