"""Why no split fits, and what to do about it, in words.

In: a `Split` that does not fit. Out: lines. A bound that no layout can go below is a proof, and so is a plan of every
layout; else the lines say that nothing is proven.
"""

from __future__ import annotations

from openipu.explore.auto.types import Shortage, Split
from openipu.report.units import format_bytes, format_bytes_of

_SMALLER = "half precision, or a smaller model"


def explain_misfit(split: Split) -> list[str]:
    """What was shown, and what would help."""
    if split.shortage is not None:
        return _explain_shortage(split.shortage)
    if split.complete:
        return [
            "Every split was planned: none fits.",
            "Choose a system with more IPUs or more memory, a smaller micro-batch, or a smaller model.",
        ]
    fit = split.plan.fit
    over = format_bytes_of(fit.peak_bytes, fit.limit_bytes)
    return [
        f"None of the splits that were planned fits; this one comes closest, with {over} on its fullest tile. Not "
        "proven: splits that nobody planned are left, and their least memory is within the limit.",
        "Choose more IPUs in a replica, a system with more memory or a smaller micro-batch; `openipu plan` says what "
        "each option would save.",
    ]


def _explain_shortage(shortage: Shortage) -> list[str]:
    least = format_bytes_of(shortage.least_tile_bytes, shortage.limit_tile_bytes)
    sizes = "any micro-batch" if shortage.any_micro_batch else "this micro-batch, or with a smaller one"
    proof = f"No split can fit with {sizes}: in each of them some tile needs at least {least}. That is proven: "
    if shortage.module is not None:
        needed = format_bytes_of(shortage.module_bytes, shortage.ipu_bytes)
        return [
            f"{proof}the weights, gradients and state of {shortage.module or 'the part without a module'} and what its "
            f"largest operator reads or writes take {needed} of one IPU, and it cannot be cut.",
            f"More IPUs do not help. Make it a list of smaller modules, keep its optimizer state off chip, or take "
            f"{_SMALLER}.",
        ]
    held = format_bytes_of(shortage.variable_bytes, shortage.ipus * shortage.ipu_bytes)
    ipus = f"the {shortage.ipus} IPUs" if shortage.ipus > 1 else "the IPU"
    lines = [f"{proof}weights, gradients and optimizer state that are on chip in every split take {held} of {ipus}."]
    if shortage.fewest_ipus > shortage.ipus:
        each = format_bytes(shortage.ipu_bytes)
        lines.append(f"Take a replica of at least {shortage.fewest_ipus} IPUs ({each} each), {_SMALLER}.")
    else:
        lines.append(f"Take more IPUs in a replica, {_SMALLER}.")
    return lines
