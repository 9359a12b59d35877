"""Matrix-vector products with large weights (GEMV) by a C++ kernel: a step of generation consists of them.

In: a draft of an inference program. Out: whether the kernel is worth being compiled; or, with the kernel, a rule that
calls it. Weights are read at the speed of memory: oneDNN reads them more slowly, and MKL with one thread on AMD's
processors. Several rows are oneDNN's.
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.graph import InputKind
from openipu.run import thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Rule
from openipu.run.kernels import OperandError, Run, address_of, address_or_none
from openipu.run.kernels.catalog import GemvArguments
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products.onednn_products import Product, read_operands
from openipu.run.rewrites.products.packed_weights import use_copies

aten = torch.ops.aten


class GemvProduct:
    """`row @ weight.T + bias`; a weight that lies transposed is copied once, and again when it is loaded anew."""

    def __init__(self, memory: DeviceMemory, name: str, transposed: bool, run: Run) -> None:
        self._memory, self._name, self._transposed, self._run = memory, name, transposed, run
        self._plain: torch.Tensor | None = None  # until it is asked for
        memory.follow(self, [name])

    def refresh(self) -> None:
        """Forget the old weight."""
        self._plain = None

    @property
    def copied_bytes(self) -> int:
        """Of the copy, if there has to be one."""
        weight = self._memory.parameters[self._name]
        return 4 * weight.numel() if self._transposed or weight.dtype is not torch.float32 else 0

    def apply(self, row: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """The product of this row."""
        if self._plain is None:
            weight = self._memory.parameters[self._name].float()
            self._plain = (weight.t() if self._transposed else weight).contiguous()
        given, (count, width) = row.contiguous(), self._plain.shape
        found = torch.empty(1, count, dtype=torch.float32)
        try:
            arguments = GemvArguments(
                vector=address_of(given, width),
                weight=address_of(self._plain, count * width),
                bias=address_or_none(bias, count),
                results=address_of(found, count),
                count=count,
                width=width,
                threads=torch.get_num_threads(),
            )
        except OperandError:
            return torch.nn.functional.linear(row.to(self._plain.dtype), self._plain, bias)
        self._run(arguments)
        return found


def is_worth_gemv(draft: Draft) -> bool:
    """Whether most of the program's products are of one row, and their weights are large."""
    held = draft.list_held(InputKind.PARAMETER)
    own = others = 0
    for node in draft.graph.nodes:
        product = read_operands(node)
        if product is None:
            others += _count_other_work(node)
        elif product.weight.name in held and _is_meant(product):
            own += product.weight.meta["val"].numel()
        else:
            others += _count_rows(product) * product.weight.meta["val"].numel()
    return own >= max(thresholds.GEMV_ALL_ELEMENTS, others)


def make_rules(draft: Draft, memory: DeviceMemory, run: Run) -> tuple[Rule, ...]:
    """Let the kernel compute products of one row with weights that nothing writes."""

    def read(node: fx.Node) -> Product | None:
        product = read_operands(node)
        return product if product is not None and _is_meant(product) else None

    def make(name: str, transposed: bool, rows: int) -> GemvProduct:
        return GemvProduct(memory, name, transposed, run)

    return (use_copies("matrix-vector product", draft, read, make, activates=False),)


def _count_other_work(node: fx.Node) -> int:
    """Multiplications of a product of stacks of matrices, or of a convolution."""
    if node.target is aten.bmm.default:
        inner = node.all_input_nodes[0].meta["val"].shape[-1]
    elif node.target is aten.convolution.default:
        inner = node.all_input_nodes[1].meta["val"][0].numel()
    else:
        return 0
    return int(node.meta["val"].numel() * inner)


def _count_rows(product: Product) -> int:
    return int(product.rows.meta["val"].shape[0])


def _is_meant(product: Product) -> bool:
    elements = product.weight.meta["val"].numel()
    return _count_rows(product) == 1 and elements >= thresholds.GEMV_WEIGHT_ELEMENTS
