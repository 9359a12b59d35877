"""The devices that the files of the public PopART suite are registered for, as its build files say.

In: the suite's `CMakeLists.txt` files. Out: for each test file the `TEST_TARGET` to run it on: a CPU where it is one of
several, as it is where nothing is said.
"""

from __future__ import annotations

import re
from pathlib import Path

_CALL = re.compile(r"^\s*add_popart_py_unit_test\(\s*([\w/.-]+)([^)]*)\)", re.MULTILINE)
_VARIANTS = re.compile(r"VARIANTS\s+(.*?)(?=\s[A-Z][A-Z_]{3,}\b|$)", re.DOTALL)
CPU, HARDWARE = "Cpu", "Hw"


def read_devices(root: Path) -> dict[str, str]:
    """Test file, as a path under `root` -> its device."""
    found: dict[str, set[str]] = {}
    for build in sorted(root.rglob("CMakeLists.txt")):
        folder = build.parent.relative_to(root)
        for name, details in _CALL.findall(build.read_text(encoding="utf-8")):
            variants = _VARIANTS.search(details)
            words = re.findall(r"\w+", variants[1]) if variants else [CPU]
            kinds = {HARDWARE if word.startswith("HW") else word for word in words}
            found.setdefault((folder / f"{name}.py").as_posix(), set()).update(kinds)
    return {file: CPU if CPU in kinds else sorted(kinds)[-1] for file, kinds in found.items() if kinds}
