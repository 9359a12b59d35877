"""Codelets in C++: read, compiled for the host, run in a process of their own, and refused where they are wrong."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest

import poplar
from poplar.native import popc
from poplar.native.codelet import START_CYCLES
from poplar.native.counting import CALL_CYCLES, count_instructions
from poplar.native.loading import load_source
from poplar.native.members import find_vertices
from poplar.program import Execute, Repeat, Sequence

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

SUMS = """
#include <poplar/Vertex.hpp>
#include <cmath>
using namespace poplar;

class Dot : public Vertex {
public:
  Input<Vector<float>> a;
  Input<Vector<float>> b;
  Output<float> out;
  bool compute() {
    float sum = 0;
    for (unsigned i = 0; i < a.size(); ++i)
      sum += a[i] * b[i];
    *out = sum;
    return true;
  }
};

namespace lib {
template <typename T, bool square> class Scale : public MultiVertex {
public:
  Scale();
  InOut<Vector<T, VectorLayout::SPAN, 8>> data;
  const float factor;
  unsigned calls = 0;
  Output<unsigned> count;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < data.size(); i += numWorkers())
      data[i] = T((square ? data[i] * data[i] : data[i]) * factor);
    *count = ++calls;
    return true;
  }
};
template class Scale<float, true>;
template class Scale<half, false>;
} // namespace lib

class Rows : public Vertex {
public:
  Vector<Input<Vector<int>>> in;
  Output<VectorList<int, VectorListLayout::DELTANELEMENTS>> out;
  Vector<int> weights;
  bool compute() {
    for (unsigned row = 0; row < in.size(); ++row)
      for (unsigned i = 0; i < in[row].size(); ++i)
        out[row][i] = in[row][i] * weights[row];
    return true;
  }
};
"""


def variable(graph: poplar.Graph, element: poplar.Type, shape: list[int], name: str, tile: int = 0) -> poplar.Tensor:
    made = graph.addVariable(element, shape, name)
    graph.setTileMapping(made, tile)
    graph.createHostWrite(f"{name}-write", made)
    graph.createHostRead(f"{name}-read", made)
    return made


def load(graph: poplar.Graph, device: poplar.Device, program: poplar.program.Program) -> poplar.Engine:
    engine = poplar.Engine(graph, program)
    engine.load(device)
    return engine


def test_a_dot_product_sums_in_the_order_of_its_source(graph: poplar.Graph, device: poplar.Device) -> None:
    graph.addCodelets(io.StringIO(SUMS))
    matrix = variable(graph, poplar.FLOAT, [5, 33], "matrix")
    vector = variable(graph, poplar.FLOAT, [33], "vector", 1)
    out = variable(graph, poplar.FLOAT, [5], "out")
    sums = graph.addComputeSet("sums")
    for row in range(5):
        vertex = graph.addVertex(sums, "Dot", {"a": matrix[row], "b": vector, "out": out[row]})
        graph.setTileMapping(vertex, row)
    engine = load(graph, device, Execute(sums))
    values = np.random.default_rng(0).random((5, 33), dtype=np.float32)
    engine.writeTensor("matrix-write", values)
    engine.writeTensor("vector-write", values[0])
    engine.run()
    expected = np.zeros(5, dtype=np.float32)
    for column in range(33):
        expected += values[:, column] * values[0, column]
    assert np.array_equal(engine.readTensor("out-read"), expected)


@pytest.mark.parametrize("view", ["even", "transposed", "reversed", "scattered"])
def test_views_reach_a_codelet_as_they_are_seen(graph: poplar.Graph, device: poplar.Device, view: str) -> None:
    graph.addCodelets(io.StringIO(SUMS))
    matrix = variable(graph, poplar.FLOAT, [4, 4], "matrix")
    out = variable(graph, poplar.FLOAT, [], "out")
    numbers = np.arange(16, dtype=np.float32).reshape(4, 4)
    seen, row = {
        "even": (matrix[1], numbers[1]),
        "transposed": (matrix.transpose()[1], numbers.T[1]),
        "reversed": (matrix[1].reverse(0), numbers[1][::-1]),
        "scattered": (poplar.concat([matrix[3][0:1], matrix[0][1:4]]), np.array([12, 1, 2, 3], dtype=np.float32)),
    }[view]
    sums = graph.addComputeSet("sums")
    graph.setTileMapping(graph.addVertex(sums, "Dot", {"a": seen, "b": matrix[0], "out": out}), 0)
    engine = load(graph, device, Execute(sums))
    engine.writeTensor("matrix-write", numbers)
    engine.run()
    assert float(engine.readTensor("out-read")) == float(row @ numbers[0])


def test_templates_are_known_by_their_instances_and_halves_round_each_operation(
    graph: poplar.Graph, device: poplar.Device
) -> None:
    graph.addCodelets(io.StringIO(SUMS))
    data = variable(graph, poplar.HALF, [7], "data")
    calls = variable(graph, poplar.UNSIGNED_INT, [], "calls")
    scale = graph.addComputeSet("scale")
    vertex = graph.addVertex(scale, "lib::Scale<half, false>", {"data": data, "count": calls})
    graph.setInitialValue(vertex["factor"], 1.1)
    graph.setTileMapping(vertex, 0)
    engine = load(graph, device, Repeat(3, Sequence(Execute(scale))))
    values = np.linspace(-3, 3, 7).astype(np.float16)
    engine.writeTensor("data-write", values)
    engine.run()
    for _ in range(3):
        values = (values.astype(np.float32) * np.float32(1.1)).astype(np.float16)
    assert np.array_equal(engine.readTensor("data-read"), values)
    assert int(engine.readTensor("calls-read")) == 18, "six workers, three runs: a member keeps its value"


def test_lists_of_vectors_and_state_vectors_arrive(graph: poplar.Graph, device: poplar.Device) -> None:
    graph.addCodelets(io.StringIO(SUMS))
    numbers = variable(graph, poplar.INT, [6], "numbers")
    result = variable(graph, poplar.INT, [6], "result")
    rows = graph.addComputeSet("rows")
    vertex = graph.addVertex(rows, "Rows", {"in": [numbers[0:2], numbers[2:6]], "out": [result[0:2], result[2:6]]})
    graph.setInitialValue(vertex["weights"], [10, 100])
    graph.setTileMapping(vertex, 0)
    engine = load(graph, device, Execute(rows))
    engine.writeTensor("numbers-write", np.arange(1, 7, dtype=np.int32))
    engine.run()
    assert engine.readTensor("result-read").tolist() == [10, 20, 300, 400, 500, 600]


def test_fields_need_no_word_in_python() -> None:
    found = {codelet.name: codelet for codelet in load_source(SUMS, text=True)}
    assert sorted(found) == ["Dot", "Rows", "lib::Scale<float,true>", "lib::Scale<half,false>"]
    assert [(field.name, field.access.value, field.form.value, field.type.name) for field in found["Rows"].fields] == [
        ("in", "input", "vector list", "int"),
        ("out", "output", "vector list", "int"),
        ("weights", "state", "vector", "int"),
    ]
    assert [field.type.name for field in found["lib::Scale<half,false>"].fields] == [
        "half",
        "float",
        "unsigned int",
        "unsigned int",
    ]


def test_members_are_read_from_inherited_nested_and_macro_text() -> None:
    source = """
    # 1 "/usr/include/system.h" 1 3
    class Hidden : public Vertex { int x; };
    # 1 "codelets.cpp" 2
    namespace a { inline namespace b {
    struct Base : poplar::Vertex { Input<Vector<float>> in, more; static int no; };
    template <class T, unsigned N = (1 > 0)> class [[poplar::constraint("elem(*in) != elem(*out)")]] Derived
        : public Base { public: Derived(); enum { X }; struct Inner { int y; } inner; alignas(8) T value[2] = {1, 2};
        typename T::type f() const { return g<3>(); } bool compute(); bool operator()(int); unsigned bits : 3; };
    template class Derived<float>;
    } }
    template <> struct Other<int> : a::b::Base { int z{4}; };
    """
    lines = "\n".join(line.strip() for line in source.splitlines())
    assert [(vertex.name, vertex.members) for vertex in find_vertices(lines)] == [
        ("a::b::Base", ("in", "more")),
        ("Other<int>", ("in", "more", "z")),
        ("a::b::Derived<float>", ("in", "more", "inner", "value", "bits")),
    ]


def test_the_same_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import poplar.native.library as library

    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path))
    source = library.CodeletSource(SUMS, "sums.cpp")
    first = library.compile_codelets(source)
    calls: list[str] = []
    real = library.run_compiler
    monkeypatch.setattr(
        library, "run_compiler", lambda arguments, *rest: (calls.append(arguments[1]), real(arguments, *rest))[1]
    )
    second = library.compile_codelets(source)
    assert calls == ["-E"], "only the preprocessor runs again: an include may have changed"
    assert first.code == second.code


def run_one(graph: poplar.Graph, device: poplar.Device, body: str, values: list[float] | None = None) -> np.ndarray:
    """One vertex with a vector `x`, and this body."""
    graph.addCodelets(
        io.StringIO(
            "#include <poplar/Vertex.hpp>\n#include <cstdlib>\n#include <stdexcept>\n#include <vector>\n"
            f"struct Bad : poplar::Vertex {{ poplar::InOut<poplar::Vector<float>> x; bool compute() {{ {body} }} }};"
        )
    )
    x = variable(graph, poplar.FLOAT, [3], "x")
    bad = graph.addComputeSet("bad")
    graph.setTileMapping(graph.addVertex(bad, "Bad", {"x": x}), 2)
    engine = load(graph, device, Execute(bad))
    engine.writeTensor("x-write", np.array(values or [1, 2, 3], dtype=np.float32))
    engine.run()
    return engine.readTensor("x-read")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("*(volatile int *)8 = 1; return true;", "crashed with SIGSEGV. It read or wrote outside its fields"),
        (
            "volatile int zero = 0; x[0] = int(x[0]) / zero; return true;",
            "crashed with SIGFPE. It divided an integer by zero",
        ),
        ("std::abort();", "crashed with SIGABRT"),
        ('throw std::runtime_error("too cold");', r"threw an exception: too cold"),
        ("std::exit(3);", "ended its process with code 3"),
        ("return false;", r"its compute\(\) returned False"),
    ],
)
def test_a_vertex_that_breaks_is_named_with_its_line(
    graph: poplar.Graph, device: poplar.Device, body: str, message: str
) -> None:
    with pytest.raises(poplar.application_runtime_error, match=message) as caught:
        run_one(graph, device, body)
    assert str(caught.value).startswith("Vertex 0 of compute set 'bad', a Bad (added at ")
    assert __file__ in str(caught.value)


def test_a_vertex_that_never_ends_is_ended(
    graph: poplar.Graph, device: poplar.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENIPU_CODELET_SECONDS", "0.5")
    with pytest.raises(poplar.application_runtime_error, match=r"did not end within 0.5 s"):
        run_one(graph, device, "for (volatile int i = 0;; ++i) {}")


def test_a_vertex_that_takes_too_much_memory_is_refused(
    graph: poplar.Graph, device: poplar.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENIPU_CODELET_HEAP_MB", "64")
    with pytest.raises(poplar.application_runtime_error, match="more memory than the 64 MiB"):
        run_one(graph, device, "std::vector<char> all(1u << 30, 1); x[0] = all[5]; return true;")


def test_after_a_crash_another_run_works(device: poplar.Device) -> None:
    body = "if (x[0] < 0) std::abort(); x[0] += 1; return true;"
    with pytest.raises(poplar.application_runtime_error):
        run_one(poplar.Graph(device), device, body, [-1, 0, 0])
    assert run_one(poplar.Graph(device), device, body, [1, 0, 0]).tolist() == [2, 0, 0]


def test_a_source_that_does_not_compile_is_quoted(graph: poplar.Graph, tmp_path: Path) -> None:
    path = tmp_path / "wrong.cpp"
    path.write_text(
        "#include <poplar/Vertex.hpp>\n\nstruct V : poplar::Vertex {\n  bool compute() { return nothing; }\n};\n"
    )
    with pytest.raises(poplar.graph_program_compilation_error) as caught:
        graph.addCodelets(str(path))
    assert "wrong.cpp:4:27: error: 'nothing' was not declared" in str(caught.value).replace("‘", "'").replace("’", "'")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("int x;", poplar.graph_object_creation_error, "defines no vertex"),
        (
            "#include <poplar/Vertex.hpp>\nstruct S { int a; };\n"
            "struct V : poplar::Vertex { poplar::Input<S> s; bool compute() { return true; } };",
            poplar.graph_object_creation_error,
            "`s` of vertex V holds elements of a type that tensors do not have",
        ),
        (
            "#include <poplar/Vertex.hpp>\nstruct V : poplar::Vertex { poplar::Input<poplar::Vector<float, "
            "poplar::VectorLayout::ONE_PTR>> x; bool compute() { return x.size() > 0; } };",
            poplar.graph_program_compilation_error,
            "has no size",
        ),
    ],
)
def test_sources_that_cannot_be_codelets_are_refused(
    graph: poplar.Graph, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        graph.addCodelets(io.StringIO(text))


def test_a_missing_file_and_a_missing_compiler_say_what_to_do(
    graph: poplar.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(poplar.file_load_error, match=r"nowhere.cpp cannot be read \(No such file or directory\)"):
        graph.addCodelets("nowhere.cpp")
    with pytest.raises(poplar.file_load_error, match="code for tiles"):
        graph.addCodelets("vertex.S")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(poplar.graph_program_compilation_error, match="apt install g"):
        graph.addCodelets(io.StringIO("struct Never {};"))


def test_popc_makes_a_bundle_that_graphs_take(
    graph: poplar.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, bundle = tmp_path / "codelets.cpp", tmp_path / "codelets.gp"
    (tmp_path / "factor.h").write_text("static const float factor = FACTOR;\n")
    source.write_text('#include "factor.h"\n' + SUMS)
    assert popc.main([str(source), "-O3", "-g", "-target", "ipu2", "-DFACTOR=2", "-o", str(bundle)]) == 0
    source.unlink()
    graph.addCodelets(str(bundle))
    assert graph.addVertex(graph.addComputeSet(), "Dot").registered.codelet.name == "Dot"
    (tmp_path / "broken.cpp").write_text("struct {")
    assert popc.main([str(tmp_path / "broken.cpp")]) == 1
    assert "broken.cpp:1:9: error" in capsys.readouterr().err
    bundle.write_bytes(b"\x7fELF\xff\x00")
    with pytest.raises(poplar.file_load_error, match="no bundle of openipu's popc"):
        graph.addCodelets(str(bundle))


def test_a_guess_of_cycles_counts_loads_stores_and_arithmetic() -> None:
    (dot,) = (codelet for codelet in load_source(SUMS, text=True) if codelet.name == "Dot")

    def guess(length: int) -> int:
        row = np.zeros((1, length), dtype=np.float32)
        found = dot.estimate(poplar.Batch(1, {"a": row, "b": row, "out": np.zeros(1, dtype=np.float32)}))
        return 0 if found is None else int(found[0])

    if guess(1) == 0:
        pytest.skip("the rule reads x86-64 assembly")
    # Each further element: two loads, one step of the index, one comparison with its branch; the product and the sum
    # go to the other pipeline in the same cycles.
    assert guess(101) - guess(1) == 100 * (2 + 1 + 2)
    assert START_CYCLES < guess(1) < START_CYCLES + 20


def test_the_rule_prices_blocks_by_their_busier_pipeline() -> None:
    assembly = "\n".join(
        [
            "f:",
            "\tcall\t__sanitizer_cov_trace_pc@PLT",
            "\tmovss\t(%rdi), %xmm0",  # a load
            "\tmulss\t4(%rdi), %xmm0",  # a load and a product
            "\tmovss\t%xmm0, 12(%rsp)",  # a spill costs nothing
            "\tjne\t.L2",
            "\tcall\t__sanitizer_cov_trace_pc@PLT",
            "\tcall\texpf@PLT",
            "\tdivss\t%xmm1, %xmm0",
            "\tret",
        ]
    )
    counted = count_instructions(assembly)
    assert "\taddq\t$3, openipu_cycles(%rip)" in counted  # two loads, one branch
    assert f"\taddq\t${CALL_CYCLES}, openipu_cycles(%rip)" in counted


def test_a_saved_executable_finds_its_codelets_in_the_users_own_cache(
    graph: poplar.Graph, device: poplar.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from poplar.native import loading

    graph.addCodelets(io.StringIO(SUMS))
    row, out = variable(graph, poplar.FLOAT, [3], "row"), variable(graph, poplar.FLOAT, [], "out")
    sums = graph.addComputeSet("sums")
    graph.setTileMapping(graph.addVertex(sums, "Dot", {"a": row, "b": row, "out": out}), 0)
    path = tmp_path / "saved"
    poplar.compileGraph(graph, Execute(sums)).serialize(path)
    assert b"for (unsigned" not in path.read_bytes(), "a file holds no code"
    engine = poplar.Engine(poplar.Executable.deserialize(path))
    engine.load(device)
    engine.writeTensor("row-write", np.array([1, 2, 3], dtype=np.float32))
    engine.run()
    assert float(engine.readTensor("out-read")) == 14
    loading._kept.clear()
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(poplar.graph_object_load_error, match="which this machine has not compiled"):
        poplar.Executable.deserialize(path)


BEYOND = """
#include <poplar/Vertex.hpp>
class Beyond : public poplar::Vertex {
public:
  poplar::Output<poplar::Vector<float, poplar::VectorLayout::ONE_PTR>> out;
  int place;
  bool compute() { out[place] = 1; return true; }
};
"""


def test_an_index_beyond_a_field_is_found_on_demand(monkeypatch):
    monkeypatch.setenv("OPENIPU_CODELET_CHECKS", "1")
    device = poplar.IPUModel().createDevice()
    graph = poplar.Graph(device)
    graph.addCodelets(io.StringIO(BEYOND))
    out = graph.addVariable(poplar.FLOAT, [8], "out")
    graph.setTileMapping(out, 0)
    programs = []
    for place in (3, 4):
        compute_set = graph.addComputeSet(f"write {place}")
        vertex = graph.addVertex(compute_set, "Beyond", {"out": out.slice(0, 4)})
        graph.setInitialValue(vertex["place"], place)
        graph.setTileMapping(vertex, 0)
        programs.append(poplar.program.Execute(compute_set))
    engine = poplar.Engine(graph, programs)
    engine.load(device)
    engine.run(0)
    with pytest.raises(poplar.application_runtime_error, match="a Vector has 4 entries, and no number 4"):
        engine.run(1)
