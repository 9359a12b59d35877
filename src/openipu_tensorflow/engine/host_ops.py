"""Ops without a rule, and those that a script wants there: TensorFlow computes them on the host, in the middle of the
program.

In: an op of a graph and the values of a run. Out: its results. So no graph fails for want of a rule; a plan shows such
an op as a call of the host.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch

import tensorflow as tf
from openipu.capture import call_host, is_on_ipu, on_host
from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignNode
from openipu.translate.rules import Results, Rule, Table
from openipu.translate.site import Site
from openipu.translate.tensorflow.table import RULES
from openipu_tensorflow.graphs.formats import FORMATS, find_format, to_torch
from openipu_tensorflow.graphs.places import OUTSIDE

_logger = logging.getLogger("openipu")
_ALWAYS_INSIDE = ("Identity", "IdentityN", "NoOp", "StopGradient")  # nothing to compute
_FORMATS_BACK = {held: dtype for dtype, held in reversed(FORMATS.items())}


class HostTable(Table):
    """The table, and TensorFlow for what it lacks."""

    def need(self, node: ForeignNode, file: str) -> Rule:
        found = None if _is_outside(node) else self.find(node)
        return found if found is not None else Rule(node.op, _run_on_host, folds=False)


def _is_outside(node: ForeignNode) -> bool:
    """Does a script want the op on the host? Variables, loops and branches stay what they are."""
    plain = node.op not in _ALWAYS_INSIDE and "Resource" not in node.op and not node.bodies
    return OUTSIDE in node.attributes and bool(node.inputs) and plain


def make_table() -> Table:
    return HostTable(RULES)


def _run_on_host(site: Site) -> Results:
    """Inputs that are known when the program is compiled are part of the function."""
    function = _bind(site.node)
    values = [site.input(place) if site.lift is None else site.inputs[place] for place in range(site.count)]
    known = [value is not None and not is_on_ipu(value) for value in values]
    if all(known) and not _is_stateful(site.node):
        with on_host():
            return function(*values)
    moving = [value for value, fixed in zip(values, known, strict=True) if value is not None and not fixed]

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        rest = iter(given)
        return function(*(value if fixed else next(rest) for value, fixed in zip(values, known, strict=True)))

    _logger.info("TensorFlow computes %s on the host", site.node.title)
    return call_host(run, moving, site.node.op)


def _is_stateful(node: ForeignNode) -> bool:
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    return definition is None or bool(definition.is_stateful)


def _bind(node: ForeignNode) -> Callable[..., list[torch.Tensor]]:
    """A function of tensors that runs one op of TensorFlow."""
    raw = getattr(tf.raw_ops, node.op, None)
    if raw is None:
        raise TranslationError(f"{node.title} is no op that this TensorFlow has, and there is no rule for it.")
    from tensorflow.python.eager import context
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    known = inspect.signature(raw).parameters
    plain = {key: _convert(value) for key, value in node.attributes.items() if key in known}
    arguments = definition.input_arg

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        with context.eager_mode(), tf.device("/device:CPU:0"):  # also where a script works on a graph
            found = raw(**name_inputs(list(tensors)), **plain)
            if isinstance(found, tf.Operation) or found is None:
                return []
            listed = list(found) if isinstance(found, list | tuple) else [found]
            return [to_torch(value.numpy()) for value in listed if find_format(value.dtype) is not None]

    def name_inputs(rest: list[torch.Tensor]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for entry in arguments:
            dtype = _find_dtype(entry, node)
            if entry.number_attr or entry.type_list_attr:
                single = len(arguments) - 1
                count = int(node.attributes[entry.number_attr]) if entry.number_attr else len(rest) - single
                named[entry.name] = [_to_tensorflow(value, dtype) for value in rest[:count]]
                rest = rest[count:]
            else:
                named[entry.name] = _to_tensorflow(rest.pop(0), dtype)
        return named

    return run


def _find_dtype(entry: Any, node: ForeignNode) -> Any:
    if entry.type:
        return tf.as_dtype(entry.type)
    found = node.attributes.get(entry.type_attr) if entry.type_attr else None
    return _FORMATS_BACK.get(found) if isinstance(found, torch.dtype) else None


def _to_tensorflow(value: torch.Tensor, dtype: Any) -> Any:
    plain = value.detach().to(torch.float32) if value.dtype is torch.bfloat16 else value.detach()
    return tf.convert_to_tensor(plain.numpy() if dtype is None else plain.numpy().astype(dtype.as_numpy_dtype))


def _convert(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _FORMATS_BACK[value]
    if isinstance(value, list):
        return [_convert(entry) for entry in value]
    return value
