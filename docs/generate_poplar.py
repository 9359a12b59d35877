"""Writes docs/poplar_names.md: which names of Poplar and PopLibs are there, in Python and in C++.

In: poplar_names.json, the public names by header (of PopLibs' headers; of Poplar those that public programs use), our
Python modules, and our headers as the compiler reads them. Out: the page.

    python docs/generate_poplar.py            write the page; needs a C++ compiler
    python docs/generate_poplar.py --check    exit code 1 if the page is not up to date
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
PAGE, NAMES = HERE / "poplar_names.md", HERE / "poplar_names.json"
INCLUDE = HERE.parent / "src" / "poplar" / "cxx" / "include"
LIBRARIES = ("poplar", "poputil", "popops", "poplin", "popnn", "poprand", "popsparse")
HEAD = """# Poplar and PopLibs: what is there

Each public name of PopLibs' headers, and those of Poplar that public programs use, in Python and in C++. This page is made from the code (`python docs/generate_poplar.py`), and a test says when it is out of date.
A name that is there takes what [Python](poplar.md) and [C++](poplar_cpp.md) say of it; what an overload does not take is refused with what to do.

Left out, as only the original's own libraries use them: `poputil`'s `DebugInfo`, `OptionParsing` and `cyclesTables`, `popops`' `PerformanceEstimation`, `ElementWiseUtil` and names of operations as text, `poplin`'s `ConvUtil`, `popfloat`, and everything in
namespaces called `internal` and folders called `experimental`.
"""  # noqa: E501
REASONS = (
    (r"grouped|Grouped(Slice|Indices)", "one group: loop over groups, or use a product of matrices"),
    (r"distributed|Distributed", "norms over replicas: reduce the statistics with CrossReplicaCopy"),
    (
        r"Flops|PerfectCycle|PlanCosts|ReportPlan|reportPlan|reportWeight|PlanInfo",
        "figures of the original's planner: see the plan and the report",
    ),
    (r"[pP]lan|ValidateOptions|ToConvOptions", "the engine plans by itself"),
    (r"auGru|Attention", "GRU with attention"),
    (r"^rnn\.", "the general loop of recurrent layers, from which the original builds its own"),
    (r"Metadata|QUARTER|checkAccuracy|castToDevice", "FP8 arithmetic and its checks"),
    (
        r"rearrange\.|CircBuf|UseTracker|Partition|Grouping|cloneToGraph|cloneAndExpand|[tT]ransform|Offset|Unshuffling"
        r"|HostSlice|HostTransfer|IndicesAndTensor",
        "layouts on tiles, which library functions choose by themselves here",
    ),
    (
        r"factorDims|ForLoopCounter|getSliceMapping|UpdateComputation|Specialisation|ConvWeightUpdateArgsScalar|Block$",
        "a helper",
    ),
    (
        r"Weights(Kernel|Biases)|Initial(Output|Cell)|CellOrder|CellUnit|zeroInitialState",
        "a part of what `createWeights` and `createInitialState` make at once",
    ),
)


def list_python(library: str) -> set[str]:
    """Names below a library that exist, as `module.name` or `Class.name`."""
    names = {name for entry in load_names()[library].values() for name in entry}
    return {name for name in names if _exists(library, name)}


def _exists(library: str, name: str) -> bool:
    found = importlib.import_module(library)
    for part in name.split("."):
        found = getattr(found, "in_" if part == "in" else part, None)
        if found is None:
            return False
    return True


def load_names() -> dict[str, dict[str, list[str]]]:
    """Names by library and header."""
    found: dict[str, dict[str, list[str]]] = {library: {} for library in LIBRARIES}
    for header, names in json.loads(NAMES.read_text(encoding="utf-8")).items():
        found[header.partition("/")[0]][header] = names.split()
    return found


def read_headers() -> dict[str, str]:
    """Our headers by path, macros expanded, without texts and what they include."""
    headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.hpp"))
    source = "".join(f"#include <{header}>\n" for header in headers if header.partition("/")[0] in LIBRARIES)
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, "-std=c++11", "-E", "-x", "c++", f"-I{INCLUDE}", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    header = ""
    for line in text.splitlines():
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            path = Path(mark.group(1))
            header = path.relative_to(INCLUDE).as_posix() if INCLUDE in path.parents else ""
        elif header:
            found.setdefault(header, []).append(re.sub(r'"[^"]*"', "", line))
    return {header: "\n".join(lines) for header, lines in found.items()}


def is_declared(headers: dict[str, str], header: str, name: str) -> bool:
    """Is a name in a header, or in one of the same library that it includes, in its namespaces? Poplar's are one."""
    library, (*spaces, word) = header.partition("/")[0], name.split(".")
    if library == "poplar":
        return any(re.search(rf"\b{word}\b", text) for path, text in headers.items() if path.startswith("poplar/"))
    if header not in headers:
        return False
    own = headers[header]
    if any(not re.search(rf"\bnamespace {space}\b", own) for space in spaces):
        return False
    return any(re.search(rf"\b{word}\b", headers[path]) for path in _list_included(header) if path in headers)


def _list_included(header: str) -> set[str]:
    found: set[str] = set()
    pending = [header]
    while pending:
        path = pending.pop()
        if path in found or not (INCLUDE / path).is_file():
            continue
        found.add(path)
        included = re.findall(r"#include <([^>]+)>", (INCLUDE / path).read_text(encoding="utf-8"))
        pending += [one for one in included if one.partition("/")[0] in (header.partition("/")[0], "openipu")]
    return found


def find_reason(name: str) -> str:
    return next((reason for pattern, reason in REASONS if re.search(pattern, name)), "not there yet")


def build_page(declared: dict[str, str]) -> str:
    lines = [HEAD]
    totals = ["| Library | Names | Python | C++ |", "|---|---:|---:|---:|"]
    body: list[str] = []
    for library, headers in load_names().items():
        here = list_python(library)
        every = [name for names in headers.values() for name in names]
        in_cpp = {name for header, names in headers.items() for name in names if is_declared(declared, header, name)}
        totals.append(f"| `{library}` | {len(every)} | {len(here & set(every))} | {len(in_cpp)} |")
        body += [
            f"## {library}",
            "",
            "| Header | Python and C++ | Only Python | Only C++ | Neither |",
            "|---|---|---|---|---|",
        ]
        lacking: list[str] = []
        for header, names in headers.items():
            cells = [
                [name for name in names if (name in here) is python and (name in in_cpp) is cpp]
                for python, cpp in ((True, True), (True, False), (False, True), (False, False))
            ]
            lacking += [name for cell in cells[1:] for name in cell]
            shown = [f"all {len(names)}" if len(cells[0]) == len(names) else _show(cells[0]), *map(_show, cells[1:])]
            body.append(f"| `{header}` | {' | '.join(shown)} |")
        reasons = Counter(find_reason(name) for name in lacking)
        if reasons:
            body += ["", "Why: " + "; ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items())) + "."]
        body.append("")
    return "\n".join([*lines, *totals, "", *body]).rstrip() + "\n"


def _show(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> int:
    page = build_page(read_headers())
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
