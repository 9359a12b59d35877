"""Generated cases for the passes of the engine, compared with eager PyTorch.

`python tests/run/fuzz_rules.py --cases 20000 --seed 1 --kernels`: tries seeds from there on, a share of each family.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import torch
from generated.engine import install_kernels, list_passes
from generated.patterns import FAMILIES
from generated.rules import run_apart


def main() -> None:
    parser = argparse.ArgumentParser(description="compare generated models with eager PyTorch, pass by pass")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each family")
    parser.add_argument("--families", default=",".join(FAMILIES), help="of which families")
    parser.add_argument("--kernels", action="store_true", help="with native kernels in place")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.kernels:
        install_kernels()
    families = given.families.split(",")
    each = max(1, given.cases // len(families))
    cases = wrong = 0
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for family in families:
        unreached: set[str] | None = None
        for report in run_apart(family, range(given.seed, given.seed + each)):
            print("".join(f"{failure}\n" for failure in report.failures), end="", flush=True)
            cases, wrong = cases + report.cases, wrong + len(report.failures)
            counts += report.counts
            refused += report.refused
            missed = set(report.list_unreached(kernels=given.kernels))
            unreached = missed if unreached is None else unreached & missed
        if unreached:
            print(f"# {family} never reaches: {', '.join(sorted(unreached))}", flush=True)
    print("\n".join(f"# {counts[name]:6d} cases changed by: {name}" for name in list_passes()))
    print("".join(f"# {count:6d} refused: {message}\n" for message, count in refused.most_common(9)), end="")
    print(f"# {cases} cases, {wrong} failures")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
