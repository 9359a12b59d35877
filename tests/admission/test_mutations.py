"""Programs that somebody changed: refused, or run without harm; `OPENIPU_ATTACKS=5000` tries more of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

ATTACKS = int(os.environ.get("OPENIPU_ATTACKS", "300"))
BATCH = 100
SCRIPT = Path(__file__).parent / "attack.py"


def test_no_change_to_a_file_does_harm(files, tmp_path):
    for name, serial in files.items():
        (tmp_path / f"{name}.json").write_bytes(serial.document)
        (tmp_path / f"{name}.bin").write_bytes(serial.tensors)
    refused = ran = 0
    for first in range(0, ATTACKS, BATCH):
        command = [sys.executable, str(SCRIPT), str(tmp_path), str(first), str(min(BATCH, ATTACKS - first))]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert done.returncode == 0, f"change {(tmp_path / 'progress').read_text()}: {done.stderr[-2000:]}"
        found = json.loads(done.stdout.splitlines()[-1])
        assert not found["raw"], found["raw"][0][1]
        assert found["megabytes"] < 500
        refused, ran = refused + found.get("refused", 0), ran + found.get("ran", 0)
    assert refused > ATTACKS / 4  # most changes are for the worse
    assert ran > 0  # and some are not
