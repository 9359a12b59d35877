// One mistake each: the exception's class and its message.
#ifdef __POPC__
#include <poplar/Vertex.hpp>
struct Copy1 : poplar::Vertex {
  poplar::Input<float> a;
  poplar::Output<float> b;
  bool compute() {
    *b = *a;
    return true;
  }
};
#else
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

using namespace poplar;
using namespace poplar::program;

template <typename F> void attempt(const char *what, F function) {
  try {
    function();
    std::cout << what << "|nothing|\n";
  } catch (const poplar_error &error) {
    std::cout << what << "|" << error.type << "|" << error.what() << "\n";
  }
}

int main() {
  IPUModel model;
  model.tilesPerIPU = 2;
  Device device = model.createDevice();
  Graph graph(device);
  graph.addCodelets(__FILE__);
  Tensor t = graph.addVariable(FLOAT, {4}, "t"), n = graph.addVariable(INT, {4}, "n");
  Tensor c = graph.addConstant(FLOAT, {}, 1.0f);
  graph.setTileMapping(t, 0);
  graph.setTileMapping(n, 0);
  graph.setTileMapping(c, 0);
  ComputeSet set = graph.addComputeSet("set");
  VertexRef vertex = graph.addVertex(set, "Copy1");
  graph.setTileMapping(vertex, 0);
  attempt("vertex", [&] { graph.addVertex(set, "Nothing"); });
  attempt("field", [&] { graph.connect(vertex["c"], t[0]); });
  attempt("type", [&] { graph.connect(vertex["a"], n[0]); });
  attempt("rank", [&] { graph.connect(vertex["a"], t); });
  attempt("tile", [&] { graph.setTileMapping(t, 2); });
  attempt("index", [&] { t[4]; });
  attempt("slice", [&] { t.slice(3, 5); });
  attempt("reshape", [&] { t.reshape({3}); });
  attempt("codelets", [&] { graph.addCodelets("missing.cpp"); });
  attempt("unconnected", [&] { Engine(graph, Execute(set)); });
  graph.connect(vertex["a"], t[0]);
  graph.connect(vertex["b"], t[1]);
  attempt("option", [&] { Engine(graph, Execute(set), {{"debug.unknown", "1"}}); });
  attempt("copy", [&] { Engine(graph, program::Copy(t, n)); });
  attempt("unmapped", [&] {
    Graph other(device);
    Tensor u = other.addVariable(FLOAT, {4}, "u"), v = other.addVariable(FLOAT, {4}, "v");
    other.setTileMapping(v, 1);
    Engine(other, program::Copy(v, u));
  });
  DataStream stream = graph.addHostToDeviceFIFO("stream", FLOAT, 4);
  Engine engine(graph, program::Copy(stream, t));
  attempt("not loaded", [&] { engine.run(0); });
  engine.load(device);
  attempt("stream", [&] { engine.run(0); });
  attempt("program", [&] { engine.run(1); });
  std::vector<float> buffer(7);
  attempt("buffer", [&] { engine.connectStream("stream", buffer.data(), buffer.data() + 7); });
  attempt("handle", [&] { engine.readTensor("nobody", buffer.data(), buffer.data() + 4); });
  attempt("model", [] { IPUModel("ipu9"); });
  VertexRef second = graph.addVertex(set, "Copy1", {{"a", t[2]}, {"b", c}});
  graph.setTileMapping(second, 1);
  attempt("constant", [&] { Engine(graph, Execute(set)); });
}
#endif
