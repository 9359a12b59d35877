"""Insights on time: where the cycles of a call go, and which of them a change would save.

In: a `Case`. Out: `Finding`s. Thresholds are shares of the busy cycles of a call.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openipu.report.insights.finding import Case, Finding, Level
from openipu.report.profile import UPDATE_PHASE
from openipu.report.summary import share_of_peak
from openipu.report.units import format_share

MUCH_EXCHANGE = 0.3
MUCH_SYNC = 0.15
MUCH_HOST = 0.15
MUCH_UPDATE = 0.25
MUCH_LAYOUT = 0.1
MUCH_GUESSED = 0.05
MOST_OF_THE_TIME = 0.5
POOR_USE = 0.25  # of the peak of the matrix units
WORTH_A_WORD = 0.05
FEW_TILES = 0.5
MATRIX_FAMILIES = ("matmul", "convolution")


def find_exchange(case: Case) -> Iterator[Finding]:
    """Ops that move bytes for longer than they compute."""
    share = case.share_of_kind("exchange")
    if share < MUCH_EXCHANGE:
        return
    moving = case.cycles_by_op(case.kinds == "exchange")
    computing = case.cycles_by_op(case.kinds == "compute")
    bound = np.where(moving > computing, moving, 0.0)
    yield Finding(
        rule="exchange-bound",
        topic="time",
        level=Level.PROBLEM if share > MOST_OF_THE_TIME else Level.ADVICE,
        title=f"Exchange between tiles takes {format_share(share)} of a call",
        value=share,
        unit="share",
        cause=f"{int((bound > 0).sum()):,} of {len(case.profile.ops):,} ops move bytes for longer than they compute.",
        remedy="A larger micro-batch computes more on each byte moved. A higher available-memory proportion lets "
        "matmuls and "
        "convolutions move their operands once. Half precision and half partial sums halve the bytes.",
        takes_memory=True,
        link={"view": "operations", "sort": "exchange"},
        evidence=case.list_ops(bound if bound.any() else moving, " in exchange"),
    )


def find_poor_matrix_use(case: Case) -> Iterator[Finding]:
    """Matmuls and convolutions far below the peak of the matrix units."""
    profile = case.profile
    cycles = case.cycles_by_op(np.ones(len(case.steps), dtype=np.bool_))
    poor, peaks = np.zeros_like(cycles), []
    for op in profile.ops:
        reached = share_of_peak(op, case.element_bytes.get(op.index), profile.system)
        if op.family in MATRIX_FAMILIES and reached is not None and reached < POOR_USE:
            poor[op.index] = cycles[op.index]
            peaks.append((float(cycles[op.index]), reached))
    share, weight = case.share(float(poor.sum())), sum(cycles for cycles, _ in peaks)
    if share < WORTH_A_WORD or not weight:
        return
    mean = sum(cycles * reached for cycles, reached in peaks) / weight
    yield Finding(
        rule="poor-matrix-use",
        topic="time",
        level=Level.PROBLEM if share > MOST_OF_THE_TIME and mean < POOR_USE / 4 else Level.ADVICE,
        title=f"Matmuls and convolutions that take {format_share(share)} of a call reach {format_share(mean)} of peak",
        value=mean,
        unit="share",
        cause=f"{len(peaks):,} of them stay below {POOR_USE:.0%} of peak: too little work for each tile, or channels "
        "that do "
        "not fill the matrix units (16 at a time).",
        remedy="Take a larger micro-batch or longer sequences; make channels and features multiples of 16, better of "
        "64; "
        "use half precision.",
        takes_memory=True,
        link={"view": "operations", "sort": "peak", "order": "up"},
        evidence=case.list_ops(poor, " of a call"),
    )


def find_float_matmuls(case: Case) -> Iterator[Finding]:
    """Float32 products where half would reach several times the rate."""
    profile, target = case.profile, case.profile.system.target
    cycles = case.cycles_by_op(case.kinds == "compute")
    wide = np.zeros_like(cycles)
    for op in profile.ops:
        if op.family in MATRIX_FAMILIES and case.element_bytes.get(op.index) == 4:
            wide[op.index] = cycles[op.index]
    share, gain = case.share(float(wide.sum())), target.peak_flops(2) / target.peak_flops(4)
    if share < WORTH_A_WORD:
        return
    yield Finding(
        rule="float-products",
        topic="time",
        level=Level.ADVICE,
        title=f"Matmuls and convolutions in float32 compute for {format_share(share)} of a call",
        value=share,
        unit="share",
        cause=f"The matrix units do {gain:.0f}x as many products a cycle in half precision.",
        remedy=f"Run the model in half (model.half(), loss scaling in training): up to "
        f"{format_share(share * (1 - 1 / gain))} "
        "of the call is saved, and its tensors take half the memory.",
        link={"view": "operations", "filter": "mm"},
        evidence=case.list_ops(wide, " of a call"),
    )


def find_host_bound(case: Case) -> Iterator[Finding]:
    """Streams from and to the host, and waits for it, that nothing hides."""
    share = case.share_of_kind("host")
    if share < MUCH_HOST:
        return
    profile = case.profile
    host = np.flatnonzero(case.kinds == "host")
    worst = int(host[np.argmax(case.call_cycles[host])])
    moved = int(case.steps.moved_bytes[host].sum())
    yield Finding(
        rule="host-bound",
        topic="time",
        level=Level.PROBLEM if share > MOST_OF_THE_TIME else Level.ADVICE,
        title=f"The IPUs wait {format_share(share)} of a call for the host",
        value=share,
        unit="share",
        cause=f"{moved:,} bytes go over the host link in one execution; longest: {case.steps.name[worst]}.",
        remedy="Send less: narrower inputs (uint8 or half), fewer outputs. Send more at a time: more device iterations "
        f"(now {profile.options.get('device_iterations', 1)}). Hide it: I/O tiles and overlapped input and output.",
        takes_memory=True,
        link={"view": "liveness", "step": worst},
    )


def find_sync(case: Case) -> Iterator[Finding]:
    """Many short steps: tiles spend their time meeting one another."""
    share = case.share_of_kind("sync")
    if share < MUCH_SYNC:
        return
    syncs = case.cycles_by_op(case.kinds == "sync")
    mean = float(case.steps.cycles[case.kinds != "sync"].mean()) if (case.kinds != "sync").any() else 0.0
    yield Finding(
        rule="many-syncs",
        topic="time",
        level=Level.ADVICE,
        title=f"Syncs take {format_share(share)} of a call",
        value=share,
        unit="share",
        cause=f"A step between two syncs lasts only {mean:,.0f} cycles on average: the ops are small.",
        remedy="Give each op more work (a larger micro-batch), or write fewer, larger ops: one batched matmul in "
        "place of many.",
        takes_memory=True,
        link={"view": "trace"},
        evidence=case.list_ops(syncs, " in syncs"),
    )


def find_idle_tiles(case: Case) -> Iterator[Finding]:
    """Compute steps that leave most tiles idle."""
    limit = case.profile.system.target.tiles * FEW_TILES
    few = (case.kinds == "compute") & (case.steps.tiles < limit)
    share = case.share(float(case.call_cycles[few].sum()))
    if share < MUCH_LAYOUT:
        return
    yield Finding(
        rule="idle-tiles",
        topic="time",
        level=Level.ADVICE,
        title=f"For {format_share(share)} of a call fewer than half of the tiles compute",
        value=share,
        unit="share",
        cause=f"{int(few.sum()):,} steps use {float(case.steps.tiles[few].mean()):,.0f} of "
        f"{case.profile.system.target.tiles:,} tiles on average: their tensors are too small to spread.",
        remedy="Take a larger micro-batch, or join small tensors before the op.",
        takes_memory=True,
        link={"view": "operations"},
        evidence=case.list_ops(case.cycles_by_op(few), " of a call"),
    )


def find_layout(case: Case) -> Iterator[Finding]:
    """Copies and transposes: bytes that move without being computed on."""
    families = np.array([op.family == "layout" for op in case.profile.ops], dtype=np.bool_)
    cycles = case.cycles_by_op(np.ones(len(case.steps), dtype=np.bool_))
    moved = np.where(families, cycles, 0.0) if families.size else cycles
    share = case.share(float(moved.sum()))
    if share < MUCH_LAYOUT:
        return
    yield Finding(
        rule="much-copying",
        topic="time",
        level=Level.ADVICE,
        title=f"Copies and transposes take {format_share(share)} of a call",
        value=share,
        unit="share",
        cause=f"{int((moved > 0).sum()):,} ops only move or reorder bytes.",
        remedy="Keep one layout through the model: transpose weights once outside forward, avoid permute followed by "
        "contiguous, concatenate before the loop.",
        link={"view": "operations", "filter": "layout"},
        evidence=case.list_ops(moved, " of a call"),
    )


def find_links(case: Case) -> Iterator[Finding]:
    """Tensors that travel between IPUs."""
    share = case.share_of_kind("link")
    if share < MUCH_LAYOUT:
        return
    cycles = case.cycles_by_op(case.kinds == "link")
    moved = int(case.steps.moved_bytes[case.kinds == "link"].sum())
    yield Finding(
        rule="link-bound",
        topic="time",
        level=Level.PROBLEM if share > MOST_OF_THE_TIME else Level.ADVICE,
        title=f"Copies between IPUs take {format_share(share)} of the IPUs' busy time",
        value=share,
        unit="share",
        cause=f"{moved:,} bytes go over the links in {int((case.kinds == 'link').sum()):,} steps of one execution.",
        remedy="Cut the model where the tensors between two IPUs are small. A weight that two layers share travels "
        "with every micro-batch: put both layers on one IPU, or untie them.",
        link={"view": "operations", "filter": "transfer"},
        evidence=case.list_ops(cycles, " in copies"),
    )


def find_update(case: Case) -> Iterator[Finding]:
    """Weight updates that take a large part of a call."""
    phases = np.array(case.steps.phase, dtype=np.str_)
    share = case.share(float(case.call_cycles[phases == UPDATE_PHASE].sum()))
    if share < MUCH_UPDATE:
        return
    now = int(case.profile.options.get("gradient_accumulation", 1))
    after = share / 2 / (share / 2 + (1 - share))  # twice the micro-batches for the same updates
    yield Finding(
        rule="much-updating",
        topic="time",
        level=Level.ADVICE,
        title=f"Weight updates take {format_share(share)} of a call",
        value=share,
        unit="share",
        cause=f"Gradients of {now:,} micro-batch{'' if now == 1 else 'es'} make an update.",
        remedy=f"Gradient accumulation over {2 * now:,} would bring that to {format_share(after)}; "
        "adapt the learning rate to the larger batch.",
        takes_memory=now == 1,  # accumulators
        link={"view": "operations", "filter": "update"},
        evidence=case.list_ops(case.cycles_by_op(phases == UPDATE_PHASE), " of a call"),
    )


def find_guesses(case: Case) -> Iterator[Finding]:
    """How much of the answer rests on guesses."""
    guessed = np.array([op.provenance == "guessed" for op in case.profile.ops], dtype=np.bool_)
    cycles = case.cycles_by_op(np.ones(len(case.steps), dtype=np.bool_))
    own = np.where(guessed, cycles, 0.0) if guessed.size else cycles
    share = case.share(float(own.sum()))
    if share < MUCH_GUESSED:
        return
    yield Finding(
        rule="guessed-costs",
        topic="time",
        level=Level.NOTE,
        title=f"{format_share(share)} of the cycles rest on guessed costs",
        value=share,
        unit="share",
        cause=f"{int(guessed.sum()):,} ops have no published or derived cost.",
        remedy="Treat times as rough where these ops weigh; a measured figure for them would help most.",
        link={"view": "operations", "filter": "guessed"},
        evidence=case.list_ops(own, " of a call"),
    )
