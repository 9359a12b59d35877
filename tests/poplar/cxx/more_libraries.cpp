// Library functions on a = 0.25 * (0 … 11) as [3, 4] and others; each result is printed on a line of its own.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/Cholesky.hpp>
#include <poplin/MeshGrid.hpp>
#include <poplin/MultiConvolution.hpp>
#include <poplin/Norms.hpp>
#include <poplin/TriangularSolve.hpp>
#include <popnn/Loss.hpp>
#include <popnn/Recurrent.hpp>
#include <popops/AllTrue.hpp>
#include <popops/Cast.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Gather.hpp>
#include <popops/GatherStatistics.hpp>
#include <popops/NaN.hpp>
#include <popops/Pad.hpp>
#include <popops/Reduce.hpp>
#include <popops/Scatter.hpp>
#include <popops/SelectScalarFromRows.hpp>
#include <popops/Sort.hpp>
#include <popops/TopK.hpp>
#include <popops/UpdateScalarInRows.hpp>
#include <poprand/RandomGen.hpp>
#include <popsparse/Embedding.hpp>
#include <popsparse/FullyConnected.hpp>
#include <popsparse/MatMul.hpp>
#include <popsparse/SparsePartitioner.hpp>
#include <poputil/Broadcast.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/Util.hpp>

#include <iostream>

using namespace poplar;
using namespace poplar::program;
namespace sparse = popsparse::dynamic;

static std::vector<std::pair<std::string, Tensor>> results;

struct Bench {
  Graph &graph;
  Sequence &prog;
  void keep(const std::string &name, const Tensor &t) {
    results.push_back({name, t.elementType() == FLOAT ? t : popops::cast(graph, t, FLOAT, prog)});
  }
  template <typename N> Tensor constant(const Type &type, std::vector<std::size_t> shape, std::vector<N> values) {
    const Tensor made = graph.addConstant<N>(type, shape, ArrayRef<N>(values));
    poputil::mapTensorLinearly(graph, made);
    return made;
  }
  Tensor copy(const Tensor &t) { return poputil::duplicate(graph, t, prog); }
};

static void elementwise(Bench &b, const Tensor &a) {
  Graph &graph = b.graph;
  Sequence &prog = b.prog;
  b.keep("exp2", popops::exp2(graph, a, prog));
  b.keep("nearbyint", popops::nearbyint(graph, a, prog));
  b.keep("clamp", popops::clamp(graph, a, 0.5f, 2.0f, prog));
  Tensor held = b.copy(a);
  popops::clampInPlace(graph, held, 1.0f, 1.5f, prog);
  b.keep("clamp in place", held);
  const Tensor flags = popops::gt(graph, a, 1.0f, prog);
  b.keep("select", popops::select(graph, a, -1.0f, flags, prog));
  b.keep("all true", popops::allTrue(graph, flags, prog));
  b.keep("has nan", popops::hasNaN(graph, popops::log(graph, popops::neg(graph, a, prog), prog), prog));
  Tensor out = b.copy(a);
  popops::subWithOutput(graph, a, popops::square(graph, a, prog), out, prog);
  b.keep("with output", out);
  Tensor integers = graph.addVariable(INT, {3, 4});
  poputil::mapTensorLinearly(graph, integers);
  prog.add(popops::cast(graph, a, integers));
  b.keep("cast", integers);
  std::vector<Tensor> sums;
  popops::reduceMany(graph, {{a, {0}, popops::Operation::ADD}, {a, {1}, popops::Operation::MAX}}, sums, prog);
  b.keep("columns", sums[0]);
  b.keep("rows", sums[1]);
}

static void rows(Bench &b, const Tensor &a) {
  Graph &graph = b.graph;
  Sequence &prog = b.prog;
  b.keep("rows by number", popops::multiSlice(graph, a, {2u, 0u}, 0, prog));
  Tensor most = b.copy(a);
  const Tensor picks = b.constant<unsigned>(UNSIGNED_INT, {2, 1}, {1, 2});
  popops::multiUpdateMax(graph, most, b.constant<float>(FLOAT, {2, 1, 4}, std::vector<float>(8, 2.0f)), picks, {0}, {1},
                         prog, popops::SlicePlan(), {});
  b.keep("update max", most);
  Tensor part = graph.addVariable(FLOAT, {1, 4});
  poputil::mapTensorLinearly(graph, part);
  popops::dynamicSliceWithOutput(graph, part, a, b.constant<unsigned>(UNSIGNED_INT, {1}, {1}), {0}, {1}, prog);
  b.keep("slice", part);
  const Tensor places = b.constant<unsigned>(UNSIGNED_INT, {2, 2}, {0, 1, 1, 2}); // two windows of 2 x 2
  b.keep("windows", popops::gather(graph, a, places, 1, {1, 2}, {2, 2}, {}, {0, 1}, prog));
  Tensor written = b.copy(a);
  popops::scatter(graph, written, places, b.constant<float>(FLOAT, {2}, {-1, -2}), 1, {}, {0, 1}, {0, 1}, prog);
  b.keep("scattered", written);
  const Tensor labels = b.constant<unsigned>(UNSIGNED_INT, {3}, {3, 0xFFFFFFFFu, 0});
  b.keep("chosen", popops::selectScalarFromRows(graph, a, labels, prog));
  Tensor less = b.copy(a);
  popops::updateScalarInRows(graph, less, labels, prog);
  b.keep("one less", less);
  b.keep("histogram", popops::histogram(graph, a, b.constant<float>(FLOAT, {2}, {0.6f, 1.1f}), false, prog));
  b.keep("edge", popops::pad(a, 1, 2, 1, popops::padding::Type::EDGE));
  b.keep("reflect", popops::pad(a, 2, 1, 1, popops::padding::Type::REFLECT));
  Tensor keys = b.copy(a.reverse(1)), values = b.copy(a);
  popops::sortKeyValueInPlace(graph, keys, values, 1, prog);
  b.keep("sorted values", values);
  const auto top = popops::topKKeyValue(graph, prog, a, a.reverse(1), {2, true, popops::SortOrder::DESCENDING});
  b.keep("top values", top.second);
  Tensor indices;
  b.keep("largest", popnn::topK(graph, a, indices, 2, true, prog));
  b.keep("where", indices);
  b.keep("smallest", popnn::minAndArgMin(graph, a, prog).first);
}

static void algebra(Bench &b, const Tensor &a) {
  Graph &graph = b.graph;
  Sequence &prog = b.prog;
  const Tensor matrix = b.constant<float>(FLOAT, {2, 2}, {4, 2, 2, 5});
  const Tensor factor = poplin::cholesky(graph, matrix, true, prog);
  b.keep("cholesky", factor);
  const Tensor right = b.constant<float>(FLOAT, {2, 1}, {2, 3});
  b.keep("solve", poplin::triangularSolve(graph, factor, right, true, true, false, prog));
  b.keep("mask", poplin::triangularMask(graph, matrix, true, true, prog));
  b.keep("grid", poplin::meshgrid2d(graph, poplin::linspace(graph, FLOAT, 0, 1, 3), right.flatten())[0]);
  Tensor product = poplin::createMatMulOutput(graph, FLOAT, {3, 4}, {4, 3}, "product");
  poplin::matMulWithOutput(graph, a, a.transpose(), product, prog);
  b.keep("product", product);
  const poplin::ConvParams params(FLOAT, 1, {3, 4}, {2, 2}, 1, 1, 1);
  const Tensor kernel = b.constant<float>(FLOAT, {1, 1, 1, 2, 2}, {1, 2, 3, 4});
  b.keep("convolution", poplin::multiconv::convolution(graph, {{a.expand({0, 0}), kernel, params, {}}}, false, prog)[0]);
  const Tensor acts = a.reshape({3, 2, 2}), gamma = a[0].slice(1, 3), beta = a[1].slice(0, 2);
  const auto statistics = poplin::normStatistics(graph, acts, 0.01f, prog, false);
  const Tensor white = poplin::normWhiten(graph, acts, statistics.first, statistics.second, prog);
  b.keep("norm", poplin::normalise(graph, white, gamma, beta, prog));
  const Tensor back = acts.reverse(0);
  b.keep("norm gamma", poplin::normParamGradients(graph, white, back, prog).first);
  b.keep("norm gradient", poplin::normStatisticsGradients(graph, white, poplin::normGradients(graph, back, gamma, prog),
                                                          statistics.second, prog));
}

static void recurrent(Bench &b, const Tensor &a) {
  Graph &graph = b.graph;
  Sequence &prog = b.prog;
  namespace rnn = popnn::rnn;
  const auto tanh = popnn::NonLinearityType::TANH;
  const Tensor x = a.reshape({3, 2, 2}), w = a.flatten().slice(0, 4).reshape({2, 2}), u = a.flatten().slice(4, 8).reshape({2, 2});
  const Tensor bias = a[0].slice(0, 2), first = rnn::createFwdState(graph, FLOAT, 2, 2, prog, true, false);
  const Tensor out = rnn::rnnFwdSequence(graph, prog, first, nullptr, bias, w, u, x, tanh, FLOAT, false);
  b.keep("rnn", out);
  const Tensor weighted = rnn::forwardWeightInput(graph, x, w, prog);
  b.keep("rnn in parts", rnn::forwardIterate(graph, weighted, first, u, bias, prog, tanh));
  const auto grads = rnn::rnnBwdSequence(graph, true, false, prog, first, out, bias, w, u, x, x, tanh, FLOAT);
  b.keep("rnn input", std::get<0>(grads));
  b.keep("rnn weights", std::get<1>(grads));
  b.keep("rnn feedback", std::get<2>(grads));
  b.keep("rnn biases", std::get<3>(grads));
  Tensor state = rnn::createBwdState(graph, FLOAT, 2, 2, prog);
  Tensor dw = b.copy(w), du = b.copy(u), db = b.copy(bias), dx;
  for (const Tensor &one : {dw, du, db})
    popops::mulInPlace(graph, one, 0.0f, prog);
  for (int step = 2; step >= 0; --step) {
    std::tie(dx, state) = rnn::backwardGradientStep(graph, x[step], state, out[step], w, u, prog, tanh);
    rnn::paramDeltaUpdate(graph, state, x[step], step ? out[step - 1] : first, dw, du, db, prog);
  }
  b.keep("rnn first input in steps", dx);
  b.keep("rnn weights in steps", dw);
  b.keep("rnn feedback in steps", du);
  b.keep("rnn biases in steps", db);
}

static void sparsely(Bench &b, const Tensor &a) {
  Graph &graph = b.graph;
  Sequence &prog = b.prog;
  // [[0, 2, 0], [1, 0, 3]] as weights of a layer of three inputs and two outputs
  const sparse::SparsityParams how;
  const auto params = sparse::FullyConnectedParams::createWithNumNonZeroValues(how, 4, 4, 1, 3, 2);
  const sparse::SparseTensor weights = sparse::createFullyConnectedWeights(graph, FLOAT, params, "weights");
  const sparse::Partitioner<float> partitioner(params, FLOAT, graph.getTarget(), {});
  const auto data = partitioner.createSparsityDataImpl(popsparse::COOMatrix<float>(2, 3, {3, 1, 2}, {2, 0, 1}, {1, 1, 0}));
  const auto rows = partitioner.sparsityDataImplToCSRMatrix(data);
  std::cout << "sparse " << params.getNumNonZeroValues() << " " << data.metaInfo.size() << " " << rows.rowIndices[1] << " "
            << rows.rowIndices[2] << " " << rows.nzValues[1] << "\n";
  const std::vector<unsigned> where(data.metaInfo.begin(), data.metaInfo.end());
  prog.add(Copy(b.constant<unsigned>(UNSIGNED_INT, {where.size()}, where), weights.getMetaInfoTensor()));
  prog.add(Copy(b.constant<float>(FLOAT, {data.nzValues.size()}, data.nzValues), weights.getNzValuesTensor()));
  const Tensor x = a.transpose(), out = sparse::fullyConnectedFwd(graph, weights, x, params, prog);
  b.keep("sparse layer", out);
  b.keep("sparse input", sparse::fullyConnectedGradA(graph, weights, out, params, prog));
  b.keep("sparse weights", sparse::fullyConnectedSparseGradW(graph, weights.getMetaInfoTensor(), out, x, params, prog));
  const Tensor picks = b.constant<unsigned>(UNSIGNED_INT, {2}, {1, 0});
  b.keep("sparse rows", sparse::embeddingSlice(graph, weights, picks, prog, params));
  const popsparse::CSRMatrix<float> pattern(2, 3, {2, 1, 3}, {1, 0, 2}, {0, 1, 3});
  const auto fixed = popsparse::static_::MatMulParams::createForSparseDense(1, 2, 3, 4);
  const auto left = popsparse::static_::createSparseDenseMatMulLHS(graph, FLOAT, fixed, pattern);
  prog.add(Copy(b.constant<float>(FLOAT, {3}, {2, 1, 3}), left.getNzValuesTensor()));
  b.keep("sparse product", popsparse::static_::sparseDenseMatMul(graph, left, a.expand({0}), prog));
}

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device);
  popsparse::addCodelets(graph);
  Sequence prog;
  Tensor a = graph.addVariable(FLOAT, {3, 4}, "a");
  poputil::mapTensorLinearlyWithOffset(graph, a, 2);
  std::cout << "tile " << (graph.getTileMapping(a)[2].empty() ? "other" : "2") << " split "
            << poputil::dimIsSplitOverTiles(graph, a, 0) << " fits " << poputil::canBroadcastToMatch(a, a[0]) << " parts "
            << poputil::balancedPartition(7, 3)[2] << "\n";
  graph.createHostWrite("a", a);
  Bench bench{graph, prog};
  elementwise(bench, a);
  rows(bench, a);
  algebra(bench, a);
  recurrent(bench, a);
  sparsely(bench, a);
  bench.keep("drawn", poprand::logUniform(graph, nullptr, 3, a, FLOAT, 1.0, 8.0, prog));
  for (std::size_t n = 0; n != results.size(); ++n)
    graph.createHostRead("out" + std::to_string(n), results[n].second);
  Engine engine(graph, prog);
  engine.load(device);
  std::vector<float> values(12);
  for (unsigned n = 0; n != 12; ++n)
    values[n] = 0.25f * n;
  engine.writeTensor("a", values.data(), values.data() + values.size());
  engine.run(0);
  for (std::size_t n = 0; n != results.size(); ++n) {
    std::vector<float> held(results[n].second.numElements());
    engine.readTensor("out" + std::to_string(n), held.data(), held.data() + held.size());
    std::cout << results[n].first << "|";
    for (float one : held)
      std::cout << one << " ";
    std::cout << "\n";
  }
}
