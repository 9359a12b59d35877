"""Executables as files: they come back as they were, hold no code, and damaged ones are refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import poplar
import popops
import poputil
from poplar import FLOAT, Input, Output, Vector, Vertex
from poplar.program import Copy, Execute, Repeat, Sequence


class VectorAdd(Vertex):
    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    z: Output[Vector[FLOAT]]

    def compute(self):
        count = min(len(self.x), len(self.y), len(self.z))  # a damaged file may say anything
        self.z[:count] = self.x[:count] + self.y[:count]
        return True


def build(device, codelet=VectorAdd) -> poplar.Executable:
    graph = poplar.Graph(device)
    a, b, c = (graph.addVariable(FLOAT, [4], name) for name in "abc")
    for tile, tensor in enumerate((a, b, c)):
        graph.setTileMapping(tensor, tile)
    compute_set = graph.addComputeSet("add")
    vertex = graph.addVertex(compute_set, codelet, {"x": a, "y": b, "z": c})
    graph.setTileMapping(vertex, 0)
    graph.setPerfEstimate(vertex, 20)
    streams = [graph.addHostToDeviceFIFO(name, FLOAT, 4) for name in ("x", "y")]
    out = graph.addDeviceToHostFIFO("z", FLOAT, 4)
    reduction = Sequence()
    pair = poplar.concat(a.reshape([4, 1]), b.reshape([4, 1]), 1)
    popops.reduceWithOutput(graph, pair, c, [1], popops.ReduceParams(), reduction)
    scaled = popops.mul(graph, c, 2.0, reduction)
    poputil.mapTensorLinearly(graph, scaled)
    return poplar.compileGraph(
        graph,
        [
            Sequence(Copy(streams[0], a), Copy(streams[1], b)),
            Repeat(1, Execute(compute_set)),
            reduction,
            Sequence(Copy(c, out)),
        ],
    )


def use(device, executable) -> list[list[float]]:
    engine = poplar.Engine(executable)
    engine.load(device)
    engine.connectStream("x", np.array([1, 2, 3, 4], np.float32))
    engine.connectStream("y", np.array([4, 3, 2, 1], np.float32))
    results = []
    for program in (1, 2):
        result = np.zeros(4, np.float32)
        engine.connectStream("z", result)
        for number in (0, program, 3):
            engine.run(number)
        results.append(result.tolist())
    return results


def test_an_executable_does_the_same_after_it_was_written_and_read(device, tmp_path):
    executable = build(device)
    executable.serialize(tmp_path / "program.poplar_exec")
    again = poplar.Executable.deserialize(tmp_path / "program.poplar_exec", codelets=[VectorAdd])
    assert use(device, executable) == use(device, again) == [[5.0] * 4] * 2
    plans = [poplar.Engine(one).getPlan() for one in (executable, again)]
    assert plans[0].timing == plans[1].timing


def test_a_codelet_that_is_not_here_has_to_be_given(device, tmp_path, monkeypatch):
    build(device).serialize(tmp_path / "program.exe")
    monkeypatch.delitem(sys.modules, VectorAdd.__module__)
    with pytest.raises(poplar.graph_object_load_error, match=r"codelet VectorAdd of .*, which is not imported here"):
        poplar.Executable.deserialize(tmp_path / "program.exe")


def test_a_codelet_without_a_name_cannot_be_written(device, tmp_path):
    class Local(VectorAdd):
        pass

    with pytest.raises(poplar.graph_program_compilation_error, match="cannot be found again by name"):
        build(device, Local).serialize(tmp_path / "program.exe")
    assert not list(tmp_path.iterdir())


def test_what_is_no_executable_is_refused(device, tmp_path):
    path = tmp_path / "program.exe"
    with pytest.raises(poplar.graph_object_load_error):
        poplar.Executable.deserialize(path)
    path.write_bytes(b"PK nonsense")
    with pytest.raises(poplar.graph_object_load_error):
        poplar.Executable.deserialize(path)
    np.savez(path.open("wb"), other=np.zeros(3))
    with pytest.raises(poplar.graph_object_load_error, match="holds no executable"):
        poplar.Executable.deserialize(path)


def test_a_changed_file_is_refused_or_stays_inside_of_its_memory(device, tmp_path):
    """Numbers of the document are changed at random: what is accepted runs, what is not is the right error."""
    path, changed = tmp_path / "program.exe", tmp_path / "changed.exe"
    build(device).serialize(path)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    text = arrays["document"].tobytes().decode()
    generator = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        document, others = text, {name: values.copy() for name, values in arrays.items() if name != "document"}
        if generator.integers(2):
            places = [place for place, letter in enumerate(document) if letter.isdigit()]
            place = places[generator.integers(len(places))]
            document = document[:place] + str(generator.integers(10)) + document[place + 1 :]
        else:
            values = others["int64"]
            values[generator.integers(values.size)] = generator.integers(-50, 50)
        np.savez(changed.open("wb"), document=np.frombuffer(document.encode(), np.uint8), **others)
        try:
            executable = poplar.Executable.deserialize(changed, codelets=[VectorAdd])
            engine = poplar.Engine(executable)
            engine.load(device)
            for number in (1, 2):
                engine.run(number)
        except poplar.poplar_error:
            refused += 1
    assert refused > 10
