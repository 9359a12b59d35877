// Exit values of compute sets, cycles that a program reads, and estimators of its own.
#include <poplar/CycleCount.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <iostream>
#include <sstream>

using namespace poplar;
using namespace poplar::program;

static const char *source = R"(
#include <poplar/Vertex.hpp>
using namespace poplar;
template <typename T> class CountDown : public Vertex {
public:
  InOut<T> x;
  Input<Vector<T>> data;
  int factor;
  bool compute() { *x -= 1; return *x > 0; }
};
template class CountDown<float>;
)";

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device);
  std::stringstream text(source);
  graph.addCodelets(text);
  unsigned asked = 0;
  graph.registerPerfEstimator("CountDown<float>", [&](const VertexIntrospector &vertex, const Target &target) {
    ++asked;
    const auto data = vertex.getFieldInfo("data");
    const int factor = vertex.getFieldInfo("factor").getInitialValue<int>(target);
    return VertexPerfEstimate(factor * data.size() + target.getNumWorkerContexts(), 2);
  });
  Tensor x = graph.addVariable(FLOAT, {3}, "x"), data = graph.addVariable(FLOAT, {5}, "data");
  Tensor good = graph.addVariable(BOOL, {}, "good");
  graph.setTileMapping(data, 0);
  graph.setTileMapping(good, 0);
  graph.setTileMapping(x, 0);
  ComputeSet cs = graph.addComputeSet("count down");
  for (unsigned i = 0; i < 3; ++i) {
    VertexRef v = graph.addVertex(cs, "CountDown<float>", {{"x", x[i]}, {"data", data}});
    graph.setInitialValue(v["factor"], i == 2 ? 4 : 3);
    graph.setTileMapping(v, 0);
  }
  Sequence body;
  body.add(RepeatWhileTrue(Execute(cs, good), good, Sequence()));
  Tensor cycles = cycleCount(graph, body, 0, SyncType::INTERNAL, "cycles");
  const std::vector<Tensor> stamps = cycleStamp(graph, body, std::vector<unsigned>{1, 2}, SyncType::INTERNAL);
  std::cout << "asked " << asked << " stamps " << stamps.size() << "\n";
  graph.createHostWrite("x", x);
  graph.createHostRead("x", x);
  graph.createHostRead("good", good);
  graph.createHostRead("cycles", cycles);
  Engine engine(graph, body);
  engine.load(device);
  float values[] = {4, 2, 9};
  engine.writeTensor("x", values, values + 3);
  engine.run();
  engine.readTensor("x", values, values + 3);
  bool flag = true;
  engine.readTensor("good", &flag, &flag + 1);
  unsigned halves[2];
  engine.readTensor("cycles", halves, halves + 2);
  std::cout << "asked " << asked << "\nx " << values[0] << " " << values[1] << " " << values[2] << "\ngood " << flag
            << "\ncycles " << halves[0] << " " << halves[1] << std::endl;
  try {
    Graph other(device);
    std::stringstream again(source);
    other.addCodelets(again);
    other.registerPerfEstimator("CountDown<float>", [](const VertexIntrospector &vertex, const Target &) {
      return VertexPerfEstimate(vertex.getFieldInfo("nothing").size());
    });
    Tensor y = other.addVariable(FLOAT, {2});
    other.setTileMapping(y, 0);
    ComputeSet set = other.addComputeSet();
    other.setTileMapping(other.addVertex(set, "CountDown<float>", {{"x", y[0]}, {"data", y.slice(1, 2)}}), 0);
    Engine refused(other, Execute(set));
  } catch (const unknown_field &error) {
    std::cout << "refused: " << error.what() << std::endl;
  }
}
