"""Trains three networks with every optimizer on Paddle's own CPU executor and as IPU programs: are the losses equal?

    .venv-paddle/bin/python tests/conformance/run_paddle_training.py [--seeds 5] [--new-form]

In: the models and optimizers of tests/paddle, 30 steps, dropout off. Out: for each pair the largest relative difference
of a loss; beside it that of Paddle from itself with the rows of every batch in reverse, which changes no loss but by
rounding. Exit code 1 if a difference is above 1e-5. Networks with kinks (ReLU, max pools) part from each other where a
rounding error turns a decision around: the second number tells how often that happens to Paddle alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "paddle"))

STEPS, BAR = 30, 1e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="how many starting points and orders of the data")
    parser.add_argument("--new-form", action="store_true", help="programs of Paddle's new form (PIR)")
    parser.add_argument("names", nargs="*", help="parts of model or optimizer names; none: all")
    options = parser.parse_args()
    os.environ["FLAGS_enable_pir_api"] = str(int(options.new_form))  # noqa: SIM112 (Paddle's own spelling)
    os.environ.setdefault("OPENIPU_TIER", "instant")
    import models
    import openipu_paddle  # noqa: F401
    import paddle

    paddle.enable_static()
    missed = total = own_missed = 0
    print(f"{'network':12}{'optimizer':11}{'seed':>5}{'openipu':>10}{'Paddle itself':>15}")
    for network, (make, feeds) in models.MODELS.items():
        for name, optimizer in models.OPTIMIZERS.items():
            if options.names and not any(part in f"{network} {name}" for part in options.names):
                continue
            for seed in range(options.seeds):
                found, own = compare(models, make, feeds(STEPS, seed), optimizer, models.SEED + seed)
                total, missed, own_missed = total + 1, missed + (found > BAR), own_missed + (own > BAR)
                mark = "  above" if found > BAR else ""
                print(f"{network:12}{name:11}{seed:5}{found:10.1e}{own:15.1e}{mark}", flush=True)
    print(f"{total - missed} of {total} within {BAR}; Paddle and itself in another order: {total - own_missed}")
    return int(missed > 0)


def compare(models: Any, make: Any, feeds: list[dict[str, Any]], optimizer: Any, seed: int) -> tuple[float, float]:
    """The largest relative difference of a loss: of ours from Paddle's, and of Paddle's from itself."""
    turned = [{name: np.ascontiguousarray(value[::-1]) for name, value in feed.items()} for feed in feeds]
    wanted = models.run_steps(make, feeds, optimizer=optimizer, seed=seed)[0]
    own = models.run_steps(make, turned, optimizer=optimizer, seed=seed)[0]
    found = models.run_steps(make, feeds, optimizer=optimizer, seed=seed, on_ipu=True)[0]
    base = np.ravel(wanted)
    return float(np.abs(np.ravel(found) / base - 1).max()), float(np.abs(np.ravel(own) / base - 1).max())


if __name__ == "__main__":
    sys.exit(main())
