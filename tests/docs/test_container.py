"""The Dockerfile and the dev container do what they say, in a clean environment and without a Docker engine.

What is installed already on this machine is not downloaded again: pip is told so by its own variables, and the steps
run as they are written. OPENIPU_CONTAINER=full, which `make container-test` sets, downloads everything.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from container_steps import Container, Instruction, read_dockerfile

REPOSITORY = Path(__file__).parents[2]
FULL = os.environ.get("OPENIPU_CONTAINER") == "full"
DOCKERFILE = read_dockerfile((REPOSITORY / "Dockerfile").read_text(encoding="utf-8"))
# As pip spells them in the environment: nothing from an index, no dependencies of dependencies.
WITHOUT_NETWORK = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}


def build(root: Path) -> Container:
    """The image: all steps of the Dockerfile, in order."""
    inherited = {
        name: value for name, value in os.environ.items() if name in ("LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE")
    }
    environment = {
        **inherited,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": str(root / "home"),
        "OMP_NUM_THREADS": "1",
        **({} if FULL else WITHOUT_NETWORK),
    }
    container = Container(root, REPOSITORY, environment)
    (root / "home").mkdir()
    for instruction in DOCKERFILE:
        container.follow(instruction)
        if not FULL and instruction.text.startswith("python -m venv"):
            _lend_packages(root / "opt/venv")
    return container


def _lend_packages(environment: Path) -> None:
    """Let the new environment see the packages of this one, but for openipu itself and its start-up hook."""
    (site,) = environment.glob("lib/python*/site-packages")
    for own in site.glob("setuptools*"):  # an older one comes with the environment, and would hide the lent one
        shutil.rmtree(own)
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    return build(tmp_path_factory.mktemp("image"))


def test_instructions_are_read_with_their_continued_lines() -> None:
    text = "# comment\nFROM a\nRUN one \\\n  && two \\\n  # inside\n  && three\n\nENV A=b c\n"
    assert read_dockerfile(text) == [
        Instruction("FROM", "a"),
        Instruction("RUN", "one && two && three"),
        Instruction("ENV", "A=b c"),
    ]


@pytest.mark.slow
def test_every_step_that_needs_no_root_runs_in_a_clean_environment(container: Container) -> None:
    steps = [instruction.text for instruction in DOCKERFILE if instruction.name == "RUN"]
    assert container.as_root + container.done == steps, "in order, and none left out"
    assert [step.split()[0] for step in container.as_root] == ["apt-get", "useradd"]
    program = container.root / "opt/venv/bin/openipu"
    assert program.is_file()
    where = container.run('python -c "import openipu; print(openipu.__file__)"').strip()
    assert where.startswith(str(container.root / "opt/venv")), "the package from the image, not from the checkout"
    package = Path(where).parent
    for page in ("cli/live/web/page.html", "report/web/report.html", "report/web_list/list.html"):
        assert (package / page).is_file(), "pages are part of the package"


@pytest.mark.slow
def test_what_the_install_page_runs_inside_the_container_works(container: Container) -> None:
    page = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
    block = next(part for part in re.findall(r"```console\n(.*?)```", page, re.DOTALL) if "docker run" in part)
    lines = [line.removeprefix("$ ").partition("  #")[0].strip() for line in block.splitlines()]
    built, started, *inside = lines
    assert built == "docker build -t openipu ."
    words = shlex.split(started.replace("$(pwd)", "/here"))
    assert words[:2] == ["docker", "run"]
    assert {"-it", "--rm", "/here:/workspace", "openipu", "/bin/bash"} <= set(words)
    assert "Partition: default [active] has 4 reconfigurable IPUs" in container.run(inside[0])
    container.workdir = container.root / "opt/openipu"
    assert "Accuracy on test set" in container.run(inside[1] + " --epochs 1")


@pytest.mark.slow
def test_the_steps_of_the_dev_container_run_after_the_image(container: Container) -> None:
    settings = json.loads((REPOSITORY / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (REPOSITORY / ".devcontainer" / settings["build"]["dockerfile"]).resolve() == REPOSITORY / "Dockerfile"
    assert (REPOSITORY / ".devcontainer" / settings["build"]["context"]).resolve() == REPOSITORY
    assert settings["remoteUser"] == next(step.text for step in DOCKERFILE if step.name == "USER")
    container.workdir = container.root / "opt/openipu"  # a copy of the checkout, so that the checkout stays as it is
    container.run(settings["postCreateCommand"])
    where = container.run('python -c "import openipu; print(openipu.__file__)"').strip()
    assert where.startswith(str(container.workdir / "src")), "editable"
    assert "PopTorch" in container.run(settings["postStartCommand"])


def test_nothing_but_what_the_image_needs_is_sent_to_the_engine() -> None:
    kept = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word
        for step in DOCKERFILE
        if step.name == "COPY"
        for word in [word for word in step.text.split() if not word.startswith("--")][:-1]
    }
    assert copied == kept
