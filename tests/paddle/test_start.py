"""What a first result does not wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PROGRAM = """
import gc
import sys
import openipu_paddle
import paddle

assert gc.isenabled()
paddle.enable_static()
import models

for make, feeds in models.MODELS.values():
    (loss,), _ = models.run_steps(make, feeds(1), optimizer=models.OPTIMIZERS["adam"], on_ipu=True)
    assert loss.item() > 0
waiting = {"torch._dynamo", "torch._inductor", "sympy", "onnx", "openipu.report", "openipu.translate.onnx"}
print(*sorted(waiting & sys.modules.keys()))
"""


def run_new(program, tmp_path):
    environment = {**os.environ, "OPENIPU_ENGINE": "operators", "OPENIPU_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_training_imports_neither_dynamo_nor_sympy_nor_what_only_other_programs_need(tmp_path):
    assert run_new(PROGRAM, tmp_path)[-1].split() == []


def test_objects_of_the_users_own_are_collected_where_paddle_was_there_before(tmp_path):
    program = """
import gc, weakref
import paddle
class Own: pass
own = Own()
own.itself = own
seen = weakref.ref(own)
import openipu_paddle
assert gc.isenabled()
del own
gc.collect()
print(seen() is None)
"""
    assert run_new(program, tmp_path)[-1] == "True"
