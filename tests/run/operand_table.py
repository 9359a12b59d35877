"""Which ATen kernels read strided operands as dense ones: tried with every operator of PyTorch's own test samples.

In: nothing. Out: (operator, position of the argument) pairs whose result is wrong, or an error, where an operand is a
slice, transposed or expanded. As a script it prints them for this version of PyTorch.
"""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from openipu.ops import find_rule

aten = torch.ops.aten

Call = tuple[tuple[Any, ...], dict[str, Any]]
_SAMPLES, _CALLS = 20, 5  # of an entry of PyTorch's list, and of an operator
# Their results depend on strides by definition, or are not set, or generated code calls another operator.
_APART = frozenset(
    {
        *("aten::as_strided_scatter", "aten::as_strided_copy", "aten::_unsafe_view"),
        *("aten::empty_like", "aten::new_empty", "aten::new_empty_strided", "aten::empty_permuted"),
    }
)


class Recorder(TorchDispatchMode):
    """Keeps some calls of each operator that a captured program may hold, with dense operands."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Any, dict[str, Call]] = defaultdict(dict)

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kept = self.calls[function]
        if len(kept) < _CALLS and _is_kept(function):
            # Samples of the same shapes try the same code; whatever else is given chooses it.
            sign = repr(pytree.tree_map_only(torch.Tensor, lambda value: (value.shape, value.dtype), (args, kwargs)))
            kept.setdefault(sign, pytree.tree_map_only(torch.Tensor, _copy_dense, (args, kwargs)))
        return function(*args, **kwargs)


def _is_kept(function: Any) -> bool:
    schema = function._schema
    random = torch.Tag.nondeterministic_seeded in function.tags and "flash_attention" not in schema.name
    views = any(returned.alias_info is not None for returned in schema.returns)
    return find_rule(str(function)) is not None and not (schema.is_mutable or random or views or schema.name in _APART)


def _copy_dense(value: torch.Tensor) -> torch.Tensor:
    return value.detach().clone(memory_format=torch.contiguous_format)


def record_samples(dtype: torch.dtype) -> dict[Any, list[Call]]:
    """Calls that PyTorch's own samples make, forward and backward, by operator."""
    if "expecttest" not in sys.modules:  # which PyTorch's list imports for tests of its own
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = Recorder()
    for entry in op_db:
        if dtype not in entry.dtypes:
            continue
        try:
            with warnings.catch_warnings(), recorder:
                warnings.simplefilter("ignore")
                for number, sample in enumerate(entry.sample_inputs("cpu", dtype, requires_grad=True)):
                    if number < _SAMPLES:
                        _differentiate(entry.op(sample.input, *sample.args, **sample.kwargs))
        except Exception:  # a sample that needs another package, or has no gradient
            continue
    _add_inference_calls(recorder)
    return {function: list(kept.values()) for function, kept in recorder.calls.items() if kept}


def _differentiate(results: Any) -> None:
    values = [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor) and value.requires_grad]
    terms = [(value * torch.arange(1.0, value.numel() + 1).cos().view(value.shape)).sum() for value in values]
    if terms and not any(term.is_complex() for term in terms):
        torch.stack(terms).sum().backward()


def _add_inference_calls(recorder: Recorder) -> None:
    """Of operators that only captured programs call."""
    images, scale = torch.randn(3, 4, 5, 6), torch.rand(4) + 0.5
    statistics = scale, scale + 1, torch.randn(4), scale.clone()
    heads = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    with recorder:
        aten._native_batch_norm_legit_functional.default(images, *statistics, True, 0.1, 1e-5)
        aten._native_batch_norm_legit_no_training.default(images, *statistics, 0.1, 1e-5)
        aten._scaled_dot_product_flash_attention_for_cpu.default(*heads, 0.0, False, attn_mask=torch.randn(5, 7))


def list_layouts(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same numbers in other places of memory, and numbers of which some share a place."""
    if not value.dim() or not value.numel():
        return
    filler = 1 if value.dtype is torch.bool or not value.is_floating_point() else 7.0
    wide = torch.full([*value.shape[:-1], value.shape[-1] * 2], filler, dtype=value.dtype)
    wide[..., ::2] = value
    yield wide[..., ::2]
    last = value.dim() - 1
    for first, second in {(0, last), (0, min(1, last)), (max(last - 1, 0), last)}:
        if first != second:
            yield value.transpose(first, second).contiguous().transpose(first, second)
    if value.dim() > 1:
        wide = torch.full([value.shape[0], value.shape[1] + 2, *value.shape[2:]], filler, dtype=value.dtype)
        wide[:, 1:-1] = value
        yield wide[:, 1:-1]
    if value.dim() == 4:
        yield value.contiguous(memory_format=torch.channels_last)
    for dim in {0, value.dim() - 1}:
        if value.shape[dim] > 1 and value.is_floating_point():
            one = value.narrow(dim, 0, 1).contiguous()
            memory = torch.full((2 * value.numel(),), 7.0, dtype=value.dtype)  # a kernel may read behind the elements
            strides = list(one.stride())
            strides[dim] = 0
            expanded = memory.as_strided(value.shape, strides)
            expanded.narrow(dim, 0, 1).copy_(one)
            yield expanded


def find_unsafe(
    calls: dict[Any, list[Call]], choose: Callable[[Any], Callable[..., Any]] = lambda function: function
) -> tuple[dict[Any, set[int]], int]:
    """Positions of arguments in which operators do not read strided operands, and how many operators were tried."""
    unsafe: dict[Any, set[int]] = defaultdict(set)
    tried = 0
    for function, kept in calls.items():
        tried += 1
        for args, kwargs in kept:
            for place, value in enumerate(args):
                for strided in list_layouts(value) if isinstance(value, torch.Tensor) else ():
                    if not _reads(choose(function), args, kwargs, place, strided):
                        unsafe[function].add(place)
    return dict(unsafe), tried


def _reads(function: Any, args: Sequence[Any], kwargs: Any, place: int, strided: torch.Tensor) -> bool:
    def call(value: torch.Tensor) -> Any:
        operands = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
        operands[place] = value
        with torch.no_grad():
            return function(*operands, **kwargs)

    try:
        expected = call(_copy_dense(strided))
    except Exception:  # the numbers do not suit
        return True
    try:
        found = call(strided)
    except Exception:
        return False
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    shared = 0 in strided.stride()
    return all(_is_close(one, other, shared=shared) for one, other in pairs if isinstance(one, torch.Tensor))


def _is_close(found: torch.Tensor, expected: torch.Tensor, *, shared: bool) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not found.is_floating_point():
        return shared or torch.equal(found, expected)  # among equal numbers, any place will do
    # Of numbers that are equal, a variance or a gradient is nothing but what rounding leaves.
    close = 1e-2 if found.dtype is torch.float16 else 1e-3
    return torch.allclose(found.double(), expected.double(), rtol=close, atol=close, equal_nan=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16):
        found, tried = find_unsafe(record_samples(dtype))
        print(f"{dtype}: {tried} operators")
        for function, places in found.items():
            print(f"    {function}: {sorted(places)}")
