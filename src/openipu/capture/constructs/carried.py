"""Parameters that are moved by forward, and not before the micro-batches of an update are over.

In: a parameter, and the function that computes what it is to become. Out: a result of the micro graph whose nodes
belong to the update: they cost and write once an update, however many micro-batches come before.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from openipu.capture.active import find_active, skip_views
from openipu.capture.failures import locate
from openipu.errors import CaptureError
from openipu.graph import Phase


def carry_parameter(parameter: torch.Tensor, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The value that `parameter` has after the next update; forward goes on with the old one. Only while capturing."""
    capture = find_active()
    assert capture is not None
    assert capture.twins is not None
    wanted = skip_views(capture.recorder.node_of(parameter))
    names = [name for name, twin in capture.twins.parameters.items() if capture.recorder.node_of(twin) is wanted]
    if not names:
        raise CaptureError(
            locate("Only a parameter of the model can be moved once an update: pass one as it stands in the model.")
        )
    if names[0] in capture.carried:
        raise CaptureError(locate(f"Parameter {names[0]} is moved twice in an update. Move it once."))
    before, capture.notes.phase = capture.notes.phase, Phase.UPDATE
    try:
        with torch.no_grad():
            value = compute()
    finally:
        capture.notes.phase = before
    capture.carried[names[0]] = value
    return value
