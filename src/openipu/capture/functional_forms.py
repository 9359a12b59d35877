"""Which functional op computes what an in-place op writes.

In: an in-place op of ATen, or a node that calls one. Out: the op without the underscore, and the arguments for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

_FUNCTIONAL_FORMS: dict[Any, Any] = {
    aten.bernoulli_.float: aten.bernoulli.p,
    aten.normal_.default: aten.normal_functional.default,
    aten.polygamma_.default: aten.polygamma.default,
    aten.pow_.Scalar: aten.pow.Tensor_Scalar,
    aten.pow_.Tensor: aten.pow.Tensor_Tensor,
}
BATCH_NORM = aten._native_batch_norm_legit.default  # returns its new statistics behind its results


def find_functional_form(operation: Any) -> Any:
    """`add_` -> `add`: the same name without the underscore, the same overload, the same arguments."""
    if operation in _FUNCTIONAL_FORMS:
        return _FUNCTIONAL_FORMS[operation]
    namespace, _, name = operation._schema.name.partition("::")
    if namespace != "aten" or not name.endswith("_") or name.endswith("__"):
        return None
    overload = getattr(getattr(aten, name[:-1], None), operation._overloadname, None)
    if overload is None or overload._schema.is_mutable:
        return None
    return overload if _list_parameters(overload) == _list_parameters(operation) else None


def complete_arguments(node: fx.Node, operation: Any) -> tuple[Any, ...]:
    """The arguments of the functional op.

    Added is what the in-place op has a default for and the functional one has not: dispatch leaves defaults out.
    """
    if operation is aten.polygamma.default:  # the one that takes its arguments in another order
        return (node.args[1], node.args[0])
    args = list(node.args)
    wanted = operation._schema.arguments
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if position >= len(wanted) or argument.kwarg_only or argument.name in node.kwargs:
            break
        if position >= len(args):
            if wanted[position].has_default_value():
                break
            args.append(argument.default_value)
    return tuple(args)


def _list_parameters(operation: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in operation._schema.arguments]
