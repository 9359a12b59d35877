"""`openipu run --check` on a script for TensorFlow: options by what they do here, names by whether they are there."""

from __future__ import annotations

from openipu.cli.usage.judge import judge_uses, list_modules, read_results
from openipu.cli.usage.scan import scan_file

SOURCE = """
from tensorflow.python import ipu
import tensorflow as tf

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.scheduling.algorithm = ipu.config.SchedulingAlgorithm.POST_ORDER
cfg.no_such_option = 3
cfg.configure_ipu_system()
ipu.ipu_compiler.compile(None)
ipu.no_such_module.anything()
"""


def test_options_and_names_are_judged_by_the_code(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SOURCE)
    found = judge_uses(scan_file(path, list_modules(), read_results()), [])
    states = {finding.name.removeprefix("tensorflow.python.ipu."): str(finding.state) for finding in found}
    assert states["config.IPUConfig.auto_select_ipus"] == "has it"
    assert states["config.IPUConfig.scheduling.algorithm"] == "without effect"
    assert states["config.IPUConfig.no_such_option"] == "lacks it"
    assert states["config.SchedulingAlgorithm.POST_ORDER"] == "has it"
    assert states["ipu_compiler.compile"] == "has it"
    assert states["no_such_module.anything"] == "lacks it"
    assert "config.IPUConfig.configure_ipu_system" not in states
    assert "config.IPUConfig.scheduling" not in states
