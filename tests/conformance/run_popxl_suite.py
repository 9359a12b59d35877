"""Runs the public integration suite of popxl, and says how many of its items pass, with a reason for each miss.

    OPENIPU_POPART_CHECKOUT=path/to/popart python tests/conformance/run_popxl_suite.py [--page]

The checkout is only read: the suite's folder is copied to a temporary one. All items are run on a modelled IPU, but
those that start several processes.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from programs import PAGE, replace_section

CHECKOUT_VARIABLE = "OPENIPU_POPART_CHECKOUT"
SUITE = "tests/integration"
MARK = "popxl suite"
NOT_RUN = {"test_multi_instance_vs_rts.py": "starts several processes with poprun, for 16 replicas"}
LOGS = "looks for lines of PopART's own log"
REASONS = {  # by file, or by part of an item's name
    "test_cached_executables": "reads files of PopART's own cache of executables",
    "test_conditional_variable": "builds its session from `popart._internal`",
    "test_convtranspose": "imports `popart._internal`",
    "test_d2hWeightBuffer_elision": LOGS,
    "test_dot_visualizer": "wants a drawing at each of PopART's own passes",
    "test_gather_oor": "an index out of range is an error here",
    "test_interpolate_linear": "wants a relative difference below 1e-7 to PyTorch's own kernel",
    "test_interpolate_nearest_mode": "calls a function of the package onnx that takes other arguments now",
    "test_model_caching": LOGS,
    "test_non_const_rg_warns": LOGS,
    "test_raise_on_log2scale_not_in_range": "the option throwIfLog2ScaleTensorNotInRange has no effect",
    "test_remote_buffer_store_load": "reads PopART's own tensors behind popxl's",
    "test_remote_code_load": "reads execution steps that `pva` does not have",
    "test_roialign": "imports torchvision",
    "test_session_lazy_weights_to_host": LOGS,
    "test_session_passed_device": LOGS,
    "test_session_set_device": "imports a private function of `popxl.utils`",
    "test_sharding_valid_when_global_replication": "sets the number of instances by an option without effect",
}


def run(checkout: Path) -> list[tuple[str, str]]:
    """Each item's name and outcome."""
    with tempfile.TemporaryDirectory(prefix="popxl-suite-") as place:
        folder = Path(place) / SUITE
        shutil.copytree(checkout / SUITE / "popxl", folder / "popxl")
        shutil.copy(checkout / SUITE / "test_util.py", folder)
        report = Path(place) / "report.xml"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        words += [f"--ignore=popxl/{name}" for name in NOT_RUN] + [f"--junitxml={report}", "popxl"]
        environment = {**os.environ, "TEST_TARGET": "IpuModel2", "PYTHONPATH": str(folder)}
        subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)
        tree = ElementTree.parse(report)
    found = []
    for case in tree.iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "skipped" if "skipped" in kinds else "failed" if kinds & {"failure", "error"} else "passed"
        found.append((f"{case.get('classname', '')}.{case.get('name', '')}", outcome))
    return found


def explain(name: str) -> str:
    return next((reason for part, reason in REASONS.items() if part in name), "")


def write(items: list[tuple[str, str]]) -> str:
    counts = Counter(outcome for _, outcome in items)
    missed = Counter(explain(name) or f"not known: `{name}`" for name, outcome in items if outcome == "failed")
    whole = counts["passed"] + counts["failed"]
    lines = [
        f"Counted on {datetime.datetime.now(datetime.UTC).date()}: **{counts['passed']} of {whole} items pass** "
        f"({100 * counts['passed'] / whole:.0f} %), {counts['skipped']} skip themselves. A file that cannot be "
        "imported counts as one.",
        "",
        "| Items | Why they do not pass |",
        "|--:|---|",
        *(f"| {count} | {reason} |" for reason, count in missed.most_common()),
        "",
        *(f"Not run: `{name}`, which {reason}." for name, reason in NOT_RUN.items()),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="renew the section of docs/conformance.md")
    options = parser.parse_args()
    checkout = Path(os.environ.get(CHECKOUT_VARIABLE, ""))
    if not (checkout / SUITE / "popxl").is_dir():
        print(f"Set {CHECKOUT_VARIABLE} to a checkout of graphcore/popart.", file=sys.stderr)
        return 2
    items = run(checkout)
    text = write(items)
    print(text)
    if options.page:
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), MARK, text), encoding="utf-8")
    return 1 if any(outcome == "failed" and not explain(name) for name, outcome in items) else 0


if __name__ == "__main__":
    sys.exit(main())
