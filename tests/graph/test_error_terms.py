"""Errors carry terms, which each front end phrases in its own words."""

import pickle

import pytest

from openipu.errors import BroadcastError, OptionError, Term
from openipu.graph import OutputMode, RunOptions
from poptorch.errors import phrase_error


def test_a_message_reads_in_openipus_own_names_and_in_those_of_a_front_end():
    with pytest.raises(OptionError) as caught:
        RunOptions(output_mode=OutputMode.EVERY_N, output_period=3, device_iterations=4)
    assert str(caught.value) == "output_period (3) must divide device_iterations (4)."
    assert phrase_error(caught.value) == (
        "the output_return_period of poptorch.Options().outputMode (3) must divide "
        "poptorch.Options().deviceIterations (4)."
    )


def test_words_of_the_user_that_look_like_an_option_stay_as_they_are():
    error = OptionError(f"input 'device_iterations' is too small for {Term.DEVICE_ITERATIONS}")
    assert phrase_error(error) == ("input 'device_iterations' is too small for poptorch.Options().deviceIterations")


def test_a_known_kind_of_error_begins_with_the_sentence_that_users_know():
    assert phrase_error(BroadcastError("x")).startswith("PopTorch does not support broadcasting buffers.")


def test_an_error_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(OptionError(f"set {Term.LOSS}")))
    assert str(error) == "set mark_loss"
