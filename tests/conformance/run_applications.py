"""Runs public applications of graphcore/examples unmodified: trains, infers and plans each, and says what came of it.

    OPENIPU_EXAMPLES_CHECKOUT=path/to/examples python tests/conformance/run_applications.py [--page] [NAME …]

The checkout is a git repository and is only read: each application is taken from the tag that its entry in
`applications/catalog/` names, into a temporary folder. Environments are made under --environments, once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from applications.data import write_data
from applications.entries import Application, Run, load_applications
from applications.environment import ROOT, STANDINS, prepare_environment
from applications.judging import judge, read_losses
from applications.page import PAGE, write_page
from applications.record import RECORD, Outcome, keep_outcomes, read_record

VARIABLE = "OPENIPU_EXAMPLES_CHECKOUT"
LOOK_SECONDS, END_SECONDS = 5, 120  # between looks at what a run has printed; until it has ended when told to
MODELS = STANDINS.parent / "models.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of folders, such as nlp/bert; all when none is given")
    parser.add_argument("--kind", help="only runs of this kind: train, infer or plan")
    parser.add_argument("--command", default="", help="only runs whose command has this in it")
    parser.add_argument("--record", type=Path, default=RECORD, help="the folder in which outcomes are kept")
    parser.add_argument("--page", action="store_true", help="write docs/applications.md from all that is kept")
    parser.add_argument("--environments", type=Path, default=ROOT / ".cache" / "applications")
    parser.add_argument("--timeout", type=int, default=900, help="seconds that a run may take")
    parser.add_argument("--logs", type=Path, help="keep what each run prints in this folder")
    options = parser.parse_args()
    checkout = Path(os.environ.get(VARIABLE, ""))
    if not (checkout / ".git").exists():
        print(f"Set {VARIABLE} to a checkout of graphcore/examples.", file=sys.stderr)
        return 2
    known = load_applications()
    wanted = [entry for entry in known if not options.names or any(name in entry.folder for name in options.names)]
    outcomes: list[Outcome] = []
    for application in wanted:
        for outcome in run_application(application, checkout, options):
            word = "passed" if outcome.passed else "FAILED"
            print(f"{outcome.folder:36} {outcome.kind:6} {word} {outcome.seconds:6.1f} s  {outcome.detail}", flush=True)
            outcomes.append(outcome)
            keep_outcomes([outcome], load_applications(), options.record)
    if options.page:
        folders = [application.folder for application in known]
        kept = [asdict(outcome) for outcome in read_record(known, options.record)]
        PAGE.write_text(write_page(kept, folders), encoding="utf-8")
    return 1 if any(not outcome.passed and outcome.fault in ("", "ours") for outcome in outcomes) else 0


def run_application(application: Application, checkout: Path, options: argparse.Namespace) -> Iterator[Outcome]:
    """Its runs share one folder: what training saves, inference may load."""
    python = prepare_environment(application.packages, options.environments)
    with tempfile.TemporaryDirectory(prefix="application-", ignore_cleanup_errors=True) as place:
        take_folder(application, checkout, Path(place))
        folder = Path(place) / application.folder
        for wanted in application.provides:
            write_data(wanted, folder)
        for wanted in application.makes:
            kind, _, path = wanted.partition(":")
            surroundings = os.environ | {"PYTHONPATH": str(STANDINS), "OPENIPU_APPLICATION_PLANS": os.devnull}
            subprocess.run([str(python), str(MODELS), kind, str(folder / path)], check=True, env=surroundings)
        add_files(application, folder)
        for library in application.libraries:
            build_empty_library(folder / library)
        for run in application.runs:
            if options.kind in (None, run.kind) and options.command in run.command:
                yield run_command(application, run, folder, python, options)


def take_folder(application: Application, checkout: Path, place: Path) -> None:
    """As the tag has it, with nothing that lies around in the checkout."""
    archive = subprocess.run(
        ["git", "-C", str(checkout), "archive", application.tag, application.folder, *application.beside],
        check=True,
        capture_output=True,
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(place, filter="data")


def add_files(application: Application, folder: Path) -> None:
    """Files of ours beside its own, and configurations of ours after its own. Raises FileExistsError rather than
    replace one of its files, FileNotFoundError rather than make a file of configurations."""
    for path, text in application.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with open(folder / path, "x", encoding="utf-8") as file:
            file.write(text)
    for path, text in application.configurations.items():
        with open(folder / path, "r+", encoding="utf-8") as file:
            file.seek(0, os.SEEK_END)
            file.write(text)


def build_empty_library(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(path)], check=True)


def run_command(application: Application, run: Run, folder: Path, python: Path, options: argparse.Namespace) -> Outcome:
    plans = folder / ".openipu-plans"
    plans.unlink(missing_ok=True)
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(STANDINS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENIPU_APPLICATION_PLANS": str(plans),
        "WANDB_MODE": "disabled",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # as torch.load was in their time; files are those that they wrote
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **({"OPENIPU_SYSTEM": run.system} if run.system else {}),
        **{name: value.format(folder=folder) for name, value in run.environment.items()},
    }
    surroundings["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(STANDINS), surroundings["PYTHONPATH"]]))
    started = time.monotonic()
    command = shlex.split(run.command.replace("{folder}", str(folder)))
    code, output = execute([str(python), *command], folder / run.folder, surroundings, options.timeout, run)
    seconds = round(time.monotonic() - started, 1)
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        (options.logs / f"{application.folder.replace('/', '_')}_{run.kind}.txt").write_text(output, encoding="utf-8")
    wrong = judge(run, code, output)
    planned = [json.loads(line) for line in plans.read_text().splitlines()] if plans.exists() else []
    if not wrong and not planned:
        wrong = "it compiled no program for an IPU"
    program = choose_program(planned, run)
    return Outcome(
        folder=application.folder,
        tag=application.tag,
        kind=run.kind,
        command=run.command,
        passed=not wrong,
        detail=run.reason or wrong if wrong else "",
        fault=run.fault if wrong else "",
        losses=tuple(read_losses(run, output)),
        modelled=program.get("samples_per_second"),
        fits=program.get("fits"),
        guessed=program.get("guessed"),
        published=run.published.rate / run.published.items if run.published else None,
        source=run.published.source if run.published else "",
        seconds=seconds,
    )


def choose_program(planned: list[dict[str, Any]], run: Run) -> dict[str, Any]:
    """The one that a run is about: that which it names, the last that trains where Keras tests afterwards, or the
    last."""
    named = [program for program in planned if run.program and program["name"] == run.program]
    fitted = [program for program in planned if run.kind in ("train", "both") and program["name"].endswith("_fit")]
    return (named or fitted or planned or [{}])[-1]


def execute(
    command: list[str], folder: Path, surroundings: dict[str, str], timeout: int, run: Run
) -> tuple[int | None, str]:
    """The exit code, None where it took too long, and all that was printed. What is left of its session is ended. A run
    that has printed enough losses is interrupted, and has ended well."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in a background job
        )
        try:
            code: int | None = wait_for_losses(process, output, timeout, run)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return code, output.read()


def wait_for_losses(process: subprocess.Popen[bytes], output: TextIO, timeout: float, run: Run) -> int:
    """Raises TimeoutExpired for a process that goes on for too long."""
    if not run.enough:
        return process.wait(timeout=timeout)
    ends = time.monotonic() + timeout
    while time.monotonic() < ends:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=LOOK_SECONDS)
        output.seek(0)
        if len(read_losses(run, output.read())) >= run.enough:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=END_SECONDS)
            return 0
    raise subprocess.TimeoutExpired(process.args, timeout)


if __name__ == "__main__":
    sys.exit(main())
