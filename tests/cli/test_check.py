"""`openipu run --check`: what a script uses of the SDK, and what openipu does about it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openipu.cli.usage.judge import judge_uses, list_modules, read_results
from openipu.cli.usage.scan import find_local_files, scan_file

SCRIPT = """
import sys
import helper
import poptorch
import torch

print("the script's own output")
options = poptorch.Options().deviceIterations(2).showCompilationProgressBar(False)
helper.configure(options)
model = poptorch.inferenceModel(torch.nn.Linear(4, 2), options)
model(torch.ones(2, 4))
if len(sys.argv) > 1:
    poptorch.notThere()
    import tessellate_ipu
"""
HELPER = """
def configure(anything):
    anything.logDir("logs")
    anything._Popart.set("autoRecomputation", 1)
"""


@pytest.fixture
def script(tmp_path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run_check(script, *words):
    command = [sys.executable, "-m", "openipu", "run", "--check", *words]
    return subprocess.run([*command, str(script)], capture_output=True, text=True, timeout=6000, check=False)


def judge_source(tmp_path, source):
    path = tmp_path / "source.py"
    path.write_text(source)
    found = judge_uses(scan_file(path, list_modules(), read_results()), [])
    return {finding.name: str(finding.state) for finding in found}


def test_a_run_finds_options_behind_any_variable_and_the_ops_of_the_programs(script):
    done = run_check(script, "--json")
    document = json.loads(done.stdout)
    assert "the script's own output" in done.stderr
    names = {entry["name"]: entry for entry in document["names"]}
    assert names["poptorch.Options.deviceIterations"]["ran"]
    assert names["poptorch.Options.logDir"]["state"] == "without effect"
    assert names["poptorch.Options.logDir"]["places"] == [f"{script.parent / 'helper.py'}:3"]
    assert "made again" in names['poptorch.Options._Popart.set("autoRecomputation")']["note"]
    assert names["aten.addmm.default"]["kind"] == "op"
    # What stands in a branch that was not taken is read all the same.
    assert names["poptorch.notThere"]["state"] == names["tessellate_ipu"]["state"] == "lacks it"
    assert not names["poptorch.notThere"]["ran"]
    assert (done.returncode, document["lacking"]) == (1, 2)


def test_a_script_with_nothing_lacking_ends_well_and_prints_a_table(script):
    script.write_text(SCRIPT.partition("if len")[0])
    done = run_check(script)
    assert done.returncode == 0
    assert "poptorch.Options.logDir" in done.stdout
    assert "0 that it lacks" in done.stdout
    assert "own output" not in done.stdout


def test_a_script_that_fails_is_listed_as_far_as_it_was_read(script):
    script.write_text("raise SystemExit(3)\n" + SCRIPT)
    done = run_check(script)
    assert done.returncode == 1
    assert "exit code 3" in done.stdout
    assert "poptorch.inferenceModel" in done.stdout


def test_json_belongs_to_check():
    command = [sys.executable, "-m", "openipu", "run", "--json", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert "--json belongs to --check" in done.stderr


def test_objects_are_followed_through_assignments(tmp_path):
    names = judge_source(
        tmp_path,
        """
import poptorch as pt
from poptorch import Options as O, optim
class Trainer:
    def __init__(self, model):
        self.options = O()
        self.options.Training.gradientAccumulation(4).setAutomaticLossScaling(True)
        self.runner = pt.trainingModel(model, self.options, optim.SGD(model.parameters(), lr=1))
        self.runner.copyWeightsToHost()
        self.runner.fc.weight
options = "a string now"
options.title()
""",
    )
    assert names["poptorch.Options.Training.gradientAccumulation"] == "has it"
    assert "poptorch.Options.Training.setAutomaticLossScaling" in names
    assert names["poptorch.PoplarExecutor.copyWeightsToHost"] == "has it"
    assert names["poptorch.optim.SGD"] == "has it"
    assert not any("fc" in name or "title" in name for name in names)


def test_modules_beside_the_script_are_read_too(script):
    package = script.parent / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import *\n")
    (package / "inner.py").write_text("from . import other\n")
    (package / "other.py").write_text("import package\n")
    (script.parent / "helper.py").write_text("from package import anything\n")
    names = {str(path.relative_to(script.parent)) for path in find_local_files(script)}
    assert names == {"script.py", "helper.py", "package/__init__.py", "package/inner.py", "package/other.py"}


def test_names_below_a_package_of_others_are_found_without_importing_it(tmp_path):
    source = "from tensorflow.python import ipu\nimport tensorflow as tf\nprint(ipu.config, tf.constant)\n"
    path = tmp_path / "source.py"
    path.write_text(source)
    names = {use.name for use in scan_file(path, list_modules(), read_results())}
    assert names == {"tensorflow.python.ipu", "tensorflow.python.ipu.config"}
    assert "tensorflow" not in sys.modules
