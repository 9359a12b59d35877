"""Ops of foreign graphs that users have registered: what they compute is a Python function.

In: a node whose op, domain and version somebody registered with `openipu.register_custom_op`. Out: what translates it:
while a program is captured one call of the function, with its gradient; outside, the function itself. A graph says
nothing of the shapes of its outputs: the op's `shape` does, or one call on zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from openipu.capture import CustomOp, call_custom_op, find_custom_op, infer_custom_op, is_capturing

if TYPE_CHECKING:
    from openipu.translate.foreign import ForeignNode
    from openipu.translate.site import Site

USUAL_DOMAIN = "ai.onnx"
_PRIVATE = "__"  # attributes of the graph's author to its compiler, such as __ipu_number


def find_registered(node: ForeignNode) -> CustomOp | None:
    """What was registered for a node's op."""
    return find_custom_op(node.op, node.domain or USUAL_DOMAIN, node.version)


def make_handler(op: CustomOp) -> Callable[[Site], list[torch.Tensor]]:
    """What translates a node of a registered op."""

    def translate(site: Site) -> list[torch.Tensor]:
        if site.node.bodies:
            site.fail("has graphs among its attributes, which no custom op takes")
        inputs = [site.input(position) for position in range(site.count)]
        attributes = {
            name: value for name, value in site.node.attributes.items() if not name.startswith(_PRIVATE)
        }  # fmt: skip
        if is_capturing():
            examples = infer_custom_op(op, inputs, attributes, site.results)
            return call_custom_op(op.name, op.domain, op.version, inputs, examples, attributes)
        if any(value.is_meta for value in inputs):
            return infer_custom_op(op, inputs, attributes, site.results)
        return op.run(inputs, attributes)

    return translate
