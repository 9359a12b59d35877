"""Which library multiplies two matrices.

In: a draft that is ready to be generated. Out: the same draft, in which large float32 products are oneDNN's where that
is quicker than what PyTorch calls by itself. PyTorch comes with both libraries and uses MKL for float32: on AMD's
processors, oneDNN is a tenth quicker for `rows @ weight` and `rows @ weight.T`, 1.5x for very wide weights, and slower
for `rows.T @ rows`. The choice depends on the processor and the shapes alone, so that results are the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import fx

from openipu.run import thresholds
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched

aten = torch.ops.aten
NOTHING_AFTER: tuple[str, list[Any], str] = ("none", [], "")  # no activation is applied to the product

_run_onednn = torch.ops.mkldnn._linear_pointwise.default._op


@dataclass(frozen=True, eq=False)
class Product:
    """`rows @ weight.T + bias`, or `rows @ weight + bias` where the weight lies transposed."""

    rows: fx.Node
    weight: fx.Node
    transposed: bool
    bias: fx.Node | None


def read_product(node: fx.Node) -> Product | None:
    """A product that oneDNN computes as it stands, and that is large enough for it."""
    product = read_operands(node)
    if product is None:
        return None
    (count, _), (inner, width) = _shape_of(product.rows), _shape_of(product.weight)
    if count < thresholds.ONEDNN_ROWS:
        large = _prefers_onednn() and inner * width >= thresholds.ONEDNN_ROW_WORK
    else:
        large = inner * width >= thresholds.ONEDNN_WEIGHT_ELEMENTS and count * inner * width >= thresholds.ONEDNN_WORK
    return product if large else None


def read_operands(node: fx.Node) -> Product | None:
    """A product of float32 matrices, of any size."""
    if node.target not in (aten.mm.default, aten.addmm.default) or node.kwargs:
        return None
    *added, rows, columns = node.args
    if not isinstance(rows, fx.Node) or not isinstance(columns, fx.Node):
        return None
    bias: Any = added[0] if added else None
    weight, transposed = (columns.args[0], False) if is_transposed(columns) else (columns, True)
    assert isinstance(weight, fx.Node)
    if bias is not None and _shape_of(bias) != _shape_of(columns)[1:]:
        return None
    operands = [value for value in (rows, columns, bias) if value is not None]
    if any(value.meta["val"].dtype is not torch.float32 for value in operands):
        return None
    return Product(rows, weight, transposed, bias)


@gives_fresh_memory
def multiply(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`rows @ weight.T + bias`. A slice of a larger weight is left to PyTorch: oneDNN has no quick code for gaps."""
    (height, width), (row_stride, column_stride) = weight.shape, weight.stride()
    if (row_stride, column_stride) in ((width, 1), (1, height)):
        found: torch.Tensor = _run_onednn(rows, weight, bias, *NOTHING_AFTER)
        return found
    return torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())


def is_transposed(node: fx.Node) -> bool:
    """Whether this is a matrix with its two dimensions exchanged."""
    if node.target is aten.t.default:
        return True
    if node.target is aten.permute.default:
        return list(node.args[1]) in ([1, 0], [-1, -2])  # type: ignore[arg-type]
    exchanged = ((0, 1), (1, 0), (-1, -2), (-2, -1))
    return node.target is aten.transpose.int and node.args[1:] in exchanged and len(_shape_of(node)) == 2


def has_onednn() -> bool:
    """Whether this PyTorch has oneDNN, and nobody has switched it off."""
    return bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)  # type: ignore[no-untyped-call]


def prefers_other_products() -> bool:
    """Whether products are quicker elsewhere than in the library that PyTorch calls by itself."""
    return _prefers_onednn()


@cache
def _prefers_onednn() -> bool:
    """MKL is made for Intel's processors; without it, PyTorch calls a library that we have not measured."""
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    mkl = bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]
    return mkl and "AuthenticAMD" in facts


def _shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _find(node: fx.Node) -> Match | None:
    product = read_product(node)
    if product is None or is_transposed(product.rows):
        return None
    if product.transposed and _shape_of(product.rows)[0] < thresholds.ONEDNN_ROWS:
        return None
    return matched(node, product=product)


def _call_onednn(match: Match, writer: Writer) -> fx.Node:
    product: Product = match["product"]
    weight = product.weight
    if product.transposed:
        weight = writer.call(aten.t.default, weight)
        weight.meta["val"] = product.weight.meta["val"].t()
    return writer.call(multiply, product.rows, weight, product.bias)


def make_rules() -> tuple[Rule, ...]:
    """Let oneDNN compute the products that it is faster at on this processor."""
    if not has_onednn() or not _prefers_onednn():
        return ()
    return (Rule("product by oneDNN", Search((aten.mm.default, aten.addmm.default), _find), _call_onednn),)
