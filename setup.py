"""Adds `openipu.pth` to what is installed, from a wheel and from a checkout alike; the rest is in pyproject.toml.

A `.pth` belongs to no package, so that setuptools has no setting for it. pip removes it with the other files.
"""

from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

NAME = "openipu.pth"  # sorted after `__editable__…`, whose path it needs
LINE = r'import sys; exec("try:\n import openipu_startup\n openipu_startup.install()\nexcept ImportError:\n pass")'


class BuildWithHook(build_py):
    def run(self) -> None:
        super().run()
        self._choose_file().write_text(LINE + "\n", encoding="utf-8")

    def get_outputs(self, include_bytecode: Any = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, str(self._choose_file())]

    def _choose_file(self) -> Path:
        """In an editable install packages stay where they are, and only `install_lib` becomes part of the wheel."""
        root = Path(self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib)
        root.mkdir(parents=True, exist_ok=True)
        return root / NAME


setup(cmdclass={"build_py": BuildWithHook})
