"""A Dockerfile's steps, run without a Docker engine: in a directory that stands for the image's root.

In: the text of a Dockerfile. Out: its instructions, and a `Container` that does them: ENV, ARG and WORKDIR are kept,
COPY copies, RUN runs the very text in a shell. Paths of the image that stand in ENV, WORKDIR and COPY lie below the
directory. Steps before USER are root's (packages of the distribution, users): they are listed, not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str


def read_dockerfile(text: str) -> list[Instruction]:
    """Instructions in order; continued lines are joined, comments are gone."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]


@dataclass
class Container:
    """Where the steps are done."""

    root: Path
    context: Path  # the checkout
    environment: dict[str, str]
    is_root: bool = True
    workdir: Path = field(init=False)
    as_root: list[str] = field(default_factory=list)  # steps that were not run
    done: list[str] = field(default_factory=list)  # steps that were

    def __post_init__(self) -> None:
        self.workdir = self.root

    def follow(self, instruction: Instruction) -> None:
        """Do one instruction."""
        name, text = instruction.name, instruction.text
        if name == "USER":
            self.is_root = text == "root"
        elif name == "WORKDIR":
            self.workdir = self.place(text)
            self.workdir.mkdir(parents=True, exist_ok=True)
        elif name in ("ENV", "ARG"):
            key, _, value = text.partition("=")
            self.environment[key] = re.sub(
                r"\$(\w+)", lambda found: self.environment.get(found[1], ""), self._map(value)
            )
        elif name == "COPY":
            self._copy([word for word in shlex.split(text) if not word.startswith("--")])
        elif name == "RUN" and self.is_root:
            self.as_root.append(text)
        elif name == "RUN":
            self.run(text)
            self.done.append(text)
        elif name not in ("FROM", "CMD"):
            raise ValueError(f"The steps of the Dockerfile have {name}, which this test does not know.")

    def place(self, path: str) -> Path:
        """A path of the image, below the directory."""
        return self.root / path.removeprefix("/")

    def run(self, command: str) -> str:
        """Run a line in the image's shell; its output."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.workdir,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=3000,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def _map(self, value: str) -> str:
        parts = [str(self.place(part)) if part.startswith("/opt/") else part for part in value.split(os.pathsep)]
        return os.pathsep.join(parts)

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            origin = self.context / source
            assert origin.exists(), f"COPY {source}: there is no such file in the checkout"
            goal = self.workdir / target
            if origin.is_dir():
                shutil.copytree(origin, goal, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(origin, goal / origin.name if target.endswith("/") else goal)
