"""Reads a script, runs it under watch, and shows which names of the SDK it uses and what openipu does about each.

In: the script's file and how to start it. Out: a table or JSON on standard output; the script's own output goes to
standard error. Exit code 1 if something is lacking or the script failed, else 0.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from openipu.cli.front_ends import PROVIDED
from openipu.cli.usage.judge import judge_ops, judge_uses, list_modules, read_results
from openipu.cli.usage.record import record_uses
from openipu.cli.usage.scan import find_local_files, scan_file
from openipu.cli.usage.show import show_findings
from openipu.cli.usage.uses import State
from openipu.history import History


def check_script(file: Path | None, start: Callable[[], int], history: History, *, as_json: bool) -> int:
    """Run, then read: what a run has reached is told from what only stands there."""
    with record_uses(tuple(PROVIDED)) as recorder, contextlib.redirect_stdout(sys.stderr):
        failure = _describe_end(start)
    sys.stderr.flush()
    ran = list(recorder.uses)
    files = [] if file is None else list(find_local_files(file))
    results = read_results()
    read = [use for path in files for use in scan_file(path, list_modules(), results)]
    findings = judge_uses(read, ran) + judge_ops(history)
    show_findings(findings, failure=failure, as_json=as_json)
    return 1 if failure is not None or any(finding.state is State.LACKS for finding in findings) else 0


def _describe_end(start: Callable[[], int]) -> str | None:
    """None when the script ended well."""
    try:
        code: object = start()
    except SystemExit as end:
        code = end.code
    return None if code in (0, None) else f"exit code {code}" if isinstance(code, int) else str(code)
