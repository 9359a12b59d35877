"""A traced function as an application.

In: a prepared level of ops that takes elements of infeeds and hands out results, by itself or as the body of one loop
or pipeline. Out: an `Application`: elements are what a call gives, results are what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu_tensorflow.engine import Step, compile_step
from openipu_tensorflow.graphs.formats import to_torch
from openipu_tensorflow.ipu.applications.application import Application, Arithmetic, Signature, TensorInfo
from openipu_tensorflow.ipu.clusters.preparing import Prepared
from openipu_tensorflow.ipu.clusters.programs import arrange
from openipu_tensorflow.ipu.clusters.tracing import LoopItem
from openipu_tensorflow.ipu.configuration.devices import find_device
from openipu_tensorflow.ipu.configuration.run_options import build_run_options, choose_machine


@dataclass(frozen=True, eq=False)
class Form:
    """What an application is made of."""

    graph: Any
    name: str
    streams: Sequence[Any]
    handed: Sequence[Any]
    results: Sequence[Any]
    fixed: Mapping[str, Any]  # a tensor that does not change -> where its value is from
    arguments: Sequence[Any]
    pipeline: Any = None


def find_form(prepared: Prepared, arguments: Sequence[Any], name: str) -> Form:
    """What goes in and out; an error for functions that are more than one program."""
    body, sources = prepared, {}
    if prepared.items:
        (item, *others) = prepared.items
        if others or not isinstance(item, LoopItem) or item.condition is not None or any(_works(prepared)):
            raise NotImplementedError(
                f"{name!r} cannot be an application: it is to be one computation, or one loop or pipeline of a known "
                "number of rounds around it, and nothing beside."
            )
        body = prepared.inner[id(item)][0]
        for entry, left, first in zip(body.level.arguments, body.level.outputs, item.initial, strict=True):
            if entry is not left:
                raise NotImplementedError(
                    f"{name!r} cannot be an application: its loop carries {entry.name} from round to round. Hand it "
                    "out by an outfeed, or keep it in a variable."
                )
            sources[entry.name] = first
    if body.items:
        raise NotImplementedError(f"{name!r} cannot be an application: it has loops in loops, or trains.")
    enqueues = [entry for stage in body.stages for entry in stage.enqueues]
    fixed = {tensor.name: sources.get(tensor.name, tensor) for tensor in [*body.captures, *body.level.arguments]}
    return Form(
        graph=prepared.graph,
        name=name,
        streams=[tensor for _, made in body.level.infeeds for tensor in made],
        handed=[tensor for entry in enqueues for tensor in entry.tensors],
        results=list(body.level.outputs) if body is prepared else [],
        fixed=fixed,
        arguments=list(arguments),
        pipeline=body.level.marks.get("pipeline"),
    )


def _works(prepared: Prepared) -> list[Any]:
    return [op for stage in prepared.stages for op in stage.ops if op.type not in ("Const", "Identity", "NoOp")]


def build_application(form: Form, read: Callable[[Sequence[str]], Mapping[str, Any]], freeze: bool) -> Application:
    """`read`: values of variables by name, if they are to be part of the file."""
    device = find_device("/device:IPU:0")
    tensors = {tensor.name: tensor for tensor in _list_tensors(form.graph, form.fixed)}
    options = build_run_options(device, arrange(pipeline=form.pipeline))
    step = compile_step(
        form.graph,
        inputs=form.streams,
        outputs=[*form.handed, *form.results],
        fixed=list(tensors.values()),
        options=options,
        name=form.name,
        system=choose_machine(device.config),
    )
    inputs, constants = _name_inputs(form, step)
    variables = [name for name in step.variables if name not in form.fixed]
    described = [
        TensorInfo(name, list(step.variables[name].shape), step.variables[name].dtype.name) for name in variables
    ]
    values = {name: to_torch(value) for name, value in constants.items()}
    if freeze:
        values |= {name: to_torch(value) for name, value in read(variables).items()}
    frozen = [_describe(tensors[name], name) for name in constants] + (described if freeze else [])
    signature = Signature(
        [*inputs, *([] if freeze else described)],
        [_describe(tensor) for tensor in form.streams],
        [_describe(tensor) for tensor in form.results],
        [_describe(tensor) for tensor in form.handed],
    )
    arithmetic = Arithmetic(**{name: getattr(options, name) for name in Arithmetic.__struct_fields__})
    return Application(form.name, signature, step.captured.program, frozen, arithmetic, _copy(values))


def _copy(values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in values.items()}


def _list_tensors(graph: Any, fixed: Mapping[str, Any]) -> list[Any]:
    return [graph.get_tensor_by_name(name) for name in fixed]


def _name_inputs(form: Form, step: Step) -> tuple[list[TensorInfo], dict[str, Any]]:
    """Arguments in their order, then what else the function takes from outside; and values that are known."""
    from tensorflow.python.framework import tensor_util

    order = {tensor.name: place for place, tensor in enumerate(form.arguments)}
    used = [name for name in form.fixed if name in step.variables]
    constants = {name: tensor_util.constant_value(form.fixed[name]) for name in used}
    known = {name: value for name, value in constants.items() if value is not None}
    given = sorted(
        (name for name in used if name not in known), key=lambda name: order.get(form.fixed[name].name, len(order))
    )
    return [_describe(form.graph.get_tensor_by_name(name), name) for name in given], known


def _describe(tensor: Any, name: str = "") -> TensorInfo:
    return TensorInfo(name or tensor.name, tensor.shape.as_list(), tensor.dtype.base_dtype.name)
