// Library functions on a = 0.25 * (0 … 11) as 3 x 4 and its parts; each result is printed on a line of its own.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <popnn/LogSoftmax.hpp>
#include <popnn/Loss.hpp>
#include <popnn/NonLinearity.hpp>
#include <popops/Cast.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/EncodeOneHot.hpp>
#include <popops/Fill.hpp>
#include <popops/Gather.hpp>
#include <popops/Loop.hpp>
#include <popops/NumericalIotas.hpp>
#include <popops/Pad.hpp>
#include <popops/Reduce.hpp>
#include <popops/ScaledAdd.hpp>
#include <popops/Sort.hpp>
#include <popops/TopK.hpp>
#include <popops/Zero.hpp>
#include <poprand/RandomGen.hpp>
#include <poputil/Broadcast.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/Util.hpp>

using namespace poplar;
using namespace poplar::program;
namespace pe = popops::expr;

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device);
  popops::addCodelets(graph);
  Sequence prog;
  Tensor a = graph.addVariable(FLOAT, {3, 4}, "a");
  poputil::mapTensorLinearly(graph, a);
  graph.createHostWrite("a", a);
  Tensor index = graph.addConstant<unsigned>(UNSIGNED_INT, {1}, {1});
  Tensor picks = graph.addConstant<unsigned>(UNSIGNED_INT, {2}, {2, 0});
  Tensor labels = graph.addConstant<unsigned>(UNSIGNED_INT, {3}, {3, 0, 3});
  for (const Tensor &constant : {index, picks, labels})
    graph.setTileMapping(constant, 0);

  std::vector<std::pair<std::string, Tensor>> results;
  const auto keep = [&](const char *name, const Tensor &t) {
    results.push_back({name, t.elementType() == FLOAT ? t : popops::cast(graph, t, FLOAT, prog)});
  };
  keep("add", popops::add(graph, a, 2, prog, "add"));
  keep("sub", popops::sub(graph, 1.5f, a, prog));
  keep("map", popops::map(graph, pe::Select(pe::_1 * 2 + pe::_2, pe::Exp(-pe::_1), pe::_1 > 1.0f), {a, a.reverse(1)}, prog));
  keep("tanh", popops::tanh(graph, a, prog));
  keep("less", popops::lt(graph, a, a.reverse(0), prog));
  keep("reduce", popops::reduce(graph, a, {0}, popops::ReduceParams(popops::Operation::ADD), prog));
  keep("reduce max", popops::reduce(graph, a, {1}, {popops::Operation::MAX}, prog));
  keep("int", popops::cast(graph, a, INT, prog));
  Tensor scaled = graph.clone(a, "scaled");
  prog.add(Copy(a, scaled));
  popops::scaledAddTo(graph, scaled, a.reverse(1), 0.5f, prog);
  keep("scaled", scaled);
  keep("product", poplin::matMul(graph, a, a.transpose(), prog, "product"));
  const Tensor probabilities = popnn::nonLinearity(graph, popnn::NonLinearityType::SOFTMAX, a, prog, "softmax");
  keep("softmax", probabilities);
  keep("log softmax", popnn::logSoftmax(graph, a, prog));
  keep("arg max", popnn::argMax(graph, a.reverse(1), prog));
  Tensor loss = graph.addVariable(FLOAT, {3}, "loss"), deltas = graph.addVariable(FLOAT, {3, 4}, "deltas");
  Tensor correct = graph.addVariable(UNSIGNED_INT, {1}, "correct");
  for (const Tensor &t : {loss, deltas, correct})
    poputil::mapTensorLinearly(graph, t);
  popops::zero(graph, correct, prog);
  const Program step = popnn::calcLoss(graph, probabilities, labels, loss, deltas, correct, popnn::CROSS_ENTROPY_LOSS);
  prog.add(Repeat(2, step));
  keep("loss", loss);
  keep("deltas", deltas);
  keep("correct", correct);
  keep("slice", popops::dynamicSlice(graph, a, index, {0}, {2}, prog));
  keep("gather", popops::gather(graph, a, picks, 0, prog));
  keep("top", popops::topK(graph, prog, a, popops::TopKParams(2, true, popops::SortOrder::DESCENDING)));
  keep("sort", popops::sort(graph, a.reverse(1), 1, prog));
  Tensor counted = graph.addVariable(INT, {4}, "counted"), hot = graph.addVariable(FLOAT, {3, 4}, "hot");
  poputil::mapTensorLinearly(graph, counted);
  poputil::mapTensorLinearly(graph, hot);
  popops::iota(graph, counted, 5, prog);
  keep("iota", counted);
  popops::encodeOneHot(graph, labels, hot, prog);
  keep("hot", hot);
  keep("pad", popops::pad(graph, a, {1, 0}, {0, 1}, 7.0f));
  Tensor row = a[1];
  poputil::broadcastToMatch(row, {2, 4});
  keep("broadcast", row);
  poplin::ConvParams params(FLOAT, 1, {3, 4}, {2, 2}, 1, 1, 1);
  params.inputTransform.paddingLower = {1, 0};
  Tensor weights = graph.addConstant<float>(FLOAT, {1, 1, 1, 2, 2}, {1, 2, 3, 4});
  graph.setTileMapping(weights, 0);
  keep("convolution", poplin::convolution(graph, a.expand({0, 0}), weights, params, false, prog));
  Tensor sum = graph.addVariable(UNSIGNED_INT, {1}, "sum");
  graph.setTileMapping(sum, 0);
  popops::fill(graph, sum, prog, 0u);
  prog.add(popops::countedLoop(graph, 2, 8, 3, [&](const Tensor &i) {
    Sequence body;
    popops::addInPlace(graph, sum, i, body);
    return body;
  }));
  keep("loop", sum);
  keep("uniform", poprand::uniform(graph, nullptr, 3, a, FLOAT, -1.0, 2.0, prog));

  for (const auto &result : results)
    graph.createHostRead(result.first, result.second);
  Engine engine(graph, prog);
  engine.load(device);
  std::vector<float> values(12);
  for (int i = 0; i < 12; ++i)
    values[i] = 0.25f * i;
  engine.writeTensor("a", values.data(), values.data() + values.size());
  engine.run();
  for (const auto &result : results) {
    std::vector<float> found(result.second.numElements());
    engine.readTensor(result.first, found.data(), found.data() + found.size());
    std::cout << result.first << "|" << result.second.shapeToString() << "|";
    for (float value : found)
      std::printf("%.9g ", value), std::fflush(stdout);
    std::cout << std::endl;
  }
}
