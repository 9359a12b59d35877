"""Every torch API that capture needs and torch does not promise to keep: nothing else here may know them.

In: nothing. Out: small typed functions and context managers; when a torch release moves something, it moves here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import torch
import torch.utils.checkpoint as checkpoint
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "DynamicOutputShapeException",
    "OpOverload",
    "TorchDispatchMode",
    "bypass_function_modes",
    "keep_saved_values",
    "make_graph_module",
    "pause_recording",
    "pose_as_compiling",
    "provide_ipu_device_module",
    "read_backward_sequence",
    "read_next_sequence",
    "relax_checkpoint_checks",
    "run_backward",
    "run_compiled_models_eagerly",
    "skip_distribution_checks",
    "skip_mask_detection",
    "storage_key",
    "unwrap_compiled",
]


def bypass_function_modes() -> AbstractContextManager[None]:
    """Tensors answer for themselves: ops sent by the autograd engine arrive with the function modes still on."""
    return torch._C.DisableTorchFunction()


def pause_recording() -> AbstractContextManager[None]:
    """Inside, ops run without being dispatched to any mode."""
    return cast("AbstractContextManager[None]", _disable_current_modes())


@contextmanager
def keep_saved_values(pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> Iterator[None]:
    """Inside, what autograd saves for backward goes through `pack`, and comes back from `unpack`.

    Autograd then leaves it to these whether a saved tensor may have been written since. The transforms of `torch.func`
    refuse to run beside such hooks: around them, they come off.
    """
    graph: Any = torch.autograd.graph
    disable = graph.disable_saved_tensors_hooks
    depth = 0

    @contextmanager
    def step_aside(message: str) -> Iterator[None]:
        nonlocal depth
        if depth == 0:
            torch._C._autograd._pop_saved_tensors_default_hooks()
        depth += 1
        try:
            with disable(message):
                yield
        finally:
            depth -= 1
            if depth == 0:
                torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)

    graph.disable_saved_tensors_hooks = step_aside
    try:
        with graph.saved_tensors_hooks(pack, unpack):
            yield
    finally:
        graph.disable_saved_tensors_hooks = disable


def make_graph_module(graph: fx.Graph) -> fx.GraphModule:
    """The graph as a module whose Python code is written when somebody calls it: a program's graphs are only read."""
    module: fx.GraphModule = _LazyGraphModule(torch.nn.Module(), graph)
    return module


def read_next_sequence() -> int:
    """The number that the next autograd node of this thread will get."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def read_backward_sequence() -> int | None:
    """The number of the autograd node that is being evaluated, if any."""
    node = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


def run_backward(
    losses: Sequence[torch.Tensor], seeds: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """Gradients of `leaves`, None where none arrives.

    `torch.autograd.grad` would take the function modes off around a user's own `backward`.
    """
    found = torch.autograd.graph._engine_run_backward(
        tuple(losses), tuple(seeds), False, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False
    )
    return tuple(cast("Sequence[torch.Tensor | None]", found))


def storage_key(tensor: torch.Tensor) -> int:
    """The same number for tensors that share memory, while one of them lives."""
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def pose_as_compiling() -> Iterator[None]:
    """Libraries ask `torch.compiler.is_compiling()` to avoid branches on data: just what a static graph needs."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def skip_distribution_checks() -> Iterator[None]:
    """The argument checks of `torch.distributions` read values."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


@contextmanager
def skip_mask_detection() -> Iterator[None]:
    """`nn.Transformer` reads a mask to see whether it is the causal one: a hint for speed, which masks do without."""
    module: Any = torch.nn.modules.transformer
    before = module._detect_is_causal_mask
    module._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        module._detect_is_causal_mask = before


def unwrap_compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    """The user's own module inside `torch.compile(module)`."""
    inner = getattr(model, "_orig_mod", model)
    return inner if callable(inner) else model


@contextmanager
def run_compiled_models_eagerly() -> Iterator[None]:
    """What the user wrapped in `torch.compile` runs as plain Python. Without dynamo loaded, nothing is wrapped."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are global hooks")
        yield


@contextmanager
def relax_checkpoint_checks() -> Iterator[None]:
    """`torch.utils.checkpoint` compares devices seen above and below the function mode, which differ by design."""
    checks = checkpoint._allowed_determinism_checks_to_fns
    before = checks["default"]
    checks["default"] = checks["none"]
    try:
        yield
    finally:
        checks["default"] = before


@contextmanager
def provide_ipu_device_module() -> Iterator[None]:
    """`torch.random.fork_rng` and checkpointing look up `torch.<device type>`: there is one while capturing."""
    if hasattr(torch, "ipu"):
        yield
        return
    module: Any = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        is_initialized=lambda: False,
        _is_in_bad_fork=lambda: False,
        synchronize=lambda *args: None,
        get_rng_state=lambda *args: torch.empty(0, dtype=torch.uint8, device="cpu"),
        set_rng_state=lambda *args: None,
        get_amp_supported_dtype=lambda: [torch.float16],
    )
    torch.ipu = module  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del torch.ipu  # type: ignore[attr-defined]
