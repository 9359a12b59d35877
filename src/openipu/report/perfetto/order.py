"""When each step runs on its IPU: one micro-batch on its way through the stages, one update, what runs once a call.

In: the steps of a profile. Out: a start in cycles for each. `web/timeline.js` has the same rule for the page.
"""

from __future__ import annotations

import numpy as np

from openipu.report.profile import UPDATE_PHASE, Floats, Profile, StepColumns

_UPDATE, _CALL = 1 << 40, 1 << 41  # turns after those of all stages
_LINK = "link"  # the kind of steps between IPUs


def find_starts(profile: Profile) -> Floats:
    """The cycle at which each step begins.

    Stages take turns, forward in order and backward in reverse; updates begin together and run side by side, but for
    exchanges between replicas, which take turns.
    """
    steps = profile.steps
    if len(profile.memory) < 2:
        ends: Floats = np.cumsum(steps.cycles)
        return ends - steps.cycles
    turns = _list_turns(steps)
    starts = np.zeros(len(steps), dtype=np.float64)
    ends_of_ipus: dict[int, float] = {}
    now = updated = exchanged = 0.0
    before = -1
    for step in np.argsort(turns, kind="stable").tolist():
        turn, ipu, cycles = int(turns[step]), int(steps.ipu[step]), float(steps.cycles[step])
        if turn != before and turn >= _UPDATE:
            now = updated = max([now, *ends_of_ipus.values()])
        before = turn
        is_shared = turn == _UPDATE and steps.kind[step] == _LINK
        start = max(ends_of_ipus.get(ipu, 0.0), updated, exchanged if is_shared else 0.0) if turn == _UPDATE else now
        starts[step] = start
        ends_of_ipus[ipu] = start + cycles
        if is_shared:
            exchanged = start + cycles
        if turn != _UPDATE:
            now = start + cycles
    return starts


def _list_turns(steps: StepColumns) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    phases = np.array(steps.phase, dtype=np.str_)
    stages = np.clip(steps.stage, -1, _UPDATE // 4)
    turns = np.where(phases == "backward", 2 * stages.max(initial=0) - stages, stages)
    turns = np.where(phases == UPDATE_PHASE, _UPDATE, turns)
    found: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.where(steps.per_call > 0, _CALL, turns)
    return found
