"""Ops of a user's own in Paddle programs: each stands for an op of PopART's, or for one that is registered in Python.

In: ops, and what a strategy says of their types. Out: the same ops with the name by which the tables and
`openipu.register_custom_op` know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from openipu.translate.foreign import ForeignGraph
from openipu.translate.paddle.program import PaddleOp
from openipu.translate.paddle.sharding import INDEX, STAGE
from openipu.translate.rules import Table

DOMAIN = "paddle"  # of Paddle's own ops
CUSTOM = "#custom"
_STANDARD = "ai.onnx"
_OF_PADDLE = ("op_", "#", "with_quant_attr", INDEX, STAGE)  # how attributes begin that are not the op's own


@dataclass(frozen=True, slots=True)
class CustomName:
    """What an op is called outside of Paddle."""

    op: str
    domain: str
    version: int

    @property
    def table_domain(self) -> str:
        """The domain as tables spell it."""
        return "" if self.domain == _STANDARD else self.domain


def name_custom_ops(ops: Sequence[PaddleOp], names: Mapping[str, CustomName]) -> tuple[PaddleOp, ...]:
    """Ops of the named types with their other name among the attributes."""
    return tuple(
        replace(op, attributes={**op.attributes, CUSTOM: names[op.type]}) if op.type in names else op for op in ops
    )


def list_own_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the op's author named."""
    return {name: value for name, value in attributes.items() if not name.startswith(_OF_PADDLE)}


def choose_table(graph: ForeignGraph, own: Table) -> Table:
    """The table of Paddle's ops; with those of ONNX and PopART where a graph calls one by another name."""
    return _join_tables(own) if any(node.domain != DOMAIN for node in graph.nodes) else own


@cache
def _join_tables(own: Table) -> Table:
    from openipu.translate.onnx.table import TABLE

    return Table([*own.list_rules(), *TABLE.list_rules()])
