"""Records ATen calls on meta tensors into an FX graph, below autograd: forward and backward alike.

In: every dispatched op while the mode is on. Out: `graph`, with `meta["val"]` and `meta["note"]` on each node, and
`constants`, the host tensors that the user moved to the IPU. Ops on host tensors alone run at once, on the host.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from openipu.capture import failures
from openipu.capture.functional.forms import BATCH_NORM
from openipu.capture.functional.held_values import HOLD, find_dense_strides
from openipu.capture.lines import find_user_line, quote_line
from openipu.capture.record.formats import find_device_dtype, narrow_arguments
from openipu.capture.record.plain_results import make_plain_result
from openipu.capture.record.pointwise import make_pointwise_result
from openipu.capture.record.schemas import find_written, list_outputs
from openipu.capture.record.substitutes import make_ctc_results
from openipu.capture.record.torch_private import TorchDispatchMode, bypass_function_modes, pause_recording, storage_key
from openipu.capture.record.turned_results import make_turned_result
from openipu.errors import InternalError
from openipu.graph import NOTE, Note

aten = torch.ops.aten
META = torch.device("meta")
CPU = torch.device("cpu")
HOST_TENSORS_VARIABLE = "OPENIPU_HOST_TENSORS"

# Ops that only exist to bring a value to the host.
_HOST_READS = {
    aten._local_scalar_dense.default: "item()",
    aten.equal.default: "torch.equal()",
    aten.is_nonzero.default: "bool()",
}


_MOST_ZEROS = 1 << 22  # elements that may be made to hear what eager PyTorch says
_CTC = (aten._ctc_loss.default, aten._ctc_loss.Tensor)


@dataclass(eq=False, slots=True)
class SavedValue:
    """A tensor that autograd keeps for backward."""

    tensor: torch.Tensor
    held: torch.Tensor | None = None  # its value before the first write that came later


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """One recording."""

    def __init__(self, make_note: Callable[[], Note]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = fx.Graph()
        self.constants: dict[str, torch.Tensor] = {}  # by placeholder
        self._make_note = make_note
        self._nodes: dict[int, fx.Node] = {}  # by id of the tensor
        self._kept: list[torch.Tensor] = []  # keeps ids and storages from being used again; meta tensors hold no memory
        self._by_storage: dict[int, list[tuple[torch.Tensor, fx.Node]]] = {}
        self._scalars: dict[tuple[int, int], torch.Tensor] = {}  # by id and version
        self._last_placeholder: fx.Node | None = None
        self._saved: dict[int, list[SavedValue]] = {}  # by storage: what no write has reached yet
        self._takes_host_tensors = os.environ.get(HOST_TENSORS_VARIABLE) == "constants"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nobody compiles a recording with dynamo; without this, torch wraps each dispatch in a guard against it."""
        return False

    def add_placeholder(self, name: str, tensor: torch.Tensor) -> fx.Node:
        """A graph input that stands for `tensor`."""
        with bypass_function_modes():
            first = next(iter(self.graph.nodes), None)
            if self._last_placeholder is not None:
                with self.graph.inserting_after(self._last_placeholder):
                    node = self.graph.placeholder(name)
            elif first is not None:
                with self.graph.inserting_before(first):
                    node = self.graph.placeholder(name)
            else:
                node = self.graph.placeholder(name)
            self._last_placeholder = node
            self._bind(tensor, node)
        return node

    def lift_constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host tensor becomes a constant of the program, as it is now."""
        with bypass_function_modes(), pause_recording():
            held = tensor.detach().to(find_device_dtype(tensor.dtype), copy=True)
            twin = torch.empty_strided(held.shape, held.stride(), dtype=held.dtype, device=META)
            node = self.add_placeholder(f"constant_{len(self.constants)}", twin)
            self.constants[node.name] = held
        return twin

    def lift_shared(self, tensor: torch.Tensor) -> torch.Tensor:
        """As `lift_constant`, once for each value: the user cannot reach the twin, so it can be shared."""
        key = (id(tensor), 0 if tensor.is_inference() else tensor._version)
        if key not in self._scalars:
            self._scalars[key] = self.lift_constant(tensor)
            self._kept.append(tensor)
        return self._scalars[key]

    def knows(self, tensor: torch.Tensor) -> bool:
        """Is this a tensor of this recording?"""
        return id(tensor) in self._nodes

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        """The node that made the tensor."""
        node = self._nodes.get(id(tensor))
        if node is None:
            node = self._find_by_geometry(tensor)
        if node is None:
            raise InternalError(
                failures.locate(
                    f"Capture lost track of a tensor of shape {list(tensor.shape)} on {tensor.device}. "
                    "This is a defect of openipu: please report it with the line below. "
                    "A tensor kept from an earlier call of the model gives the same error: clear such caches first."
                )
            )
        return node

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with bypass_function_modes():
            return self._dispatch(func, args, dict(kwargs or {}))

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = _collect_tensors(args, kwargs)
        device = kwargs.get("device")
        reads_ipu = any(tensor.is_meta for tensor in tensors)
        if not reads_ipu and not (device is not None and device.type == "meta"):
            return func(*args, **kwargs)
        _check_static(func, args, kwargs, device, reads_ipu)
        kwargs = narrow_arguments(kwargs)
        if func is aten._to_copy.default and not reads_ipu:
            return self.lift_constant(func(*args, **{**kwargs, "device": CPU}))
        args, kwargs = self._replace_host_tensors(func, args, kwargs, tensors)
        self._resize_outputs(func, args, kwargs)
        func, args = _show_batch_norm_mutation(func, args)
        if func is aten.resize_.default and math.prod(args[1]) > args[0].numel():
            return self._grow(args[0], list(args[1]), kept=args[0].numel())
        if torch.Tag.inplace_view in func.tags:
            self._keep_geometry(args[0])
        elif func._schema.is_mutable and func is not BATCH_NORM:  # whose backward reads no statistics that it wrote
            self._hold_saved(find_written(func, args, kwargs))
        return self._record(func, args, kwargs, _run_on_meta(func, args, kwargs))

    def _replace_host_tensors(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[torch.Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Scalars of the host and the source of a copy become constants; anything larger is the user's mistake, unless
        the program was written for a PopTorch that took it."""
        strays = {id(tensor): tensor for tensor in tensors if not tensor.is_meta}
        if not strays:
            return args, kwargs
        written = {id(tensor) for tensor in find_written(func, args, kwargs)}
        lifted: dict[int, torch.Tensor] = {}
        for key, tensor in strays.items():
            if key not in written and func is aten.copy_.default:
                lifted[key] = self.lift_constant(tensor)
            elif key not in written and (tensor.dim() == 0 or self._takes_host_tensors):
                lifted[key] = self.lift_shared(tensor)
            else:
                raise failures.refuse_stray_tensor(tensor, func)
        replaced = pytree.tree_map_only(torch.Tensor, lambda tensor: lifted.get(id(tensor), tensor), (args, kwargs))
        return replaced[0], replaced[1]

    def _resize_outputs(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`out=` of another shape is resized, as eager PyTorch does, by an op of its own."""
        given = {name: kwargs[name] for name in list_outputs(func) if isinstance(kwargs.get(name), torch.Tensor)}
        if not given:
            return
        empty = {name: torch.empty(0, dtype=tensor.dtype, device=META) for name, tensor in given.items()}
        _run_on_meta(func, args, {**kwargs, **empty})
        for name, tensor in given.items():
            shape = list(empty[name].shape)
            if tensor.numel() < empty[name].numel():
                self._grow(tensor, shape, kept=0)
            elif list(tensor.shape) != shape:
                self._dispatch(aten.resize_.default, (tensor, shape), {})

    def _grow(self, tensor: torch.Tensor, shape: list[int], kept: int) -> torch.Tensor:
        """More memory for a tensor, which keeps its first elements. Nobody else may know the memory that it leaves."""
        known = self._by_storage.get(storage_key(tensor), ())
        shared = any(other is not tensor for other, _ in known) or any(node.op == "placeholder" for _, node in known)
        if tensor.numel() > 0 and (shared or (kept > 0 and not tensor.is_contiguous())):
            raise failures.refuse_growth(list(tensor.shape), shape)
        self._keep_geometry(tensor)
        like = {"dtype": tensor.dtype, "device": META}
        if kept > 0:
            kept_part = self._dispatch(aten.view.default, (tensor, [kept]), {})
            rest = self._dispatch(aten.zeros.default, ([math.prod(shape) - kept],), like)
            grown = self._dispatch(aten.cat.default, ([kept_part, rest],), {})
            grown = self._dispatch(aten.view.default, (grown, shape), {})
        else:
            grown = self._dispatch(aten.zeros.default, (shape,), like)
        with pause_recording(), torch.no_grad():
            tensor.set_(grown)
        self._bind(tensor, self.node_of(grown))
        return tensor

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        node = self.graph.call_function(
            func,
            tuple(self._argument(argument) for argument in args),
            {name: self._argument(argument) for name, argument in kwargs.items()},
        )
        note = self._make_note()
        node.meta[NOTE] = note
        if isinstance(result, torch.Tensor):
            self._bind(result, node)
        elif isinstance(result, list | tuple):
            node.meta["val"] = result
            for index, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    getter = self.graph.call_function(operator.getitem, (node, index))
                    getter.meta[NOTE] = note
                    self._bind(item, getter)
        return result

    def _bind(self, tensor: torch.Tensor, node: fx.Node) -> None:
        self._nodes[id(tensor)] = node
        self._kept.append(tensor)
        self._by_storage.setdefault(storage_key(tensor), []).append((tensor, node))
        node.meta["val"] = tensor

    def save(self, tensor: torch.Tensor) -> SavedValue:
        """For backward: the value that the tensor has now, whatever is written to its memory later."""
        with bypass_function_modes():
            saved = SavedValue(tensor)
            self._saved.setdefault(storage_key(tensor), []).append(saved)
            self._kept.append(tensor)
        return saved

    def _hold_saved(self, written: list[torch.Tensor]) -> None:
        """Memory is about to be written: record what backward will read of it."""
        for tensor in written:
            for saved in self._saved.pop(storage_key(tensor), ()):
                strides = list(find_dense_strides(saved.tensor))
                saved.held = self._record(HOLD, (saved.tensor, strides), {}, HOLD(saved.tensor, strides))

    def _keep_geometry(self, tensor: torch.Tensor) -> None:
        """The tensor is about to show its memory otherwise: what was recorded before goes on showing it as it did."""
        with pause_recording():
            shown = tensor.detach()
        for _, node in self._by_storage.get(storage_key(tensor), ()):
            if node.meta["val"] is tensor:
                node.meta["val"] = shown
                self._kept.append(shown)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.node_of(value)
        if isinstance(value, torch.Size):
            return list(value)
        if isinstance(value, list | tuple):
            return type(value)(self._argument(item) for item in value)
        return value

    def _find_by_geometry(self, tensor: torch.Tensor) -> fx.Node | None:
        """`nn.Parameter(t)` and the like make a new Python tensor over known memory without any op."""
        for known, _ in reversed(self._by_storage.get(storage_key(tensor), ())):
            same_place = known.stride() == tensor.stride() and known.storage_offset() == tensor.storage_offset()
            if same_place and known.shape == tensor.shape and known.dtype == tensor.dtype:
                node = self._nodes[id(known)]
                self._nodes[id(tensor)] = node
                self._kept.append(tensor)
                return node
        return None


def _collect_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(item for item in value if isinstance(item, torch.Tensor))
    return found


def _check_static(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device | None, reads_ipu: bool
) -> None:
    """A static graph has no values on the host and no shapes that depend on data."""
    if func in _HOST_READS:
        raise failures.refuse_host_read(_HOST_READS[func])
    if func.overloadpacket is aten.set_:
        raise failures.refuse_set_memory()
    if device is not None and device.type != "meta":
        raise failures.refuse_move_to_host(f'.to("{device}")')
    if func is aten.copy_.default and not args[0].is_meta:
        raise failures.refuse_move_to_host("copy_() into a CPU tensor")
    if torch.Tag.dynamic_output_shape in func.tags and reads_ipu:
        # Indexing carries the tag, yet only masks make its shape depend on data.
        masks = (torch.bool, torch.uint8)
        is_index = func in (aten.index.Tensor, aten._unsafe_index.Tensor)
        if func in _CTC and make_ctc_results(func, args) is not None:
            return
        if not is_index or any(index is not None and index.dtype in masks for index in args[1]):
            raise failures.refuse_dynamic_shape(func)


def _show_batch_norm_mutation(func: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The schema of `native_batch_norm` hides that it updates the running statistics: use those that say so."""
    if func is not aten.native_batch_norm.default:
        return func, args
    tensor, weight, bias, mean, variance, training, momentum, epsilon = args
    if not training:
        return (
            aten._native_batch_norm_legit_no_training.default,
            (tensor, weight, bias, mean, variance, momentum, epsilon),
        )
    if mean is None:
        return aten._native_batch_norm_legit.no_stats, (tensor, weight, bias, True, momentum, epsilon)
    return aten._native_batch_norm_legit.default, args


def _run_on_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Shapes of the results. An op without a meta kernel is run once on zeros of the host."""
    obvious = make_pointwise_result(func, args, kwargs)
    if obvious is None:
        obvious = make_plain_result(func, args, kwargs)
    if obvious is None:
        obvious = make_turned_result(func, args, kwargs)
    if obvious is not None:
        return obvious
    if func in _CTC:
        return make_ctc_results(func, args)
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        if func._schema.is_mutable:
            raise failures.refuse_unsupported(func) from error
    except (RuntimeError, IndexError, ValueError) as error:
        raise _explain_failure(func, args, kwargs, error) from None
    on_host = {**kwargs, "device": CPU} if kwargs.get("device") is not None else kwargs
    try:
        result = _run_on_zeros(func, args, on_host)
    except NotImplementedError as error:
        raise failures.refuse_unsupported(func) from error
    return pytree.tree_map_only(
        torch.Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META), result
    )


def _explain_failure(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Exception:
    """The user's own mistake, in the words that eager PyTorch has for it, with the user's line as a note."""
    elements = sum(tensor.numel() for tensor in _collect_tensors(args, kwargs))
    if elements <= _MOST_ZEROS:
        on_host = {**kwargs, "device": CPU} if kwargs.get("device") is not None else kwargs
        try:
            _run_on_zeros(func, args, on_host)
        except (RuntimeError, IndexError, ValueError) as eager:
            error = eager
    line = find_user_line()
    if line is not None:
        error.add_note(quote_line(line).strip())
    return error


def _run_on_zeros(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The op on the host. Some ops have no half-precision kernel there: those are run in float32."""

    def run(half: torch.dtype) -> Any:
        def make(tensor: torch.Tensor) -> torch.Tensor:
            return torch.zeros(tensor.shape, dtype=half if tensor.dtype is torch.float16 else tensor.dtype)

        zero_args, zero_kwargs = pytree.tree_map_only(torch.Tensor, make, (args, kwargs))
        return func(*zero_args, **zero_kwargs)

    try:
        return run(torch.float16)
    except NotImplementedError as error:
        if "Half" not in str(error):
            raise
    wide = run(torch.float32)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.half() if t.dtype is torch.float32 else t, wide)
