"""Trains three networks with every optimizer on Paddle's own CPU executor and as IPU programs: are the losses equal?

    .venv-paddle/bin/python tests/conformance/run_paddle_training.py [--seeds 5] [--new-form] [--exact]

In: the models and optimizers of tests/paddle, 30 steps, dropout off. Out: for each pair the largest relative difference
of a loss; beside it that of Paddle from itself with the rows of every batch in reverse, which changes no loss but by
rounding. Exit code 1 if a difference is above 1e-5. Networks with kinks (ReLU, max pools) part from each other where a
rounding error turns a decision around: the second number tells how often that happens to Paddle alone. With --exact,
Paddle also trains in float64, from the same weights: the last two numbers say how far each is from that, and so whose
rounding a difference is.
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
    parser.add_argument("--exact", action="store_true", help="measure both from Paddle in float64, too")
    parser.add_argument("names", nargs="*", help="parts of model or optimizer names; none: all")
    options = parser.parse_args()
    os.environ["FLAGS_enable_pir_api"] = str(int(options.new_form))  # noqa: SIM112 (Paddle's own spelling)
    os.environ.setdefault("OPENIPU_ENGINE", "operators")
    import models
    import openipu_paddle  # noqa: F401
    import paddle

    paddle.enable_static()
    counts = dict.fromkeys(("runs", "openipu", "Paddle itself", "openipu exact", "Paddle exact"), 0)
    titles = [title for title in counts if title != "runs" and (options.exact or "exact" not in title)]
    print(f"{'network':12}{'optimizer':11}{'seed':>5}" + "".join(f"{title:>15}" for title in titles))
    for network, (make, feeds) in models.MODELS.items():
        for name, optimizer in models.OPTIMIZERS.items():
            if options.names and not any(part in f"{network} {name}" for part in options.names):
                continue
            for seed in range(options.seeds):
                far = compare(models, make, feeds(STEPS, seed), optimizer, models.SEED + seed, exact=options.exact)
                counts["runs"] += 1
                for title, distance in zip(titles, far, strict=True):
                    counts[title] += distance <= BAR
                mark = "  above" if far[0] > BAR else ""
                cells = "".join(f"{distance:15.1e}" for distance in far)
                print(f"{network:12}{name:11}{seed:5}{cells}{mark}", flush=True)
    within = ", ".join(f"{title} {counts[title]}" for title in titles)
    print(f"of {counts['runs']} runs within {BAR}: {within}")
    return int(counts["openipu"] < counts["runs"])


def compare(
    models: Any, make: Any, feeds: list[dict[str, Any]], optimizer: Any, seed: int, *, exact: bool
) -> list[float]:
    """The largest relative difference of a loss: ours from Paddle's, Paddle's from itself, and both from float64."""
    turned = [{name: np.ascontiguousarray(value[::-1]) for name, value in feed.items()} for feed in feeds]
    wanted = models.run_steps(make, feeds, optimizer=optimizer, seed=seed)[0]
    own = models.run_steps(make, turned, optimizer=optimizer, seed=seed)[0]
    found = models.run_steps(make, feeds, optimizer=optimizer, seed=seed, on_ipu=True)[0]
    pairs = [(found, wanted), (own, wanted)]
    if exact:
        wide = run_wide(models, make, feeds, optimizer, seed)
        pairs += [(found, wide), (wanted, wide)]
    return [float(np.abs(np.ravel(one) / np.ravel(other) - 1).max()) for one, other in pairs]


def run_wide(models: Any, make: Any, feeds: list[dict[str, Any]], optimizer: Any, seed: int) -> list[Any]:
    """The losses of Paddle's own executor in float64, from the weights that it draws in float32."""
    import paddle
    from paddle import static

    declare = static.data
    narrow, scope = static.Scope(), static.Scope()
    main, startup, _ = models.build(make, optimizer, seed)
    with static.scope_guard(narrow):
        static.Executor(paddle.CPUPlace()).run(startup)
        held = {name: narrow.find_var(name) for name in models.list_held(main)}
        drawn = {name: np.array(found.get_tensor()) for name, found in held.items() if found is not None}
    paddle.set_default_dtype("float64")
    static.data = lambda name, shape, dtype: declare(name, shape, dtype.replace("float32", "float64"))
    try:
        main, startup, loss = models.build(make, optimizer, seed)
    finally:
        static.data = declare
        paddle.set_default_dtype("float32")
    with static.scope_guard(scope):
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        for name, value in drawn.items():
            tensor = scope.find_var(name).get_tensor()
            tensor.set(value.astype(np.array(tensor).dtype), paddle.CPUPlace())
        widened = [
            {name: value.astype("float64") if value.dtype == np.float32 else value for name, value in feed.items()}
            for feed in feeds
        ]
        return [executor.run(main, feed=feed, fetch_list=[loss])[0] for feed in widened]


if __name__ == "__main__":
    sys.exit(main())
