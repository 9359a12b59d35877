"""Anything -> Program: capture runs the user's forward once and records it, with its gradients and its update."""

from openipu.capture.active import (
    is_capturing,
    mark_loss,
    mark_tensor,
    restore_block,
    set_block,
)
from openipu.capture.failures import DynamicShapeError
from openipu.capture.lines import register_internal_directory
from openipu.capture.notes import BlockPlace
from openipu.capture.optimizers import describe_optimizer, list_hyper_parameters, read_hyper_parameters
from openipu.capture.program import capture_program

__all__ = [
    "BlockPlace",
    "DynamicShapeError",
    "capture_program",
    "describe_optimizer",
    "is_capturing",
    "list_hyper_parameters",
    "mark_loss",
    "mark_tensor",
    "read_hyper_parameters",
    "register_internal_directory",
    "restore_block",
    "set_block",
]
