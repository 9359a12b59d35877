"""What a run printed decides whether it did well."""

from dataclasses import replace

import pytest
from applications.entries import Run
from applications.judging import falls, judge, last_words, read_losses
from applications.page import write_error, write_page
from run_applications import choose_program

TRAINING = Run(kind="train", command="train.py", loss=r"loss: ([0-9.e+-]+)")
SHOWN = "step 1 loss: 2.5\nstep 2 loss: \x1b[1m1,000\x1b[0m\nstep 3 loss: 1e-1\n"


def test_losses_are_read_in_order_without_the_colours_around_them():
    run = Run(kind="train", command="train.py", loss=r"loss: ([0-9.,e+-]+)")
    assert read_losses(run, SHOWN) == [2.5, 1000.0, 0.1]


def test_a_progress_bar_that_is_drawn_again_has_one_loss():
    assert read_losses(TRAINING, "loss: 3\rloss: 3\rloss: 2\rloss: 3") == [3.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([3, 2, 1], True),
        ([1, 2, 3], False),
        ([2, 2, 2], False),
        ([3, 8, 9, 9, 9, 3], False),
        ([9, 3, 9, 9, 2, 2], True),
    ],
)
def test_a_loss_falls_if_its_last_third_is_lower_than_its_first(losses, expected):
    assert falls(losses) is expected


@pytest.mark.parametrize(
    ("code", "printed", "said"),
    [
        (0, "loss: 3\nloss: 2\nloss: 1", ""),
        (0, "loss: 3\nloss: 2", "prints 2 losses, not 3"),
        (0, "loss: 1\nloss: 2\nloss: 3", "does not fall: 1 to 3"),
        (0, "loss: 1\nloss: 1e400\nloss: 0.5", "not finite"),
        (None, "loss: 3\nloss: 2\nloss: 1", "too long"),
        (1, "Traceback\nValueError: no\nGoodbye", "ValueError: no"),
        (3, "", "exit code 3"),
    ],
)
def test_a_training_run_is_judged_by_its_end_and_its_losses(code, printed, said):
    wrong = judge(TRAINING, code, printed)
    assert said in wrong if said else wrong == ""


def test_an_inference_run_must_print_what_it_should():
    run = Run(kind="infer", command="infer.py", expects="images/sec")
    assert judge(run, 0, "10 images/sec") == ""
    assert judge(run, 0, "done") == "it does not print 'images/sec'"


def test_the_last_words_are_the_error_that_ended_it():
    assert (
        last_words("a.b.SomeError: first\npoptorch.errors.Error: second\n[info] bye") == "poptorch.errors.Error: second"
    )


def test_the_page_says_whose_fault_a_failure_is():
    outcome = {
        "folder": "vision/net", "tag": "v1", "kind": "train", "command": "train.py --now", "passed": True, "detail": "",
        "fault": "", "losses": (2.0, 1.0, 0.5), "modelled": 1500.0, "fits": True, "guessed": 0.1, "published": 1000.0,
        "source": "its README", "seconds": 1.0,
    }  # fmt: skip
    broken = {**outcome, "folder": "nlp/other", "passed": False, "fault": "the application's", "detail": "a | b"}
    page = write_page([outcome, broken])
    assert "1 of 2 applications run: 1 train, 0 infer" in page
    assert "| vision/net | v1 | trains | 2 to 0.5 in 3 reports | 1,500 | 10% | 1,000 | +50% |" in page
    assert "| nlp/other | `train.py` | the application's | a \\| b |" in page
    assert "counted here yet" not in page
    assert write_error(None, 5.0) == ""


def test_the_page_names_what_was_not_run():
    page = write_page([], ["gnn/a", "gnn/b", "gnn/a"])
    assert page.endswith("without a run that is counted here yet: gnn/a, gnn/b.\n")


def test_a_training_run_is_about_the_program_that_trains():
    planned = [{"name": "net_fit"}, {"name": "net_predict"}]
    assert choose_program(planned, TRAINING) == {"name": "net_fit"}
    assert choose_program(planned, Run(kind="infer", command="infer.py")) == {"name": "net_predict"}
    assert choose_program([{"name": "net"}], TRAINING) == {"name": "net"}
    assert choose_program([], TRAINING) == {}


def test_a_run_may_name_the_program_that_it_is_about():
    planned = [{"name": "step"}, {"name": "test"}]
    assert choose_program(planned, replace(TRAINING, program="step")) == {"name": "step"}
    assert choose_program(planned, replace(TRAINING, program="other")) == {"name": "test"}
