"""The modelled execution as a Perfetto trace, read back with the descriptors that Perfetto publishes."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan

from openipu.cli.main import main
from openipu.report import Profile, build_profile, write_profile
from openipu.report.perfetto import modelled, write_perfetto
from openipu.report.perfetto.modelled import render_perfetto

DESCRIPTORS = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
protos: Any = importlib.import_module(DESCRIPTORS)


@dataclasses.dataclass
class Slice:
    name: str
    category: str
    process: str
    track: str
    start: int
    end: int
    depth: int
    details: dict[str, Any]


class Trace:
    """What a trace holds, by the rules of its format: texts by number, tracks by parent, slices by nesting."""

    def __init__(self, content: bytes) -> None:
        trace = protos.Trace.FromString(content)
        trace.DiscardUnknownFields()  # what has another number or type than published
        assert trace.ByteSize() == len(content)
        self.slices: list[Slice] = []
        self.counters: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        self._texts: dict[tuple[str, int], str] = {}
        self._tracks: dict[int, Any] = {}
        open_slices: dict[int, list[Slice]] = defaultdict(list)
        assert trace.packet[0].sequence_flags == protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            self._learn(packet.interned_data)
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self._tracks
                self._tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("track_event"):
                assert packet.HasField("timestamp")
                self._read_event(packet.track_event, packet.timestamp, open_slices[packet.track_event.track_uuid])
        assert not any(open_slices.values())

    def _learn(self, data: Any) -> None:
        for field in ("event_categories", "event_names", "debug_annotation_names"):
            self._texts.update({(field, entry.iid): entry.name for entry in getattr(data, field)})
        for entry in data.debug_annotation_string_values:
            self._texts["values", entry.iid] = entry.str.decode()

    def _read_event(self, event: Any, time: int, stack: list[Slice]) -> None:
        track = self._tracks[event.track_uuid]
        process = self._tracks[track.parent_uuid].process.process_name
        if event.type == protos.TrackEvent.TYPE_COUNTER:
            assert track.counter.unit == protos.CounterDescriptor.UNIT_SIZE_BYTES
            self.counters[process, track.name].append((time, event.counter_value))
        elif event.type == protos.TrackEvent.TYPE_SLICE_END:
            ended = stack.pop()
            assert ended.start <= time
            ended.end = time
        else:
            assert event.type == protos.TrackEvent.TYPE_SLICE_BEGIN
            assert not stack or stack[-1].start <= time
            details = {
                self._texts["debug_annotation_names", entry.name_iid]: self._value(entry)
                for entry in event.debug_annotations
            }
            name = self._texts["event_names", event.name_iid]
            (category,) = (self._texts["event_categories", iid] for iid in event.category_iids)
            stack.append(Slice(name, category, process, track.name, time, -1, len(stack), details))
            self.slices.append(stack[-1])

    def _value(self, entry: Any) -> Any:
        kind = entry.WhichOneof("value")
        return self._texts["values", entry.string_value_iid] if kind == "string_value_iid" else getattr(entry, kind)


@pytest.fixture(scope="module", params=["one IPU", "pipeline"])
def profile(request: pytest.FixtureRequest) -> Profile:
    return build_profile(make_cnn_plan() if request.param == "one IPU" else make_pipelined_plan())


@pytest.fixture(scope="module")
def trace(profile: Profile) -> Trace:
    return Trace(render_perfetto(profile))


def test_the_cycles_of_all_steps_are_those_of_the_plan(profile: Profile, trace: Trace) -> None:
    steps = [entry for entry in trace.slices if entry.category == "step"]
    assert sorted(entry.details["step"] for entry in steps) == list(range(len(profile.steps)))
    for entry in steps:
        step = entry.details["step"]
        assert entry.details["cycles"] == profile.steps.cycles[step]
        assert entry.name == profile.steps.kind[step]
        assert entry.process.startswith(f"IPU {profile.steps.ipu[step]}: ")
    busy = sum(entry.details["cycles"] * entry.details["executions_per_call"] for entry in steps)
    expected = sum(
        cycles * (1 if once else profile.executions(phase))
        for cycles, once, phase in zip(
            profile.steps.cycles.tolist(), profile.steps.per_call.tolist(), profile.steps.phase, strict=True
        )
    )
    assert busy == pytest.approx(expected, rel=1e-12)


def test_durations_are_the_cycles_by_the_clock_and_no_rounding_adds_up(profile: Profile, trace: Trace) -> None:
    ns = 1e9 / profile.timing.clock_hz
    for entry in trace.slices:
        if "cycles" in entry.details:
            assert entry.end - entry.start == pytest.approx(entry.details["cycles"] * ns, abs=1.0)
    by_ipu: dict[str, list[Slice]] = defaultdict(list)
    for entry in trace.slices:
        if entry.category == "step":
            by_ipu[entry.process].append(entry)
    for own in by_ipu.values():
        own.sort(key=lambda entry: entry.start)
        assert all(one.end <= other.start for one, other in itertools.pairwise(own))  # one step at a time
    if len(profile.memory) == 1:
        whole = float(profile.steps.cycles.sum()) * ns
        assert max(entry.end for entry in trace.slices) == pytest.approx(whole, abs=1.0)


def test_ops_lie_inside_their_modules_and_carry_the_cycles_of_the_plan(profile: Profile, trace: Trace) -> None:
    cycles: dict[int, float] = defaultdict(float)
    for entry in trace.slices:
        if entry.category == "op":
            op = profile.ops[entry.details["op"]]
            cycles[op.index] += entry.details["cycles"]
            assert entry.details["module"] == op.module
            assert entry.depth == 1 + len(op.module.split("."))  # below its phase and each part of its path
            assert entry.details.get("line", "") == str(op.line or "")
    assert cycles == {op.index: pytest.approx(op.cycles) for op in profile.ops}


def test_live_memory_is_a_counter_with_the_values_of_the_plan(profile: Profile, trace: Trace) -> None:
    for memory in profile.memory:
        own = profile.steps.ipu == memory.ipu
        points = next(
            values
            for (process, name), values in trace.counters.items()
            if process.startswith(f"IPU {memory.ipu}: ") and name == "not always live, all tiles"
        )
        assert max(value for _, value in points) == int(memory.live_by_step[own].max())
        assert all(one[0] <= other[0] and one[1] != other[1] for one, other in itertools.pairwise(points))


def test_a_pipeline_has_its_ticks_and_ends_when_the_plan_says() -> None:
    profile = build_profile(make_pipelined_plan(micro_batches=16))
    trace = Trace(render_perfetto(profile))
    assert profile.pipeline is not None
    ticks = [entry for entry in trace.slices if entry.process.startswith("pipeline of")]
    assert len(ticks) == 16 * len(profile.pipeline.stages)
    ns = 1e9 / profile.timing.clock_hz
    assert max(entry.end for entry in ticks) == pytest.approx(profile.pipeline.total_cycles * ns, abs=1.0)
    work = 16 * sum(stage.cycles for stage in profile.pipeline.stages)
    assert sum(entry.details["cycles"] for entry in ticks) == pytest.approx(work)


def test_updates_of_several_ipus_run_side_by_side_after_the_micro_batch() -> None:
    profile = build_profile(make_pipelined_plan())
    trace = Trace(render_perfetto(profile))
    steps = [entry for entry in trace.slices if entry.category == "step"]
    first: dict[str, int] = {}
    for entry in steps:
        if entry.details["phase"] == "update":
            first.setdefault(entry.process, entry.start)
    assert len(first) == 4
    assert len(set(first.values())) == 1
    assert max(entry.end for entry in steps if entry.details["phase"] != "update") == next(iter(first.values()))


def test_a_pipeline_of_endless_ticks_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelled, "MOST_TICKS", 50)
    profile = build_profile(make_pipelined_plan(micro_batches=100))
    assert profile.pipeline is not None
    trace = Trace(render_perfetto(profile))
    (left,) = (entry for entry in trace.slices if entry.category == "not shown")
    ticks = 100 + len(profile.pipeline.stages) - 1
    assert left.name == f"{ticks - 50} more ticks"
    ns = 1e9 / profile.timing.clock_hz
    assert left.end == pytest.approx(profile.pipeline.total_cycles * ns, abs=1.0)


def test_names_of_any_kind_survive(tmp_path: Path) -> None:
    profile = build_profile(make_cnn_plan("naïve → \ud800 {{data}} 模型"))
    trace = Trace(render_perfetto(profile))
    assert "naïve → ? {{data}} 模型" in trace.slices[0].process


def test_the_command_line_writes_a_trace_and_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = build_profile(make_cnn_plan())
    write_profile(profile, tmp_path)
    assert main(["report", str(tmp_path), "--perfetto", str(tmp_path / "run.pftrace")]) == 0
    assert "run.pftrace" in capsys.readouterr().out
    plain = (tmp_path / "run.pftrace").read_bytes()
    assert plain == render_perfetto(profile)
    assert not (tmp_path / "report.html").exists()
    packed = write_perfetto(profile, tmp_path / "run.pftrace.gz").read_bytes()
    assert gzip.decompress(packed) == plain
    assert main(["report", str(tmp_path), str(tmp_path), "--perfetto", str(tmp_path / "two")]) == 2
    assert "--perfetto takes one profile" in capsys.readouterr().err
