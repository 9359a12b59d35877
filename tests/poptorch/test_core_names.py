"""Names beside the models: test errors, checks of options, profiling channels, comparison of outputs."""

import pytest
import torch

import poptorch
from poptorch.poptorch_core import TestErrorType, _throwTestError, _validateOptions


@pytest.mark.parametrize("kind", list(TestErrorType))
def test_every_fault_can_be_tried(kind):
    with pytest.raises(poptorch.Error) as caught:
        _throwTestError(kind)
    assert "throwTestError::bottomLevel" in caught.value.location
    assert "throwTestError" not in caught.value.message


def test_faults_of_hardware_have_their_own_classes():
    with pytest.raises(poptorch.RecoverableError) as caught:
        _throwTestError(TestErrorType.PoplarRecoverableFullReset)
    assert caught.value.recovery_action == "FULL_RESET"
    with pytest.raises(poptorch.UnrecoverableError):
        _throwTestError(TestErrorType.PoplarUnrecoverable)


def list_options(name, value):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options._Popart.set(name, value)
    return options.toDict()


def test_names_of_popart_are_checked(caplog):
    with caplog.at_level("DEBUG", logger="poptorch::python"):
        _validateOptions(list_options("enableOutlining", True))
    assert "poptorch.Options set enableOutlining to value true" in caplog.text
    with pytest.raises(poptorch.Error, match="Unknown PopART option nonsense"):
        _validateOptions(list_options("nonsense", True))
    with pytest.raises(poptorch.Error, match=r"Unknown value type .* for option enableOutlining"):
        _validateOptions(list_options("enableOutlining", torch.ones(1)))


def test_channels_mark_sections_and_methods(caplog):
    class Loader:
        def read(self):
            return 3

    channel = poptorch.profiling.Channel("loader")
    loader = channel.instrument(Loader(), "read")
    with caplog.at_level(5, logger="poptorch::python"):
        assert loader.read() == 3
    assert "loader: read took" in caplog.text


def test_outputs_are_compared_with_their_structure():
    ones = torch.ones(2)
    assert poptorch.testing.allclose({"a": (ones, [ones])}, {"a": (ones, [ones + 1e-9])})
    assert not poptorch.testing.allclose((ones,), (ones + 1,))
    assert not poptorch.testing.allclose((ones,), (ones, ones))


def test_modules_are_printed_with_their_blocks(capsys):
    poptorch.print(poptorch.BeginBlock(torch.nn.Linear(1, 1), ipu_id=1))
    assert "BeginBlock" in capsys.readouterr().out
