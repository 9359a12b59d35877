"""`python -m fuzz`: damage files, read them, count the verdicts; or do one case again."""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.cases import Case, list_regressions, make_case
from fuzz.kinds import KINDS
from fuzz.pool import Job, Result, run_jobs

_VERDICTS = ("ok", "refused", "traceback", "crash", "hang", "memory", "wrote", "message")
_BATCH = 200


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=20_000, metavar="N", help="files to make, over all kinds")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed makes other files")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="A,B", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    parser.add_argument("--forever", action="store_true", help="go on with the next seed until Ctrl-C")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), metavar="DIR", help="for files that failed")
    parser.add_argument("--replay", metavar="KIND:SEED:NUMBER", help="make one case again, and show what it does")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        directory = Path(temporary)
        if options.replay:
            return _replay(Case.parse(options.replay), directory)
        kinds = [kind for kind in KINDS if kind in options.kinds.split(",")]
        unknown = set(options.kinds.split(",")) - set(kinds)
        if unknown or not kinds:
            print(f"There is no kind {', '.join(sorted(unknown))}. There are {', '.join(KINDS)}.", file=sys.stderr)
            return 2
        _write_seeds(kinds, directory)
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        failures = 0
        try:
            for seed in itertools.count(options.seed) if options.forever else (options.seed,):
                jobs = list(_list_jobs(kinds, seed, options.mutations))
                place = Path(tempfile.mkdtemp(dir=directory))
                for result in run_jobs(jobs, options.workers, directory / "seeds", place):
                    counts[result.case.kind][result.verdict] += 1
                    if result.failed:
                        failures += 1
                        _tell(result, directory, options.keep)
        except KeyboardInterrupt:
            print()
        _print_table(counts)
    return 1 if failures else 0


def _list_jobs(kinds: Sequence[str], seed: int, mutations: int) -> Iterator[Job]:
    """As many cases of each kind. Those of one kind stand together: importing for another one takes time."""
    for place, kind in enumerate(kinds):
        kept = len(list_regressions(kind))
        if kept:
            yield Job(kind, seed, -kept, kept)
        count = mutations // len(kinds) + (place < mutations % len(kinds))
        for first in range(0, count, _BATCH):
            yield Job(kind, seed, first, min(_BATCH, count - first))


def _write_seeds(kinds: Sequence[str], directory: Path) -> None:
    """In a process of its own: making executables imports PyTorch, which this one does not need."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENIPU_COMPILE_AFTER": "inf"}
    for name in ("cache", "state"):
        (directory / name).mkdir(mode=0o700)
    environment |= {"OPENIPU_CACHE_DIR": str(directory / "cache"), "OPENIPU_STATE_DIR": str(directory / "state")}
    words = [sys.executable, "-m", "fuzz.seeds", str(directory / "seeds"), *kinds]
    subprocess.run(words, check=True, env=environment, cwd=Path(__file__).parent.parent)


def _tell(result: Result, directory: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    name = str(result.case).replace(":", "-")
    made = Path(tempfile.mkdtemp(dir=directory))
    path = make_case(result.case, directory / "seeds", made, "")
    if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24:
        path.rename(keep / name)
    (keep / f"{name}.txt").write_text(f"{result.verdict}\n{result.text}\n")
    last = result.text.strip().splitlines()[-1:] or [""]
    print(f"{result.case} {result.verdict}: {last[0][:200]}", flush=True)


def _replay(case: Case, directory: Path) -> int:
    _write_seeds([case.kind], directory)
    path = make_case(case, directory / "seeds", directory, KINDS[case.kind].suffix)
    print(f"{case}: {path}")
    KINDS[case.kind].read(path)
    print("ok")
    return 0


def _print_table(counts: dict[str, Counter[str]]) -> None:
    total = sum(counts.values(), Counter())
    shown = [verdict for verdict in _VERDICTS if verdict in ("ok", "refused") or total[verdict]]
    print(f"{'kind':16}" + "".join(f"{verdict:>11}" for verdict in shown))
    for kind, found in counts.items():
        print(f"{kind:16}" + "".join(f"{found[verdict]:>11,}" for verdict in shown))
    print(f"{'all':16}" + "".join(f"{total[verdict]:>11,}" for verdict in shown))


if __name__ == "__main__":
    sys.exit(main())
