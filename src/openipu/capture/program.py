"""Captures a model: the user's forward runs exactly once, and a `Program` comes out.

In: a model (weights may be on the meta device), one micro-batch, an optimizer's structure. Out: a `Program`. Parameters
are never read; the model is left as it was, whatever forward raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx, nn

from openipu.capture.active import ActiveCapture, is_capturing, set_active
from openipu.capture.constructs.losses import choose_loss, describe_untrained
from openipu.capture.constructs.streams import check_streams
from openipu.capture.functional.functionalise import finish_graph, make_functional
from openipu.capture.model.arguments import ArgumentTwins, make_argument_twins
from openipu.capture.model.results import Result, Trace, collect_results
from openipu.capture.model.traced import Traced, write_held
from openipu.capture.model.twins import ModelTwins
from openipu.capture.optimizer.structure import LOSS_SCALING, list_hyper_parameters
from openipu.capture.optimizer.update_graph import CapturedUpdate, TrainedParameter, capture_update
from openipu.capture.record.modes import IpuMode
from openipu.capture.record.notes import NoteKeeper
from openipu.capture.record.recorder import META, Recorder, SavedValue
from openipu.capture.record.torch_private import (
    keep_saved_values,
    pose_as_compiling,
    provide_ipu_device_module,
    relax_checkpoint_checks,
    run_backward,
    run_compiled_models_eagerly,
    skip_distribution_checks,
    skip_mask_detection,
)
from openipu.errors import CaptureError, LossError, OptionError
from openipu.graph import (
    NOTE,
    Graph,
    GraphInput,
    GraphOutput,
    InputKind,
    Note,
    OptimizerSpec,
    OutputKind,
    Phase,
    Program,
    note_of,
)
from openipu.graph.collection import pause_collection

_WRITTEN_KINDS = {
    InputKind.BUFFER: OutputKind.BUFFER,
    InputKind.INPUT: OutputKind.INPUT,
    InputKind.PARAMETER: OutputKind.PARAMETER,
}
_capture_lock = threading.RLock()
_own = threading.local()  # captures of this thread that are not over


def capture_program(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    optimizer: OptimizerSpec | None,
    name: str,
    like: Program | None = None,
) -> Program:
    """Run forward once on meta tensors that claim to live on "ipu:0", and record what it does.

    `like`: a program of this model and optimizer for another batch. Its update is taken over if it is of the same
    gradients: it knows no batch.
    """
    if is_capturing() or getattr(_own, "capturing", False):  # a host function may run in between
        raise CaptureError(
            "A model cannot be compiled inside the forward of another: call it as a plain module there, or compile it "
            "before."
        )
    root = _find_module(model)
    _check_training(root, training, optimizer)
    # The model and some flags of torch are changed for the while: one capture at a time, whatever thread it is in.
    # Tensors made in inference mode could not be differentiated.
    with hold_models(), pause_collection(), torch.inference_mode(False):
        _own.capturing = True
        try:
            return _capture(model, root, tuple(args), kwargs, optimizer if training else None, name, like)
        finally:
            _own.capturing = False


@contextmanager
def hold_models() -> Iterator[None]:
    """While this lasts, no other thread captures: every model holds its own tensors.

    Take it before any lock that forward might ask for, such as the one of an executor whose weights forward reads.
    """
    with _capture_lock:
        yield


def _capture(
    model: Callable[..., Any],
    root: nn.Module | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    optimizer: OptimizerSpec | None,
    name: str,
    like: Program | None,
) -> Program:
    twins = ModelTwins(root)
    _check_spec(optimizer, twins)
    arguments = make_argument_twins(model, args, kwargs)
    notes = NoteKeeper(root)
    recorder = Recorder(notes.make_note)
    inputs = _add_inputs(recorder, twins, arguments)
    scale = _add_loss_scale(recorder, inputs) if optimizer is not None and optimizer.loss_scaling else None
    capture = ActiveCapture(recorder, notes, training=optimizer is not None, twins=twins)
    trace = _trace(model, arguments, twins, capture, optimizer is not None, scale)
    twins.check_unchanged()
    results, tree = collect_results(trace, capture)
    check_streams(capture, inputs, results)
    micro = _build_graph(recorder, inputs, results)
    update = None if optimizer is None or like is None else _take_update(like, micro)
    if optimizer is not None and update is None:
        update = _capture_update(optimizer, twins, trace, capture.carried)
    return Program(
        name=name,
        micro=micro,
        update=None if update is None else update.graph,
        constants=dict(recorder.constants),
        output_tree=tree,
        hyper_parameters=() if optimizer is None else list_hyper_parameters(optimizer),
        state_slots=() if update is None else update.state_slots,
        unused_parameters=tuple(key for key, gradient in trace.gradients.items() if gradient is None),
        warnings=tuple(capture.warnings),
    )


def _find_module(model: Callable[..., Any]) -> nn.Module | None:
    """The module whose parameters are captured: the model, or the one whose method it is."""
    if isinstance(model, nn.Module):
        return model
    owner = getattr(model, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def _check_training(root: nn.Module | None, training: bool, optimizer: OptimizerSpec | None) -> None:
    if not training:
        return
    if root is None:
        raise CaptureError("Only a torch.nn.Module can be trained: a plain function has no parameters. Wrap it in one.")
    if optimizer is None:
        raise OptionError("Training needs an optimizer: describe one with describe_optimizer(torch.optim.SGD(...)).")


def _check_spec(optimizer: OptimizerSpec | None, twins: ModelTwins) -> None:
    if optimizer is None:
        return
    unknown = [name for group in optimizer.groups for name in group.parameters if name not in twins.parameters]
    if unknown:
        raise OptionError(
            f"The optimizer updates {', '.join(unknown[:5])}, which the model does not have. "
            "Describe the optimizer with the names of model.named_parameters()."
        )


def _add_inputs(recorder: Recorder, twins: ModelTwins, arguments: ArgumentTwins) -> list[GraphInput]:
    """Placeholders for all parameters, buffers and inputs, used or not."""
    found: list[GraphInput] = []

    def add(kind: InputKind, name: str, tensor: torch.Tensor, index: int = -1) -> None:
        readable = "".join(letter if letter.isalnum() else "_" for letter in name)
        node = recorder.add_placeholder(f"{kind.value}_{readable}", tensor)
        owner = "" if kind is InputKind.INPUT else name.rpartition(".")[0]
        node.meta[NOTE] = Note(module=owner)
        found.append(GraphInput(node.name, kind, name, tuple(tensor.shape), tensor.dtype, index))

    for name, parameter in twins.parameters.items():
        add(InputKind.PARAMETER, name, parameter)
    for name, buffer in twins.buffers.items():
        add(InputKind.BUFFER, name, buffer)
    for entry in arguments.inputs:
        add(InputKind.INPUT, entry.name, entry.twin, entry.index)
    return found


def _add_loss_scale(recorder: Recorder, inputs: list[GraphInput]) -> torch.Tensor:
    """A placeholder for what the loss is multiplied by before backward."""
    scale = torch.empty((), dtype=torch.float32, device=META)
    node = recorder.add_placeholder(LOSS_SCALING.key, scale)
    node.meta[NOTE] = Note(Phase.BACKWARD)
    inputs.append(GraphInput(node.name, InputKind.HYPER, LOSS_SCALING.key, (), scale.dtype))
    return scale


def _trace(
    model: Callable[..., Any],
    arguments: ArgumentTwins,
    twins: ModelTwins,
    capture: ActiveCapture,
    training: bool,
    scale: torch.Tensor | None,
) -> Trace:
    """Forward, the choice of the loss, and backward, with everything put back afterwards."""
    with ExitStack() as stack:
        stack.enter_context(twins)
        for hook in (
            nn.modules.module.register_module_forward_pre_hook(capture.notes.enter_module),
            nn.modules.module.register_module_forward_hook(capture.notes.leave_module, always_call=True),
        ):
            stack.callback(hook.remove)
        stack.enter_context(pose_as_compiling())
        stack.enter_context(relax_checkpoint_checks())
        stack.enter_context(provide_ipu_device_module())
        stack.enter_context(skip_distribution_checks())
        stack.enter_context(skip_mask_detection())
        stack.enter_context(run_compiled_models_eagerly())
        stack.enter_context(torch.set_grad_enabled(training))
        stack.callback(set_active, None)
        set_active(capture)
        stack.enter_context(capture.recorder)
        stack.enter_context(IpuMode(capture, twins.by_id))
        if training:
            stack.enter_context(keep_saved_values(lambda tensor: capture.recorder.save(tensor), _read_saved))
        output = model(*arguments.args, **arguments.kwargs)
        traced = output if isinstance(output, Traced) else Traced(outputs={})
        write_held(traced, twins)
        leaves = {name: twin for name, twin in twins.parameters.items() if twin.requires_grad} if training else {}
        loss = _find_loss(traced, capture) if training else None
        gradients = _differentiate(loss, [*leaves.values(), *traced.watched.values()], capture, scale)
        if output is traced:
            output = traced.join_gradients(dict(zip(traced.watched, gradients[len(leaves) :], strict=True)))
        return Trace(output, loss, dict(zip(leaves, gradients, strict=False)))


def _find_loss(traced: Traced, capture: ActiveCapture) -> torch.Tensor:
    return traced.loss if traced.loss is not None else choose_loss(capture.losses, capture.recorder)


def _differentiate(
    loss: torch.Tensor | None, targets: Sequence[torch.Tensor], capture: ActiveCapture, scale: torch.Tensor | None
) -> Sequence[torch.Tensor | None]:
    """The gradients of some tensors, None where none arrives."""
    if loss is None:
        return [None] * len(targets)
    if not loss.requires_grad or not targets:
        capture.warn(describe_untrained(loss, capture.recorder))
        return [None] * len(targets)
    capture.notes.start_backward(note_of(capture.recorder.node_of(loss)))
    seed = torch.ones_like(loss)
    if scale is not None:
        seed = seed * scale.to(loss.dtype)
    reached = [target for target in targets if target.requires_grad]
    found = iter(run_backward([loss], [seed], reached))
    return [next(found) if target.requires_grad else None for target in targets]


def _read_saved(saved: SavedValue) -> torch.Tensor:
    """What backward reads: where forward wrote over it in place, the value from before."""
    return saved.tensor if saved.held is None else saved.held


def _build_graph(recorder: Recorder, inputs: list[GraphInput], results: list[Result]) -> Graph:
    """The functional micro graph with its signature; what was written in place is returned behind the rest."""
    nodes = tuple(recorder.node_of(result.tensor) for result in results)
    signature = [
        *inputs,
        *(
            GraphInput(key, InputKind.CONSTANT, key, tuple(tensor.shape), tensor.dtype)
            for key, tensor in recorder.constants.items()
        ),
    ]
    functional = make_functional(recorder.graph, nodes)
    outputs = [
        GraphOutput(entry.kind, entry.name, tuple(entry.tensor.shape), entry.tensor.dtype, entry.index)
        for entry in results
    ]
    returned: list[fx.Node] = list(functional.results)
    for entry in signature:
        kind = _WRITTEN_KINDS.get(entry.kind)
        value = functional.written.get(entry.node)
        if kind is not None and value is not None:
            outputs.append(GraphOutput(kind, entry.name, entry.shape, entry.dtype))
            returned.append(value)
    return Graph(finish_graph(functional, tuple(returned)), tuple(signature), tuple(outputs))


def _take_update(like: Program, micro: Graph) -> CapturedUpdate | None:
    """The update of another program, if it is of the same gradients."""
    same = all(
        like.micro.outputs_of(kind) == micro.outputs_of(kind) for kind in (OutputKind.GRADIENT, OutputKind.CARRIED)
    )
    return CapturedUpdate(like.update, like.state_slots) if same and like.update is not None else None


def _capture_update(
    optimizer: OptimizerSpec, twins: ModelTwins, trace: Trace, carried: Mapping[str, torch.Tensor]
) -> CapturedUpdate:
    trained = {
        name: TrainedParameter(name, tuple(twin.shape), twin.dtype)
        for name, twin in twins.parameters.items()
        if trace.gradients.get(name) is not None
    }
    if trained and not any(name in trained for group in optimizer.groups for name in group.parameters):
        raise LossError(
            "No parameter that the optimizer holds gets a gradient from the loss. "
            "Check that the optimizer was made from this model's parameters, and that they take part in forward."
        )
    both = [name for group in optimizer.groups for name in group.parameters if name in trained and name in carried]
    if both:
        raise CaptureError(
            f"Forward moves {', '.join(both[:5])} once an update, and the optimizer trains it as well. Leave it out of "
            "the optimizer, or give it requires_grad=False: what follows other weights has no update of its own."
        )
    return capture_update(optimizer, trained)
