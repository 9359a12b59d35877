"""Which items of the public suites of TensorFlow on IPU use the public interface alone, told from their code.

In: a test file as it is. Out: for each of its tests what it uses besides the public interface, one of `KINDS`, or
`PUBLIC`. Names are followed through functions, methods and classes of the same file; what a file imports counts where a
test uses it. The suites' shared helpers read reports only where a test asks them to. Outcomes play no part.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PUBLIC = "the public interface alone"
# The first that an item uses is its kind. Each entry is a pattern of whole names.
KINDS: dict[str, str] = {
    "loads C++ ops or codelets of the suite's own build": (
        r"precompiled_user_op|cpu_user_operation|load_op_library|codelet_expression_op|vertex_edsl"
    ),
    "reads profiles, compute sets, or events of the original's driver": (
        r"ReportHelper|ReportJSON|pva|openReport|return_report|extract_all_\w+|ipu_event_trace|TensorMap|"
        r"missing_whitelist_entries_in_names|assert_\w*compute_sets\w*|assert_\w*tile_memory\w*|assert_num_reports"
    ),
    "uses raw ops or messages of the original's plugin": (
        r"gen_(?:ipu|pop\w+|poputil|functional|sendrecv|application_runtime|dataset_benchmark)(?:_ops)?|"
        r"backend_config_pb2|option_flag_pb2|poplar_executable_pb2|xla_data_pb2|hlo_pb2|popef"
    ),
}


def classify(file: Path) -> dict[str, str]:
    """The kind of each test of a file, as "Class.test"."""
    defined = dict(_list_definitions(ast.parse(file.read_text(encoding="utf-8"))))
    names = {name: set(_list_names(node)) for name, node in defined.items()}
    return {name: _choose(_reach(names, name)) for name in names if _is_test(name)}


def classify_item(item: str, kinds: dict[str, str]) -> str:
    """The kind of one item, such as "Class::testIt3": parameters have put something behind the name of its test. A test
    that the file only inherits is what most of the file uses."""
    group, _, name = item.rpartition("::")
    named = [test for test in kinds if name.startswith(test.partition(".")[2])]
    own = [test for test in named if test.partition(".")[0] == group]
    if named:
        return kinds[max(own or named, key=len)]
    every = list(kinds.values()) or [PUBLIC]
    return max(every, key=every.count)


def _is_test(name: str) -> bool:
    return name.partition(".")[2].startswith("test")


def _list_definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            yield from ((f"{node.name}.{part.name}", part) for part in methods)
            if not any(part.name.startswith("test") for part in methods):
                yield node.name, node


def _list_names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.keyword) and part.arg:
            yield part.arg


def _reach(names: dict[str, set[str]], test: str) -> set[str]:
    """Every name that a test names, by itself or through what it calls; what runs before each test of a class too."""
    group = test.partition(".")[0]
    waiting = [test, *(name for name in (f"{group}.setUp", f"{group}.setUpClass") if name in names)]
    seen, found = set(waiting), set()
    while waiting:
        own = names[waiting.pop()]
        found |= own
        called = {name for word in own for name in (word, f"{group}.{word}") if name in names}
        waiting += called - seen
        seen |= called
    return found


def _choose(names: set[str]) -> str:
    return next((kind for kind, marks in KINDS.items() if any(re.fullmatch(marks, name) for name in names)), PUBLIC)
