"""Verdicts: what openipu does about each name that a script uses, and each op of the programs that it compiled.

In: uses from the source and from the run, the session's log. Out: findings, those that are lacking first.
Whatever is said about a front end's names comes from its `Coverage`; about ops, from the op table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from openipu.cli.front_ends import PLANNED, PROVIDED
from openipu.cli.usage.coverage import load_coverage
from openipu.cli.usage.uses import Finding, Kind, State, Use, list_places
from openipu.session_log import SessionLog

_ORDER = (State.LACKS, State.NO_EFFECT, State.HAS)


def list_modules() -> tuple[str, ...]:
    """Every module name of the SDK that openipu knows of."""
    return (*PROVIDED, *PLANNED)


def read_results() -> Mapping[str, str]:
    """What calls of the front ends return, for reading source."""
    return {
        f"{name}.{function}": f"{name}.{returned}"
        for name in PROVIDED
        for function, returned in load_coverage(name).results.items()
    }


def judge_uses(read: Iterable[Use], ran: Iterable[Use]) -> list[Finding]:
    """One finding a name."""
    by_name: dict[str, list[Use]] = {}
    seen_running = set()
    for use in ran:
        by_name.setdefault(use.name, []).append(use)
        seen_running.add(use.name)
    for use in read:
        by_name.setdefault(use.name, []).append(use)
    findings = []
    for name, uses in by_name.items():
        verdict = _judge(name)
        if verdict is not None:
            kind, state, note = verdict
            findings.append(Finding(name, kind, state, note, list_places(uses), name in seen_running))
    return _sort(findings)


def judge_ops(log: SessionLog) -> list[Finding]:
    """One finding an op of the compiled programs. All of them ran; one without a row has a guessed cost."""
    from openipu.ops import find_rule

    places: dict[str, list[Use]] = {}
    counts: Counter[str] = Counter()
    for use, count in (log.ops or {}).items():
        places.setdefault(use.op, []).append(Use(use.op, use.file, use.line))
        counts[use.op] += count
    findings = []
    for name, uses in places.items():
        known = not name.startswith("aten.") or find_rule(name) is not None
        note = f"{counts[name]} in the programs" + ("" if known else "; cost guessed by bytes moved")
        findings.append(Finding(name, Kind.OP, State.HAS, note, list_places(uses), True))
    return _sort(findings)


def _judge(name: str) -> tuple[Kind, State, str] | None:
    for module, title in PLANNED.items():
        if name == module or name.startswith(f"{module}."):
            return Kind.CALL, State.LACKS, f"{title} is planned"
    for module in PROVIDED:
        if name == module:
            return Kind.CALL, State.HAS, ""
        if name.startswith(f"{module}."):
            verdict = load_coverage(module).judge_name(name.removeprefix(f"{module}."))
            if verdict is None:
                return None
            is_option, state, note = verdict
            return Kind.OPTION if is_option else Kind.CALL, State(state), note
    return None


def _sort(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.state), finding.kind, finding.name))
