"""The page of applications is what the kept outcomes say, and configurations are added without changing programs."""

from dataclasses import asdict, replace

import pytest
from applications.entries import Application, Run, load_applications, read_application
from applications.page import PAGE, write_page
from applications.record import Outcome, keep_outcomes, read_record
from run_applications import add_files

RUNS = tuple(Run(kind="train", command=command, loss="loss (.*)") for command in ("first.py", "second.py"))
KNOWN = [
    Application(folder="vision/net", tag="v1", runs=RUNS, catalogue="here"),
    Application(folder="nlp/other", tag="v1", runs=RUNS[:1], catalogue="there"),
]
OUTCOME = Outcome(
    folder="vision/net", tag="v1", kind="train", command="first.py", passed=True, detail="", fault="",
    losses=(2.0, 1.0, 0.5), modelled=1500.0, fits=True, guessed=0.1, published=None, source="", seconds=1.0,
)  # fmt: skip


def test_the_page_is_what_the_kept_outcomes_say():
    known = load_applications()
    kept = [asdict(outcome) for outcome in read_record(known)]
    assert PAGE.read_text(encoding="utf-8") == write_page(kept, [entry.folder for entry in known])


def test_an_outcome_takes_the_place_of_an_older_one_and_leaves_others(tmp_path):
    second = replace(OUTCOME, command="second.py")
    other = replace(OUTCOME, folder="nlp/other")
    keep_outcomes([other, second, OUTCOME], KNOWN, tmp_path)
    newer = replace(OUTCOME, passed=False, losses=(1.0,))
    keep_outcomes([newer], KNOWN, tmp_path)
    assert read_record(KNOWN, tmp_path) == [newer, second, other]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.json", "there.json"]


def test_what_was_run_by_another_command_is_not_kept(tmp_path):
    keep_outcomes([OUTCOME], KNOWN, tmp_path)
    changed = replace(KNOWN[0], runs=RUNS[1:])
    assert read_record([changed], tmp_path) == []


def test_a_configuration_stands_behind_those_that_were_there(tmp_path):
    (tmp_path / "configs.yaml").write_text("LARGE: {}\n")
    application = replace(KNOWN[0], configurations={"configs.yaml": "SMALL: {}\n"}, files={"deep/new.txt": "new"})
    add_files(application, tmp_path)
    assert (tmp_path / "configs.yaml").read_text() == "LARGE: {}\nSMALL: {}\n"
    assert (tmp_path / "deep/new.txt").read_text() == "new"


def test_no_file_of_an_application_is_replaced_or_made_up(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    with pytest.raises(FileExistsError):
        add_files(replace(KNOWN[0], files={"train.py": ""}), tmp_path)
    with pytest.raises(FileNotFoundError):
        add_files(replace(KNOWN[0], configurations={"sizes.yaml": "A: 1\n"}), tmp_path)
    assert (tmp_path / "train.py").read_text() == "import torch\n"


def test_a_program_is_not_a_file_of_configurations():
    run = {"kind": "infer", "command": "infer.py"}
    with pytest.raises(ValueError, match=r"not \['train\.py'\]"):
        read_application({"folder": "a", "tag": "v1", "run": [run], "configurations": {"train.py": "x = 1"}})
