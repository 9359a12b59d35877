"""Kernels of inference that take the place of operators before all other passes.

In: a draft. Out: the kernels that are worth being compiled for it; or, with these, the same draft with calls of them.
"""

from __future__ import annotations

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import apply_rules
from openipu.run.kernels import Kernel, KernelLibrary
from openipu.run.kernels.catalog import GEMV, LSTM, MULTIPLY_VECTOR, WINOGRAD
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.images.direct_convolutions import list_geometries
from openipu.run.rewrites.images.direct_convolutions import make_rules as make_direct_rules
from openipu.run.rewrites.images.packed_convolutions import is_worth_winograd, pack_convolutions
from openipu.run.rewrites.products import gemv
from openipu.run.rewrites.recurrent import lstm_kernel


def list_inference_kernels(draft: Draft) -> tuple[Kernel, ...]:
    """The kernels that are worth being compiled."""
    found = [geometry.kernel_record for geometry in list_geometries(draft)]
    pays = {LSTM: lstm_kernel.is_worth_lstm, GEMV: gemv.is_worth_gemv, WINOGRAD: is_worth_winograd}
    return (*found, *(kernel for kernel, is_worth in pays.items() if is_worth(draft)))


def use_inference_kernels(draft: Draft, memory: DeviceMemory, library: KernelLibrary) -> None:
    """Put kernels in the place of the operators that they are for."""
    apply_rules(draft.graph, make_direct_rules(draft, memory, library))
    if (winograd := library.find(WINOGRAD)) is not None:
        pack_convolutions(draft, memory, winograd)
    if (lstm := library.find(LSTM)) is not None:
        apply_rules(draft.graph, lstm_kernel.make_rules(draft, memory, lstm))
    if (run := library.find_run(GEMV, MULTIPLY_VECTOR)) is not None:
        apply_rules(draft.graph, gemv.make_rules(draft, memory, run))
