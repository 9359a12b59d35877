"""Arguments of a call bound to the signature of `forward`, and compared with those that the model was compiled with.

In: positional and keyword arguments. Out: one canonical form (all that can be positional is, defaults filled in), so
that the same call written in two ways is the same input; or the error that says which argument differs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch._args_parser import find_parser
from poptorch.errors import Error, createPoptorchError

MISMATCH_ADVICE = (
    "\nThe model is compiled for other inputs than those of this call. "
    "Pass inputs of the same structure, types and shapes, or call destroy() on the model and call it again: "
    "it is then compiled for the new inputs."
)


@dataclass(frozen=True)
class BoundInputs:
    """One call in canonical form; `names` are those of the positional arguments."""

    names: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def flat(self) -> bool:
        """Tensors by position and nothing else: the usual call, which needs no walk over a tree."""
        return not self.kwargs and all(isinstance(value, torch.Tensor) for value in self.args)

    def list_leaves(self) -> list[Any]:
        return list(self.args) if self.flat else pytree.tree_leaves((self.args, self.kwargs))


def read_signature(model: Callable[..., Any]) -> inspect.Signature:
    """The signature of a module's forward, or of any callable."""
    try:
        return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    except ValueError:  # functions written in C, such as torch.log, tell nothing of themselves
        return inspect.signature(lambda *args, **kwargs: None)


def bind_inputs(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundInputs:
    """Match arguments with parameters as Python would, with the errors that PopTorch users know."""
    left, named = list(args), dict(kwargs)
    names: list[str] = []
    values: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}[{index}]" for index in range(len(left))]
            values += left
            left = []
        elif parameter.kind is parameter.VAR_KEYWORD:
            keywords.update(named)
            named = {}
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keywords[name] = _take_named(named, parameter)
        else:
            if left:
                assert name not in named, f"Parameter {name} was passed twice: by position and by name"
                value = left.pop(0)
            else:
                value = _take_named(named, parameter)
            names.append(name)
            values.append(value)
    expected = [name for name, parameter in signature.parameters.items()]
    assert not left, (
        f"Too many arguments provided: {len(args)} positional arguments for the parameters {expected} of forward"
    )
    assert not named, f"Unknown arguments {list(named)} provided: the parameters of forward are {expected}"
    return BoundInputs(tuple(names), tuple(values), keywords)


def _take_named(named: dict[str, Any], parameter: inspect.Parameter) -> Any:
    if parameter.name in named:
        return named.pop(parameter.name)
    if parameter.default is parameter.empty:
        raise createPoptorchError(f"Mandatory parameter {parameter.name} missing")
    return parameter.default


def forget_data(inputs: BoundInputs) -> BoundInputs:
    """The inputs' structure, shapes and types, without keeping their data alive."""
    args, kwargs = pytree.tree_map(
        lambda leaf: torch.empty_like(leaf, device="meta") if isinstance(leaf, torch.Tensor) else leaf,
        (inputs.args, inputs.kwargs),
    )
    return BoundInputs(inputs.names, args, kwargs)


def match_inputs(compiled: BoundInputs, given: BoundInputs) -> BoundInputs:
    """The given inputs in the order of the compiled ones (dictionaries may be ordered anew), or an error."""
    if len(compiled.args) != len(given.args):
        raise _mismatch(
            f"Number of positional arguments mismatch: expected {len(compiled.args)} arguments "
            f"but got {len(given.args)}"
        )
    args = tuple(map(_match_value, compiled.names, compiled.args, given.args))
    kwargs = _match_keys("keyword arguments", compiled.kwargs, given.kwargs, "{key}")
    return BoundInputs(compiled.names, args, kwargs)


def _match_value(name: str, compiled: Any, value: Any) -> Any:
    if isinstance(compiled, torch.Tensor) and isinstance(value, torch.Tensor):
        _match_tensor(name, compiled, value)
        return value
    if type(compiled) is not type(value):
        raise _mismatch(f"Type mismatch for {name}: expected {type(compiled)} but got {type(value)}")
    if isinstance(compiled, Mapping):
        matched = _match_keys(name, compiled, value, name + "[{key!r}]")
        return matched if type(value) is dict else type(value)(matched)
    if isinstance(compiled, list | tuple):
        if len(compiled) != len(value):
            raise _mismatch(f"Length mismatch for {name}: expected {len(compiled)} but got {len(value)}")
        labels = [f"{name}[{index}]" for index in range(len(compiled))]
        items = list(map(_match_value, labels, compiled, value))
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    parser = find_parser(type(value))
    if parser is not None:
        _match_value(f"tensors of {name}", list(parser.yieldTensors(compiled)), list(parser.yieldTensors(value)))
        return value
    if not _equal(compiled, value):
        raise _mismatch(f"Value mismatch for {name}: expected {compiled} but got {value}")
    return value


def _match_keys(name: str, compiled: Mapping[str, Any], value: Mapping[str, Any], label: str) -> dict[str, Any]:
    missing = [str(key) for key in compiled if key not in value]
    unexpected = [str(key) for key in value if key not in compiled]
    if missing or unexpected:
        parts = [f"Missing arguments: {', '.join(missing)}."] if missing else []
        parts += [f"Unexpected arguments: {', '.join(unexpected)}."] if unexpected else []
        raise _mismatch(f"Keys mismatch for {name}: {' '.join(parts)}")
    return {key: _match_value(label.format(key=key), compiled[key], value[key]) for key in compiled}


def _match_tensor(name: str, compiled: torch.Tensor, value: torch.Tensor) -> None:
    if compiled.dtype != value.dtype:
        raise _mismatch(f"Data type mismatch for {name}: expected {compiled.dtype} but got {value.dtype}.")
    if compiled.shape != value.shape:
        raise _mismatch(f"Shape mismatch for {name}: expected {compiled.shape} but got {value.shape}")


def _equal(compiled: Any, value: Any) -> bool:
    try:
        return compiled is value or bool(compiled == value)
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # an array's == is not a bool: only itself is equal
        return False


def _mismatch(text: str) -> Error:
    return createPoptorchError(text + MISMATCH_ADVICE)
