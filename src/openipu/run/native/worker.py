"""What the compiling process does: a file in C++ becomes a library. `guard.py` starts it.

In: a private folder, a job file, the directory of the cache. Out: an entry of the cache with the library.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from openipu.run.native.build import LIBRARY, find_native
from openipu.run.native.scratch import keep_scratch
from openipu.run.native.source_files import compile_source
from openipu.store import Part, make_key, open_store


def run_job(scratch: str, job_file: str, directory: str) -> None:
    """Compile the job of a file into the store of a directory."""
    kept = keep_scratch(Path(scratch))
    job = json.loads(Path(job_file).read_text())
    store = open_store(directory)
    # Who is waited for must not wait for one that only gets idle time.
    turn = make_key({"background": job["key"]}) if job["background"] else job["key"]
    try:
        with store.hold(turn):
            if find_native(job["key"], store) is None:  # no other process has made it while this one waited
                library = Part(compile_source(job["source"], Path(os.environ["TMPDIR"])), native=True)
                store.write(job["key"], {LIBRARY: library}, {"program": job["name"], "kind": "kernels"})
    except Exception as error:  # the parent shows one line, and goes on without kernels
        text = (str(error).strip().splitlines() or ["no message"])[0]
        print(f"{type(error).__name__}: {text}", file=sys.stderr)
        sys.exit(3)
    finally:
        kept.release()
