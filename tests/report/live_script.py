"""A real script under `openipu run --live`, and what its page's stream says."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

# Waits for a line between its parts, so that no test depends on how quick it is.
SCRIPT = """\
import sys
import poptorch
import torch

def wait(text):
    print(text, flush=True)
    sys.stdin.readline()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, points, labels):
        logits = self.layer(points)
        return logits, torch.nn.functional.cross_entropy(logits, labels)

wait("begun")
model = Model()
trainer = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
for step in range(3):
    trainer(torch.ones(8, 16), torch.zeros(8, dtype=torch.long))
wait("trained")
print("done")
sys.exit(7)
"""


class Script:
    """A real script under `openipu run --live`, which waits where the test wants."""

    def __init__(self, folder: Path, *options: str) -> None:
        (folder / "train.py").write_text(SCRIPT)
        self._errors = (folder / "errors.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openipu", "run", "--live", *options, "train.py"],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.folder = folder

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    @property
    def errors(self) -> str:
        return (self.folder / "errors.txt").read_text()

    @property
    def address(self) -> str:
        found = re.search(r"live at (http://127\.0\.0\.1:\d+/\S+/)\n", self.errors)
        assert found, self.errors
        return found[1]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()


def read_event(answer: http.client.HTTPResponse) -> dict[str, Any]:
    """The next event that is more than a sign of life."""
    while True:
        line = answer.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            found: dict[str, Any] = json.loads(line[6:])
            return found
