"""What user code sees while it is captured: tensors that live on "ipu:0".

In: every torch call of forward. Out: the same call on meta tensors, or an error that names the user's line. Below
this mode nothing knows of an IPU: "ipu" is written "meta".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from openipu.capture import failures
from openipu.capture.active import ActiveCapture, mark_tensor
from openipu.capture.constructs.losses import LOSS_FUNCTIONS
from openipu.capture.constructs.recurrent import RECURRENT_FUNCTIONS, call_recurrent
from openipu.capture.record.indexing import read_item, write_item
from openipu.capture.record.mixed_precision import align_weights, widen_statistics
from openipu.capture.record.python_functions import find_open_twin
from openipu.capture.record.recorder import CPU, META
from openipu.capture.record.substitutes import (
    SPARSE_PLACES,
    ask_dense_gradient,
    check_one_hot,
    compute_in_float,
    count_bins,
)
from openipu.errors import CaptureError

IPU = torch.device("ipu:0")
_T = torch.Tensor


def _getter(name: str) -> Any:
    return getattr(_T, name).__get__


# Properties of a tensor that depend on its device: what an IPU tensor answers.
_IPU_PROPERTIES: dict[Any, Any] = {
    _getter("device"): IPU,
    _getter("is_ipu"): True,
    _getter("is_cpu"): False,
    _getter("is_meta"): False,
}


def _torch_functions(names: str) -> frozenset[Any]:
    return frozenset(getattr(torch, name) for name in names.split())


_FACTORIES = _torch_functions(
    "arange bartlett_window blackman_window empty empty_strided eye full hamming_window hann_window kaiser_window "
    "linspace logspace ones rand randint randn randperm range scalar_tensor tril_indices triu_indices zeros"
)
_LIKE_FACTORIES = _torch_functions("empty_like full_like ones_like rand_like randint_like randn_like zeros_like")
_DATA_FACTORIES = _torch_functions("as_tensor asarray tensor")
_HOST_READS: dict[Any, str] = {
    _T.item: "item()",
    _T.__bool__: "bool()",
    _T.__int__: "int()",
    _T.__float__: "float()",
    _T.__complex__: "complex()",
    _T.__index__: "index()",
    _T.is_nonzero: "is_nonzero()",
    torch.is_nonzero: "torch.is_nonzero()",
    _T.tolist: "tolist()",
    _T.numpy: "numpy()",
    _T.__array__: "numpy.asarray()",
    torch.equal: "torch.equal()",
    _T.equal: "equal()",
    torch.allclose: "torch.allclose()",
    _T.allclose: "allclose()",
}
_PASS_UNTOUCHED = frozenset({torch.device, torch.get_device_module})


class IpuMode(TorchFunctionMode):
    """Presents the meta tensors of one capture as IPU tensors."""

    def __init__(self, capture: ActiveCapture, twins: Mapping[int, torch.Tensor]) -> None:
        super().__init__()
        self._capture = capture
        self._twins = twins  # by id of the real parameter or buffer: RNN weight lists and closures hold those
        self._opened: list[Any] = []  # Python functions of torch that run under the mode now
        self._handlers: dict[Any, Callable[[Any, list[Any], dict[str, Any]], Any]] = {
            _T.__getitem__: self._read_item,
            _T.__setitem__: self._write_item,
            _T.__format__: self._format,
            _T.__repr__: self._describe,
            _T.cpu: self._move_to_host,
            _T.ipu: self._move_to_ipu,  # type: ignore[attr-defined]
            _T.data.__set__: self._set_data,  # type: ignore[attr-defined]
            torch.histc: self._count_whole_numbers,
            _T.histc: self._count_whole_numbers,
            torch.bincount: self._count_bins,
            _T.bincount: self._count_bins,
            torch.ctc_loss: self._compute_ctc_loss,
            _T.get_device: self._number_device,
            _T.new_tensor: self._copy_data,
            torch.norm: self._compute_norm,
            torch.normal: self._draw_normal,
            **dict.fromkeys(RECURRENT_FUNCTIONS, call_recurrent),
            **dict.fromkeys(SPARSE_PLACES, ask_dense_gradient),
            **dict.fromkeys(_FACTORIES, self._make),
            **dict.fromkeys(_LIKE_FACTORIES, self._make_like),
            **dict.fromkeys(_DATA_FACTORIES, self._make_from_data),
        }

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in _IPU_PROPERTIES:
            return _IPU_PROPERTIES[func] if self._is_ours(args[0]) else func(*args)
        keywords = dict(kwargs or {})
        if func in _PASS_UNTOUCHED:
            return func(*args, **keywords)
        if keywords.get("generator") is not None:
            raise failures.refuse_generator()
        positional = [self._translate(argument) for argument in args]
        keywords = {name: self._translate(argument) for name, argument in keywords.items()}
        if func in _HOST_READS and positional and isinstance(positional[0], torch.Tensor) and positional[0].is_meta:
            raise failures.refuse_host_read(_HOST_READS[func])
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(func, positional, keywords)
        if func is F.one_hot and positional[0].is_meta:
            check_one_hot(*positional, **keywords)
        positional, keywords = align_weights(func, positional, keywords)
        positional, keywords, narrow = widen_statistics(func, positional, keywords)
        result = self._run(func, positional, keywords)
        for held, wide in narrow:
            with torch.no_grad():
                held.copy_(wide)
        if func in LOSS_FUNCTIONS and isinstance(result, torch.Tensor) and result.is_meta:
            self._capture.losses.append(result)
            mark_tensor(result, {"loss": func.__name__})
        return result

    def _run(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        twin = find_open_twin(func)
        if twin is None or func in self._opened:  # one that comes back here would do so for ever
            return _call(func, args, keywords)
        self._opened.append(func)
        try:
            with self:
                return _call(twin, args, keywords)
        finally:
            self._opened.pop()

    def _is_ours(self, tensor: torch.Tensor) -> bool:
        return tensor.is_meta or id(tensor) in self._twins

    def _translate(self, value: Any) -> Any:
        """Real parameters become their twins, and "ipu" becomes "meta"."""
        if isinstance(value, torch.Tensor):
            return self._twins.get(id(value), value)
        if isinstance(value, torch.device):
            return META if value.type == "ipu" else value
        if isinstance(value, str):
            return META if value == "ipu" or value.startswith("ipu:") else value
        if type(value) in (list, tuple):
            return type(value)(self._translate(item) for item in value)
        return value

    def _force_to_ipu(self, func: Any, keywords: dict[str, Any]) -> None:
        if keywords.get("device") is None:
            keywords["device"] = META
            name = getattr(func, "__name__", str(func))
            self._capture.warn(failures.locate(f"No device set in torch.{name}(): forcing to IPU."))

    def _make(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        self._force_to_ipu(func, keywords)
        return func(*args, **keywords)

    def _make_like(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if args and isinstance(args[0], torch.Tensor) and not args[0].is_meta:
            if keywords.get("device") is None:
                self._force_to_ipu(func, keywords)
            if keywords["device"] == META:
                args[0] = torch.empty(args[0].shape, dtype=args[0].dtype, device=META)
        return func(*args, **keywords)

    def _make_from_data(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        data = args[0] if args else keywords.get("data", keywords.get("obj"))
        if isinstance(data, torch.Tensor):
            if func is torch.tensor and data.is_meta:
                copied = data.detach().clone()
                return copied.to(keywords["dtype"]) if keywords.get("dtype") is not None else copied
            return func(*args, **keywords)
        self._force_to_ipu(func, keywords)
        if keywords["device"] != META:
            return func(*args, **keywords)
        if any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(data)):
            raise failures.refuse_host_read(f"torch.{func.__name__}() of a list of tensors (use torch.stack() instead)")
        wants_gradient = bool(keywords.pop("requires_grad", False))
        constant = self._lift(func(*args, **{**keywords, "device": CPU}))
        return constant.requires_grad_() if wants_gradient else constant

    def _copy_data(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        owner, data = args[0], args[1] if len(args) > 1 else keywords["data"]
        device = keywords.get("device") or owner.device
        if isinstance(data, torch.Tensor) or torch.device(device).type != "meta":
            return func(*args, **keywords)
        dtype = keywords.get("dtype") or owner.dtype
        constant = self._lift(torch.tensor(data, dtype=dtype, device=CPU))
        return constant.requires_grad_() if keywords.get("requires_grad") else constant

    def _compute_norm(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """With the mode off: for a device that it does not know, torch takes a deprecated way, and warns."""
        return _call(func, args, keywords)

    def _draw_normal(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        given = (*args[:2], keywords.get("mean"), keywords.get("std"))
        if not any(isinstance(value, torch.Tensor) for value in given):
            self._force_to_ipu(func, keywords)
        return func(*args, **keywords)

    def _read_item(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return read_item(args[0], args[1], self._lift) if args[0].is_meta else func(*args)

    def _write_item(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return write_item(args[0], args[1], args[2], self._lift) if args[0].is_meta else func(*args)

    def _format(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if not args[0].is_meta:
            return func(*args)
        if len(args) > 1 and args[1]:
            raise failures.refuse_host_read("format()")
        return _describe_tensor(args[0])

    def _describe(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return _describe_tensor(args[0]) if args[0].is_meta else func(*args, **keywords)

    def _move_to_host(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if args[0].is_meta:
            raise failures.refuse_move_to_host('.to("cpu")')
        return func(*args, **keywords)

    def _move_to_ipu(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return args[0].to(META)

    def _number_device(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return 0 if args[0].is_meta else func(*args)

    def _count_bins(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        return count_bins(*args, **keywords) if args[0].is_meta else func(*args, **keywords)

    def _compute_ctc_loss(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        half = bool(args) and args[0].is_meta and args[0].dtype is torch.float16
        return compute_in_float(func, *args, **keywords) if half else _call(func, args, keywords)

    def _count_whole_numbers(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """`torch.histc` of whole numbers, which the host counts as floating-point numbers alone."""
        whole = bool(args) and args[0].is_meta and not args[0].is_floating_point()
        return compute_in_float(func, *args, **keywords) if whole else _call(func, args, keywords)

    def _set_data(self, func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """`x.data = y` would leave no trace: it is recorded as the copy that it amounts to."""
        target, value = args
        if not target.is_meta:
            return func(*args)
        if value is target:  # module.to(device) inside forward does this to each of its parameters
            return None
        if target.shape != value.shape or target.dtype != value.dtype:
            raise CaptureError(
                failures.locate("`.data` is set to a tensor of another shape or dtype. Make a new tensor instead.")
            )
        with torch.no_grad():
            target.detach().copy_(value)
        return None

    def _lift(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._capture.recorder.lift_constant(tensor)


def _call(func: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """Call torch. Where its C++ code wants a value, it finds a meta tensor, and says so in its own terms."""
    try:
        return func(*args, **keywords)
    except (RuntimeError, NotImplementedError) as error:
        if "cannot be called on meta tensors" in str(error) or "Cannot copy out of meta tensor" in str(error):
            raise failures.refuse_host_read(getattr(func, "__name__", str(func))) from error
        raise


def _describe_tensor(tensor: torch.Tensor) -> str:
    return f"tensor(..., device='{IPU}', size={tuple(tensor.shape)}, dtype={tensor.dtype})"
