"""Memory of a tile, and the link to the host.

In: rows of bandwidths and latencies. Out: predictions from the target's load width and the system's host figures.
"""

from __future__ import annotations

from openipu.ops.patterns import WORD_BYTES
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.reading import find_bench, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow

_FLOAT_BYTES = 4
_COMPILER_LOAD_BYTES = 8  # the C++ compiler does not emit 128-bit loads
_LOAD_EFFICIENCY = 0.98  # a loop's start and end around a run of loads


def predict_local_read(row: FigureRow) -> Outcome:
    """One load an instruction: the width depends on who wrote it, an assembler or a compiler."""
    bench = find_bench(row)
    method = str(row.params.get("method", "asm 128-bit loads")).lower()
    target = bench.system.target
    if "128" in method:
        width = target.load_bytes_per_cycle
    elif "64" in method:
        width = target.load_bytes_per_cycle // 2
    elif "float" in method:
        lanes = int("".join(letter for letter in method.rpartition("float")[2] if letter.isdigit()) or 1)
        width = min(_COMPILER_LOAD_BYTES, lanes * _FLOAT_BYTES)
    elif "naive" in method:
        width = _FLOAT_BYTES
    else:
        return Unmodelled(f"how the method {method!r} loads is not known")
    rate = width * _LOAD_EFFICIENCY * row.read_size("tiles", bench.tiles) * target.clock_hz
    return Prediction.around(row.from_si(rate), confidence.LOCAL_MEMORY, "load width of the target")


def predict_host_latency(row: FigureRow) -> Outcome:
    """The smallest transfer, and a word for each further tile."""
    bench = find_bench(row)
    words = bench.tiles if "all tiles" in row.workload else 1
    seconds = bench.system.host_latency_seconds + (words - 1) * WORD_BYTES / bench.system.stream_bytes_per_second
    return Prediction.around(row.from_si(seconds), confidence.HOST, "host latency of the system")


def predict_host_stream(row: FigureRow) -> Outcome:
    """Each IPU at its own rate, each board at no more than its link has."""
    system = find_bench(row).system
    ipus = row.read_size("ipus", row.ipus)
    boards, rest = divmod(ipus, system.ipus_per_board)
    limit = system.board_host_bytes_per_second or float("inf")
    rates = [min(limit, system.ipus_per_board * system.host_bytes_per_second)] * boards
    rates += [min(limit, rest * system.host_bytes_per_second)]
    return Prediction.around(row.from_si(sum(rates)), confidence.HOST, "host rates of the system")


MEMORY_PREDICTORS = (
    Predictor("local memory", speaks_of("local memory read"), predict_local_read),
    Predictor("host stream", speaks_of("host-to-ipu streaming"), predict_host_stream),
    Predictor("host latency", speaks_of("host-to-ipu", metric="latency"), predict_host_latency),
)
