"""The instrumentation library's own names, and what PopTorch and `pva` make of them."""

import pytest
import torch

import libpvti as pvti
import poptorch
import pva
from openipu.errors import TraceError
from openipu.trace import stop_tracing
from openipu.trace.read import read_trace


def show(events):
    return [(event.channel, event.label, show(event.children())) for event in events]


def test_trace_points_of_all_kinds_are_events(record):
    directory = record()
    channel = pvti.createTraceChannel("Mnist Application")

    class Loader:
        def read(self):
            return 3

    @pvti.instrument_fn(channel)
    def compute():
        return 4

    loader = pvti.instrument(Loader(), ["read"], channel)
    with pvti.Tracepoint(channel, "Epoch:0"):
        pvti.Tracepoint.event(channel, "begin")
        pvti.Tracepoint.begin(channel, "part")
        assert (loader.read(), compute()) == (3, 4)
        pvti.Tracepoint.end(channel, "part")
        pvti.Tracepoint.end(channel, "never begun")
    assert pvti.getCurrentTraceFilename().startswith(str(directory))
    stop_tracing()
    trace = pva.openTrace(str(next(directory.iterdir())))
    (event,) = trace.processes[0].threads[0].events
    assert (event.label, event.channel) == ("Epoch:0", "Mnist Application")
    first, part = event.children()
    assert (first.label, first.duration) == ("begin", 0.0)
    assert part.label == "part"
    names = [child.label for child in part.children()]
    assert names[0] == "Loader.read"
    assert names[1].endswith("compute")
    assert event.duration >= part.duration > 0
    process = trace.processes[0]
    assert trace.process(process.pid).thread(process.threads[0].tid) is process.threads[0]
    with pytest.raises(IndexError, match="no process 0"):
        trace.process(0)


def test_graphs_and_heatmaps_hold_numbers_over_time(record):
    directory = record()
    series = pvti.Graph("Loss", "nats").addSeries("training")
    for value in (3, 2.5, 2):
        series.add(value)
    heatmap = pvti.HeatmapDouble("weights", [0.0, 1.0, 2.0], "")
    heatmap.add([0.5, 0.6, 1.5, 9.0])  # the last one lies outside
    pvti.Tracepoint.event(pvti.traceFramework, "end")
    stop_tracing()
    (process,) = read_trace(directory).processes
    assert process.series[0].values.tolist() == [3, 2.5, 2]
    assert (process.series[0].graph, process.series[0].label, process.series[0].unit) == ("Loss", "training", "nats")
    assert process.heatmaps[0].counts.tolist() == [[2, 1]]


def test_channels_are_listed_and_switched(record):
    record()
    channel = pvti.createTraceChannel("mine")
    assert pvti.listTraceChannel()[:3] == [["Drivers", True], ["Poplar", True], ["Framework", True]]
    assert ["mine", True] in pvti.listTraceChannel()
    pvti.disableTraceChannel(channel)
    assert ["mine", False] in pvti.listTraceChannel()
    pvti.enableTraceChannels([channel, "Drivers"])
    assert ["mine", True] in pvti.listTraceChannel()


def test_while_tracing_is_off_all_of_it_is_accepted():
    stop_tracing()
    channel = pvti.createTraceChannel("mine")
    with pvti.Tracepoint(channel, "section"):
        pvti.Graph("Loss").addSeries("x").add(1)
        pvti.HeatmapInt("h", [0, 1]).add([0])
        pvti.Tracepoint.begin(channel, "a")
        pvti.Tracepoint.end(channel, "a")
    assert pvti.getCurrentTraceFilename() == ""
    with pytest.raises(ValueError, match="must be at least two numbers that rise"):
        pvti.HeatmapDouble("h", [1.0, 1.0])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, target):
        out = self.layer(x)
        return out, poptorch.identity_loss(torch.nn.functional.cross_entropy(out, target), reduction="mean")


def test_a_training_run_leaves_lanes_of_all_that_the_host_did(record, tmp_path):
    directory = record()
    options = poptorch.Options().enableProfiling(str(tmp_path / "profile"))
    options.Training.gradientAccumulation(2)
    data = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.zeros(12, dtype=torch.long))
    loader = poptorch.DataLoader(options, data, batch_size=2)
    model = Net()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    channel = poptorch.profiling.Channel("MyApp")
    with channel.tracepoint("epoch"):
        for x, target in loader:
            training(x, target)
    training.copyWeightsToHost()
    stop_tracing()
    (thread,) = read_trace(directory).list_threads()
    counts: dict[tuple[str, str], int] = {}
    for place, label in zip(thread.channel, thread.label, strict=True):
        key = (thread.names[place], thread.names[label])
        counts[key] = counts.get(key, 0) + 1
    assert counts["MyApp", "MyApp.epoch"] == 1
    assert counts["data loading", "DataLoader: next batch"] == 3 + 1  # 12 samples / (2 x 2), and the end
    assert counts["run", "training"] == 3
    assert 3 <= counts["run", "micro-batch"] <= 3 * 2  # folded or not
    for once in (
        ("compile", "poptorch.trainingModel.modelCompilation"),
        ("capture", "capture"),
        ("plan", "plan"),
        ("plan", "write profile"),
        ("wait", "attach to IPUs"),
        ("transfer", "weights to the device"),
        ("transfer", "weights to the host"),
    ):
        assert counts[once] == 1, once
    parents = {thread.names[thread.label[at]]: int(parent) for at, parent in enumerate(thread.parents)}
    assert thread.names[thread.label[parents["capture"]]] == "compile training"
    assert thread.names[thread.label[parents["micro-batch"]]] == "training"


def test_a_foreign_trace_is_refused_by_the_analysis_library_too(tmp_path):
    (tmp_path / "x.pvti").write_text("hello")
    with pytest.raises(TraceError, match="damaged, or is no trace"):
        pva.openTrace(str(tmp_path / "x.pvti"))
