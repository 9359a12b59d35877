"""Anything -> Program: capture runs the user's forward once and records it, with its gradients and its update."""

from openipu.capture.active import (
    find_active,
    is_capturing,
    is_capturing_training,
    mark_loss,
    mark_tensor,
    restore_block,
    set_block,
)
from openipu.capture.constructs.calls import call_in_graph
from openipu.capture.constructs.carried import carry_parameter
from openipu.capture.constructs.custom_ops import (
    CustomOp,
    call_custom_op,
    find_custom_op,
    infer_custom_op,
    register_custom_op,
)
from openipu.capture.constructs.host_calls import call_host
from openipu.capture.constructs.scopes import attach_attributes, group_convolutions, pop_name_scope, push_name_scope
from openipu.capture.constructs.streams import mark_stream
from openipu.capture.constructs.subgraphs import capture_branches, capture_loop
from openipu.capture.failures import DynamicShapeError
from openipu.capture.hosting import is_on_ipu, lift, on_host
from openipu.capture.lines import (
    find_user_line,
    find_written_line,
    keep_user_frames,
    quote_line,
    register_internal_directory,
)
from openipu.capture.model.traced import Traced
from openipu.capture.model.twins import list_tensors
from openipu.capture.optimizer.structure import (
    compute_hyper_parameters,
    describe_groups,
    describe_optimizer,
    find_kind,
    list_hyper_parameters,
    list_members,
    read_hyper_parameters,
)
from openipu.capture.origins import at_origin
from openipu.capture.program import capture_program, hold_models
from openipu.capture.record.notes import BlockPlace, Origin
from openipu.capture.record.plain_results import PlainResults
from openipu.capture.steps import join_step

__all__ = [
    "BlockPlace",
    "CustomOp",
    "DynamicShapeError",
    "Origin",
    "PlainResults",
    "Traced",
    "at_origin",
    "attach_attributes",
    "call_custom_op",
    "call_host",
    "call_in_graph",
    "capture_branches",
    "capture_loop",
    "capture_program",
    "carry_parameter",
    "compute_hyper_parameters",
    "describe_groups",
    "describe_optimizer",
    "find_active",
    "find_custom_op",
    "find_kind",
    "find_user_line",
    "find_written_line",
    "group_convolutions",
    "hold_models",
    "infer_custom_op",
    "is_capturing",
    "is_capturing_training",
    "is_on_ipu",
    "join_step",
    "keep_user_frames",
    "lift",
    "list_hyper_parameters",
    "list_members",
    "list_tensors",
    "mark_loss",
    "mark_stream",
    "mark_tensor",
    "on_host",
    "pop_name_scope",
    "push_name_scope",
    "quote_line",
    "read_hyper_parameters",
    "register_custom_op",
    "register_internal_directory",
    "restore_block",
    "set_block",
]
