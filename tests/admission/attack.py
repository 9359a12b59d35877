"""Reads changed programs in a process of its own, and runs those that are accepted: `attack.py FOLDER FIRST COUNT`.

The folder holds pairs of `name.json` and `name.bin`. Prints one line of JSON: how many were refused, ran, or failed in
another way, and the memory that all of it took. A crash is seen by whoever started the process; the number of the
change that was being tried stands in the file `progress`.
"""

import collections
import json
import logging
import random
import resource
import sys
import traceback
import warnings
from pathlib import Path

import torch

from openipu.admission import Limits, read_program, run_once
from openipu.errors import ProgramFileError

sys.path.insert(0, str(Path(__file__).parent))
from mutations import mutate

LIMITS = Limits(node_runs=100_000, memory_bytes=256 << 20)


def attack(folder, number):
    """What became of one changed program."""
    files = sorted(folder.glob("*.json"))
    file = files[number % len(files)]
    document, tensors = mutate(file.read_bytes(), file.with_suffix(".bin").read_bytes(), random.Random(number))
    try:
        program = read_program(document, tensors, LIMITS)
    except ProgramFileError:
        return "refused"
    try:
        run_once(program)
    except ProgramFileError:
        return "failed"
    return "ran"


def main():
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    logging.disable()
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen, raw = collections.Counter(), []
    for number in range(first, first + count):
        (folder / "progress").write_text(str(number))
        try:
            seen[attack(folder, number)] += 1
        except Exception:
            raw.append([number, traceback.format_exc()])
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({**seen, "raw": raw, "megabytes": taken // 1024}))


if __name__ == "__main__":
    main()
