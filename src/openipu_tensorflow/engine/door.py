"""The one door: a TensorFlow graph becomes a compiled step.

In: a graph (`tf.Graph`, or the `FuncGraph` of a `tf.function`), tensors that are given to it for each micro-batch,
tensors and ops that are wanted, and `RunOptions`. Out: a `Step`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from openipu.explore import make_advisor
from openipu.graph import Program, RunOptions
from openipu.machine import System
from openipu.session import FrontEnd, compile_program
from openipu.translate.foreign import ForeignGraph
from openipu.translate.tensorflow.ops.collectives import MEETING
from openipu.translate.tensorflow.steps import StepProgram, capture_step
from openipu_tensorflow.engine.describing import DescribedStep, describe_step
from openipu_tensorflow.engine.host_ops import make_table
from openipu_tensorflow.engine.step import Port, Step, StepVariable
from openipu_tensorflow.graphs.reading import find_type, wants_half_partials


def compile_step(
    graph: Any,
    *,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    targets: Sequence[Any] = (),
    carried: Sequence[tuple[Any, Any]] = (),
    fixed: Sequence[Any] = (),
    gradients: Mapping[str, Any] | None = None,
    cuts: bool = True,
    options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
    name: str = "",
    system: System | str | None = None,
    reserve: Callable[[Program], None] | None = None,
    profile_directory: Path | None = None,
    cache_directory: Path | None = None,
    show_progress: bool | Callable[[int], None] = False,
    words: str = "tensorflow",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Step:
    """Compile what makes `outputs`, and what `targets` do to variables.

    graph: whose tensors and ops the others are. A captured `tf.function` has its own: `concrete_function.graph`.
    inputs: given for each micro-batch; any tensors of the graph, which is cut there.
    outputs: returned for each micro-batch.
    targets: ops that run for their effect, such as a train op.
    carried: pairs (an input, what it is in the next micro-batch): their first values are given to `run`, the last ones
        come back from it.
    fixed: tensors with one value for all micro-batches, which `Step.load` gets by their names, like variables.
    gradients: name of a variable -> the tensor that is its gradient, where neither marks (`mark_gradients`) nor an
        update of TensorFlow 1 says so. A step with gradients is cut there into what runs for each micro-batch and what
        runs once for an update, as far as nothing else connects the two (`Step.entangled`).
    cuts: False: not there either, so that each replica updates variables of its own, which part unless gradients are
        exchanged; those of replica 0 come back.
    options: `gradient_accumulation` and `replicas` above 1 need a step that can be cut, or one without gradients.
        `training` is set here, and `half_partials` where a scope of the graph asks for them.
    reserve: takes IPUs for the program, and raises where there are not enough.
    words: in whose words advice is given for a program that does not fit.
    shapes: of inputs and of what is fixed, by name, where the graph leaves sizes open.
    """
    title = name or getattr(graph, "name", "") or "graph"
    step = describe_step(
        graph,
        inputs=inputs,
        outputs=outputs,
        targets=targets,
        carried=carried,
        fixed=fixed,
        gradients=gradients,
        batches=options.micro_batches,
        name=title,
        shapes=shapes,
    )
    _check_groups(step.graph, options.replicas)
    shared = options.gradient_accumulation * options.replicas * options.instances > 1
    captured = capture_step(step, name=title, table=make_table(), must_cut=shared and options.training, cuts=cuts)
    options = dataclasses.replace(
        options,
        training=captured.program.training,
        broadcast_buffers=False,
        half_partials=options.half_partials or wants_half_partials(step.graph),
    )
    compiled = compile_program(
        captured.program,
        options=options,
        system=system,
        profile_directory=profile_directory,
        cache_directory=cache_directory,
        show_progress=show_progress,
        front_end=FrontEnd(reserve=reserve, advise=make_advisor(words)),
    )
    return Step(
        compiled,
        captured,
        _describe_variables(captured, step),
        [_make_port(tensor) for tensor in inputs],
        [_make_port(tensor) for tensor in outputs],
        [_make_port(entry) for entry, _ in carried],
        {**step.variables, **{entry.name: find_type(entry) for entry, _ in carried}},
    )


def _check_groups(graph: ForeignGraph, replicas: int) -> None:
    """Raise where replicas cannot be shared out to the groups of an exchange."""
    for node in graph.nodes:
        group = node.attributes.get("group") or 1
        if node.op in MEETING and replicas % group:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"The replica group size (got {group}) does not evenly divide the total number of replicas (got "
                f"{replicas}): {node.title}. Choose a divisor of it as replica_group_size.",
            )
        for body in node.bodies:
            _check_groups(body, replicas)


def _make_port(tensor: Any) -> Port:
    return Port(tensor.name, tensor.dtype, tuple(tensor.shape.as_list() or ()) if tensor.shape.rank is not None else ())


def _describe_variables(captured: StepProgram, step: DescribedStep) -> dict[str, StepVariable]:
    update = captured.program.update
    trained = set() if update is None else {entry.name for entry in update.outputs}
    held = dict.fromkeys([*captured.parameters, *captured.buffers, *captured.states])
    return {
        name: StepVariable(
            name,
            step.dtypes[name],
            step.variables[name].fixed_shape or (),
            name in trained,
            name in captured.written,
        )
        for name in held
        if name in step.dtypes
    }
