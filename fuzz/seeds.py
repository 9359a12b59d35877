"""Whole files of every kind, made the same way every time.

In: a directory. Out: files in it; their endings say how they are to be damaged. Seeds are made, not kept: a change of a
format or a version needs no new files. What once went wrong is kept, in `regressions/`.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any


def write_profiles(directory: Path) -> None:
    """A small chip, so that a file is small: one program on one IPU, one in a pipeline over two."""
    from fuzz.tiny_profile import make_profile
    from openipu.report import write_profile

    for name, stages in (("plain", 0), ("pipeline", 3)):
        write_profile(make_profile(stages), directory).rename(directory / f"{name}.db")


def write_traces(directory: Path) -> None:
    from openipu.trace.trace_file import APPLICATION_ID, SCHEMA_VERSION, TABLES

    random = Random(1)
    begin = 1_700_000_000_000_000_000
    with closing(sqlite3.connect(directory / "run.db")) as connection:
        connection.executescript(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; {TABLES}"
        )
        rows: dict[str, list[tuple[Any, ...]]] = {
            "meta": [("pid", 4711), ("command", "train.py --epochs 1"), ("started_ns", begin)],
            "names": [(index, name) for index, name in enumerate(("Run", "step", "Compile", "capture", "loading"))],
            "threads": [(1, "MainThread"), (2, "loader")],
            "events": [
                (
                    1 + index % 2,
                    index % 3,
                    index % 5,
                    begin + index * 1000,
                    random.choice((None, 500, 5000)),
                    '{"step": 1}',
                )
                for index in range(60)
            ],
            "series": [(0, "memory", "host", "MB"), (1, "memory", "device", "MB")],
            "samples": [(index % 2, begin + index * 1000, index / 3) for index in range(20)],
            "heatmaps": [(0, "latency", "us", "[0.0,1.0,2.0]")],
            "histograms": [(0, begin + index * 1000, "[3,4]") for index in range(5)],
        }
        for table, entries in rows.items():
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(entries[0]))})", entries)
        connection.commit()


def write_systems(directory: Path) -> None:
    from openipu.machine import list_systems

    short = '[system]\nname = "mine"\nbase = "bow-2000"\nipus = 8\nhost_bytes_per_second = 1.5e9\n'
    (directory / "short.toml").write_text(short + '[target]\nbase = "bow"\ntiles = 64\nclock_hz = 1.5e9\n')
    system = list_systems()["bow-2000"]
    lines = ["[system]", 'name = "whole"']
    lines += [f"{key} = {value}" for key, value in _list_figures(system)]
    lines += ["[target]", 'name = "chip"', *(f"{key} = {value}" for key, value in _list_figures(system.target))]
    sourced = '\n[system.ipu_link_latency_seconds]\nvalue = 1e-6\nprovenance = "user"\nsource = "measured"\n'
    text = "\n".join(line for line in lines if not line.startswith("ipu_link_latency_seconds"))
    (directory / "whole.toml").write_text(text + sourced)


def _list_figures(holder: Any) -> list[tuple[str, str]]:
    skipped = ("name", "sources", "target")
    fields = [field.name for field in dataclasses.fields(holder) if field.name not in skipped]
    return [(name, json.dumps(getattr(holder, name), ensure_ascii=False)) for name in fields]


def write_pods(directory: Path) -> None:
    text = 'name = "ours"\nsystem = "pod16"\n'
    parts = "".join(f'\n[[partition]]\nname = "p{index}"\nfirst = {4 * index}\nipus = 4\n' for index in range(4))
    (directory / "cut.toml").write_text(text + parts)
    (directory / "whole.toml").write_text(text)


def write_fabrics(directory: Path) -> None:
    devices = [{"ipu": index, "target": "IPUModel"} for index in range(4)]
    (directory / "named.json").write_text(json.dumps({"partition": "p1", "devices": devices}))
    (directory / "early.json").write_text(json.dumps(devices))


def write_hosts(directory: Path) -> None:
    (directory / "hosts.txt").write_text("# ours\nnode0 slots=2\nnode1\nnode[2-5,7]\n10.0.0.1\n")


def write_poprun_options(directory: Path) -> None:
    stored = {"num_instances": 2, "num_replicas": 4, "host": "a,b", "print_topology": True, "verbose": 1}
    (directory / "job.json").write_text(json.dumps({**stored, "numa_aware": False, "program": ["train.py", "-v"]}))


def write_trace_options(directory: Path) -> None:
    trace = {"enable": "true", "directory": "traces", "channels": ["Run"], "duration": 3}
    (directory / "trace.json").write_text(json.dumps(trace))


def write_engine_options(directory: Path) -> None:
    engine = {"autoReport.all": "true", "autoReport.directory": "out", "debug.instrument": "false", "opt.level": 2}
    (directory / "engine.json").write_text(json.dumps(engine))


def write_attachments(directory: Path) -> None:
    from openipu.pod.attachment import Attachment

    held = Attachment("p0", 0, 2, 4711, "python train.py", "ada", "node0", 1_700_000_000.0, "Model", False)
    (directory / "held.json").write_text(json.dumps(dataclasses.asdict(held)))


def write_figures(directory: Path) -> None:
    header = "id,kind,system,ipus,workload,params,metric,value,unit,source,sdk\n"
    rows = 'A-001,micro,c2,1,matmul,"{""m"": 64, ""k"": 64}",time,12.5,us,a paper,1.0\n'
    rows += 'A-002,e2e,bow-2000,4,bert,"{""batch"": 16}",throughput,900,samples/s,a page,3.0\n'
    (directory / "two.csv").write_text(header + rows)


def write_golden_plans(directory: Path) -> None:
    provenance = {
        "openipu": "0.1.0",
        "program": "m",
        "system": "bow-2000",
        "target": "bow",
        "micro_batch": 1,
        "options": {},
    }
    figures = {"fits": True, "ipus": 1, "peak_tile_bytes": 1000, "call_cycles": 12.5, "samples_per_second": 3.5}
    document = {
        "version": 1,
        "provenance": provenance,
        "figures": figures,
        "cycles": {"linear": 3.5},
        "peak_bytes": {"a": 5},
    }
    (directory / "plan.json").write_text(json.dumps(document))


def write_ipu_configs(directory: Path) -> None:
    config = {"layers_per_ipu": [2, 2], "ipus_per_replica": 2, "replication_factor": 1, "matmul_proportion": [0.2, 0.3]}
    more = {"device_iterations": 2, "output_mode": "final", "seed": 3, "enable_half_partials": True}
    (directory / "config.json").write_text(json.dumps({**config, **more, "embedding_serialization_factor": 2}))


def write_options(directory: Path) -> None:
    options = {"deviceIterations": 2, "replicationFactor": 4, "_Popart.set": ["saveInitializersToFile", "x.onnx"]}
    (directory / "set.json").write_text(json.dumps({**options, "outputMode": "OutputMode.All"}))
    lines = ["# ours", "deviceIterations(4)", "Training.gradientAccumulation(2)", "outputMode(poptorch.OutputMode.All)"]
    lines += ["Precision.setPartialsType(torch.half)", "setAvailableMemoryProportion({'IPU0': 0.3})"]
    lines += ["TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))"]
    (directory / "lines.txt").write_text("\n".join(lines) + "\n")


def write_executables(directory: Path) -> None:
    """A trained model with dropout, and one for inference with a loop."""
    import torch

    import poptorch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

        def forward(self, points: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
            found = self.layers(points)
            if labels is None:
                return poptorch.for_loop(3, lambda value: (value * 2,), [found])[0]
            return found, torch.nn.functional.cross_entropy(found, labels)

    torch.manual_seed(0)
    model = Model()
    points, labels = torch.randn(4, 4), torch.zeros(4, dtype=torch.long)
    options = poptorch.Options().showCompilationProgressBar(False)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, options, optimizer)
    training(points, labels)
    training.save(str(directory / "training.zip"), export_model=False)
    training.destroy()
    poptorch.inferenceModel(model, options).compileAndExport(str(directory / "loop.zip"), points, export_model=False)


def write_poplar_executables(directory: Path) -> None:
    """Vertices, library calls, control flow, streams and mappings, compiled for a small model."""
    import poplar
    import popops
    from fuzz.poplar_codelets import Increment
    from poplar import BOOL, FLOAT
    from poplar.program import Copy, Execute, If, Repeat, Sequence

    model = poplar.IPUModel()
    model.tilesPerIPU = 4
    graph = poplar.Graph(model.createDevice())
    values = graph.addVariable(FLOAT, [4, 6], "values")
    flag = graph.addConstant(BOOL, [], True)
    for tile in range(4):
        graph.setTileMapping(values[tile], tile)
    graph.setTileMapping(flag, 0)
    compute_set = graph.addComputeSet("increment")
    for tile in range(4):
        vertex = graph.addVertex(compute_set, Increment, {"x": values[tile].reverse(0), "y": values[tile]})
        graph.setTileMapping(vertex, tile)
    program = Sequence(Repeat(2, Execute(compute_set)))
    total = popops.reduce(graph, values, [0], popops.ReduceParams(popops.Operation.ADD), program)
    program.add(If(flag, Copy(total, values[0]), Sequence()))
    graph.createHostRead("values", values)
    poplar.compileGraph(graph, program).serialize(directory / "small.zip")


def main(arguments: list[str]) -> None:
    """`python -m fuzz.seeds DIR KIND…`: write the seeds of some kinds, each kind into a directory of its own."""
    from fuzz.kinds import KINDS

    directory, *kinds = arguments
    for kind in kinds:
        place = Path(directory) / kind
        place.mkdir(parents=True)
        KINDS[kind].seeds(place)


if __name__ == "__main__":
    main(sys.argv[1:])


_PADDLE_MODEL = Path(__file__).parents[1] / "tests" / "data" / "paddle" / "small"


def write_paddle_models(directory: Path) -> None:
    """A convolution, a norm, a pool and a product, as Paddle saved them."""
    (directory / "small.bin").write_bytes(_PADDLE_MODEL.with_suffix(".pdmodel").read_bytes())


def write_paddle_weights(directory: Path) -> None:
    """The weights of that model."""
    (directory / "small.bin").write_bytes(_PADDLE_MODEL.with_suffix(".pdiparams").read_bytes())


def write_onnx_models(directory: Path) -> None:
    """A convolution with shapes that are computed, a loop, a branch with ops of PopART's, weights beside a model."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name: str, nodes: list[Any], shape: list[int], weights: dict[str, Any], **settings: Any) -> None:
        graph = helper.make_graph(
            nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_empty_tensor_value_info("y")],
            [numpy_helper.from_array(value, key) for key, value in weights.items()],
        )
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.graphcore", 1)]
        model = helper.make_model(graph, opset_imports=sets)
        onnx.save(model, directory / f"{name}.bin", **settings)

    kernel = np.linspace(-1, 1, 54, dtype=np.float32).reshape(2, 3, 3, 3)
    image = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], name="/first/conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["p"], ["size"]),
        helper.make_node("Gather", ["size", "zero"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["p", "shape"], ["y"]),
    ]
    whole = {"zero": np.array([0]), "rest": np.array([-1])}
    save("image", image, [2, 3, 8, 8], {"kernel": kernel, **whole})
    body = helper.make_graph(
        [helper.make_node("Tanh", ["now"], ["next"]), helper.make_node("Identity", ["going"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("now", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("next")],
    )
    save("loop", [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)], [4], {"count": np.array(3)})
    sides = [
        helper.make_graph([helper.make_node(op, ["g"], [op])], op, [], [helper.make_empty_tensor_value_info(op)])
        for op in ("Abs", "Neg")
    ]
    popart = [
        helper.make_node("Gelu", ["x"], ["g"], domain="ai.graphcore"),
        helper.make_node("ReduceSum", ["g"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["which"], to=TensorProto.BOOL),
        helper.make_node("If", ["which"], ["b"], then_branch=sides[0], else_branch=sides[1]),
        helper.make_node("Subsample", ["b"], ["s"], domain="ai.graphcore", strides=[2, 1]),
        helper.make_node("L1", ["s"], ["y"], domain="ai.graphcore", reduction="Mean", **{"lambda": 0.1}),
    ]
    save("popart", popart, [4, 3], {})
    product = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    beside = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 0}
    save("beside", product, [2, 64], {"w": np.zeros((64, 8), np.float32)}, **beside)
    (directory / "weights.data").unlink()
