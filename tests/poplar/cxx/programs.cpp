// Control flow, streams, callbacks, host functions, remote buffers and codelets, each with a line of results.
#ifdef __POPC__
#include <poplar/Vertex.hpp>
class Increment : public poplar::Vertex {
public:
  poplar::InOut<poplar::Vector<int>> x;
  int by;
  bool compute() {
    for (auto &value : x)
      value += by;
    return true;
  }
};
template <typename T> class Less : public poplar::Vertex {
public:
  poplar::Input<T> a;
  T limit;
  poplar::Output<bool> out;
  bool compute() {
    *out = *a < limit;
    return true;
  }
};
template class Less<int>;
#else
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poputil/VertexTemplates.hpp>

using namespace poplar;
using namespace poplar::program;

template <typename T> void show(const char *what, const std::vector<T> &values) {
  std::cout << what;
  for (const T &value : values)
    std::cout << " " << value;
  std::cout << "\n";
}

struct Counting : StreamCallback {
  explicit Counting(int first) : next(first) {}
  int next;
  Result prefetch(void *) override { return Result::NotAvailable; }
  void fetch(void *p) override {
    for (int i = 0; i < 2; ++i)
      static_cast<int *>(p)[i] = next++;
  }
  void complete() override { ++completed; }
  static int completed;
};
int Counting::completed = 0;

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device);
  graph.addCodelets(__FILE__);
  Tensor x = graph.addVariable(INT, {2}, "x");
  Tensor go = graph.addVariable(BOOL, {}, "go");
  graph.setTileMapping(x, 0);
  graph.setTileMapping(go, 0);
  graph.createHostRead("x", x);
  graph.createHostWrite("x", x);

  ComputeSet add = graph.addComputeSet("add"), compare = graph.addComputeSet({"compare"});
  VertexRef vertex = graph.addVertex(add, "Increment");
  graph.connect(vertex["x"], x);
  graph.setInitialValue(vertex["by"], 3);
  graph.setTileMapping(vertex, 2);
  VertexRef less = graph.addVertex(compare, poputil::templateVertex("Less", INT), {{"a", x[0]}, {"out", go}});
  graph.setInitialValue(less["limit"], 20);
  graph.setTileMapping(less, 3);

  DataStream in = graph.addHostToDeviceFIFO("in", INT, 2), out = graph.addDeviceToHostFIFO("out", INT, 2);
  RemoteBuffer far = graph.addRemoteBuffer("far", INT, 2, 3);
  HostFunction twice = graph.addHostFunction("twice", {{INT, 2}}, {{INT, 2}});
  Function again = graph.addFunction(Sequence({Execute(add), Execute(add)}));
  Tensor row = graph.addConstant<unsigned>(UNSIGNED_INT, {1}, {2});
  Tensor which = graph.addConstant(INT, {}, 7);
  graph.setTileMapping(row, 0);
  graph.setTileMapping(which, 0);

  Sequence loop;
  loop.add(RepeatWhileTrue(Execute(compare), go, Execute(add)));
  Sequence early = loop; // what comes later is not in it
  loop.add(Execute(add));
  const std::vector<Program> programs = {
      Sequence({Repeat(4, Execute(add)), If(go, Sequence(), Execute(add))}), // 0
      early,                                                                 // 1
      Switch(which, {{1, Execute(add)}, {7, Call(again)}}),                  // 2
      Sequence({Copy(in, x), Copy(x, out), Copy(in, x), Copy(x, out)}),      // 3
      Sequence({Copy(x, far, row), Call(twice, {x}, {x})}),                  // 4
      Sequence({PrintTensor("x", x), Abort("enough")}),                      // 5
      loop,                                                                  // 6
  };
  Engine engine(graph, programs, {{"debug.retainDebugInformation", "true"}});
  engine.load(device);
  std::vector<int> values = {1, 2};
  const auto run = [&](unsigned number, const char *what) {
    engine.run(number);
    engine.readTensor("x", values.data(), values.data() + 2);
    show(what, values);
  };
  engine.writeTensor("x", values.data(), values.data() + 2);
  run(0, "repeat");
  run(1, "while");
  run(2, "switch");
  run(6, "while and one");

  std::vector<int> source = {10, 11, 12, 13, 14, 15}, sink(4);
  engine.connectStream("in", source.data(), source.data() + source.size());
  engine.connectStream("out", sink.data(), sink.data() + sink.size());
  engine.run(3);
  show("ring", sink);
  source[4] = 40;
  engine.run(3);
  show("ring again", sink);
  engine.connectStream("in", source.data());
  engine.run(3);
  show("no end", sink);
  engine.connectStreamToCallback("in", std::unique_ptr<Counting>(new Counting(100)));
  int drained = 0;
  engine.connectStreamToCallback("out", [&](void *p) { drained += static_cast<int *>(p)[1]; });
  run(3, "callback");
  std::cout << "drained " << drained << " completed " << Counting::completed << "\n";

  engine.connectHostFunction("twice", 0, [](ArrayRef<const void *> from, ArrayRef<void *> to) {
    for (int i = 0; i < 2; ++i)
      static_cast<int *>(to[0])[i] = 2 * static_cast<const int *>(from[0])[i];
  });
  run(4, "host function");
  engine.copyFromRemoteBuffer("far", values.data(), 2);
  show("remote", values);
  engine.connectHostFunction("twice", 0, [](ArrayRef<const void *>, ArrayRef<void *>) { throw std::runtime_error("mine"); });
  try {
    engine.run(4);
  } catch (const std::runtime_error &error) {
    std::cout << "thrown " << error.what() << "\n";
  }
  std::ostringstream printed;
  engine.setPrintTensorStream(printed);
  try {
    engine.run(5);
  } catch (const application_runtime_error &error) {
    std::cout << printed.str() << error.type << " " << error.what() << "\n";
  }
}
#endif
