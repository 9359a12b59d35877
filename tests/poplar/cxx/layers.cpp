// Layers and their gradients on x = 0.1 * (0 … 31) - 1.5 and views of it; each result is printed on a line of its own.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <popnn/BatchNorm.hpp>
#include <popnn/CTCInference.hpp>
#include <popnn/CTCLoss.hpp>
#include <popnn/GroupNorm.hpp>
#include <popnn/Gru.hpp>
#include <popnn/InstanceNorm.hpp>
#include <popnn/LayerNorm.hpp>
#include <popnn/Lstm.hpp>
#include <popnn/Pooling.hpp>
#include <popnn/SpatialSoftMax.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <poputil/GraphFunction.hpp>
#include <poputil/TileMapping.hpp>

#include <iostream>

using namespace poplar;
using namespace poplar::program;
namespace fn = poputil::graphfn;

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device);
  popnn::addCodelets(graph);
  Sequence prog;
  Tensor x = graph.addVariable(FLOAT, {32}, "x");
  poputil::mapTensorLinearly(graph, x);
  graph.createHostWrite("x", x);
  std::vector<std::pair<std::string, Tensor>> results;
  const auto keep = [&](const std::string &name, const Tensor &t) {
    results.push_back({name, t.elementType() == FLOAT ? t : popops::cast(graph, t, FLOAT, prog)});
  };
  const auto number = [&](std::vector<unsigned> values, std::vector<std::size_t> shape) {
    Tensor made = graph.addConstant<unsigned>(UNSIGNED_INT, shape, ArrayRef<unsigned>(values));
    graph.setTileMapping(made, 0);
    return made;
  };

  const Tensor image = x.reshape({1, 2, 4, 4});
  const popnn::pooling::PoolParams average(popnn::PoolingType::AVG, {4, 4}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, 2, 1, FLOAT);
  const Tensor pooled = popnn::pooling::pool(graph, average, image, prog, "pool");
  keep("pool", pooled);
  keep("pool gradient", popnn::pooling::poolInputGradient(graph, average, image, pooled, pooled, false, prog));
  std::cout << "shape " << average.getOutputFieldShape()[0] << "\n";

  const Tensor acts = x.reshape({2, 4, 2, 2}), gamma = x.slice(0, 4), beta = x.slice(4, 8);
  const auto norm = [&](const std::string &name, std::pair<Tensor, Tensor> statistics, Tensor gradient,
                        std::pair<Tensor, Tensor> normalised, std::pair<Tensor, Tensor> params) {
    keep(name, normalised.first);
    keep(name + " gradient", gradient);
    keep(name + " gamma", params.first);
    keep(name + " beta", params.second);
    keep(name + " mean", statistics.first);
  };
  const Tensor back = acts.reverse(0);
  const auto b = popnn::bn::batchNormStatistics(graph, acts, 0.01f, prog, false);
  norm("batch", b, popnn::bn::batchNormGradients(graph, acts, back, b.first, b.second, gamma, prog),
       popnn::bn::batchNormalise(graph, acts, gamma, beta, b.first, b.second, prog),
       popnn::bn::batchNormParamGradients(graph, acts, back, b.first, b.second, prog));
  const auto g = popnn::gn::groupNormStatistics(graph, acts, 0.01f, prog, 2, false);
  norm("group", g, popnn::gn::groupNormGradients(graph, acts, back, g.first, g.second, gamma, prog),
       popnn::gn::groupNormalise(graph, acts, gamma, beta, g.first, g.second, prog),
       popnn::gn::groupNormParamGradients(graph, acts, back, g.first, g.second, prog));
  const auto l = popnn::ln::layerNormStatistics(graph, acts, 0.01f, prog, false);
  keep("layer", popnn::ln::layerNormalise(graph, acts, gamma, beta, l.first, l.second, prog).first);
  const auto i = popnn::in::instanceNormStatistics(graph, acts, 0.01f, prog, false);
  keep("instance", popnn::in::instanceNormalise(graph, acts, gamma, beta, i.first, i.second, prog).first);

  // time 2, batch 1, input 3, output 2
  const Tensor sequence = x.slice(0, 6).reshape({2, 1, 3});
  {
    const popnn::lstm::LstmParams params(FLOAT, 1, 2, {3, 2});
    const popnn::lstm::LstmWeights weights{x.slice(8, 32).reshape({4, 3, 2}), x.slice(0, 16).reshape({4, 2, 2}),
                                           x.slice(16, 24).reshape({4, 2})};
    const popnn::lstm::LstmState state{x.slice(0, 2).reshape({1, 2}), x.slice(30, 32).reshape({1, 2})};
    Tensor kept, inputs;
    popnn::lstm::LstmWeights grads;
    const auto out = popnn::lstm::lstmFwd(graph, params, state, sequence, weights, &kept, prog);
    const Tensor change = x.slice(20, 24).reshape({2, 1, 2});
    const Tensor *none = nullptr;
    const auto first = popnn::lstm::lstmBwdWithWU(graph, params, prog, state, kept, weights, sequence, out.first,
                                                  change, none, &inputs, grads);
    keep("lstm", out.first);
    keep("lstm cell", out.second);
    keep("lstm input", inputs);
    keep("lstm state", first.output);
    keep("lstm first cell", first.cellState);
    keep("lstm weights", grads.inputWeights);
    keep("lstm feedback", grads.outputWeights);
    keep("lstm biases", grads.biases);
    const auto made = popnn::lstm::createWeights(graph, params);
    std::cout << "lstm " << made.inputWeights.dim(0) << made.inputWeights.dim(1) << made.biases.dim(1) << "\n";
  }
  for (const bool after : {false, true}) { // with biases [3, 2], or [3, 2, 2]
    const std::string gru = after ? "gru after" : "gru";
    popnn::gru::GruParams params(FLOAT, 1, 2, {3, 2});
    params.resetAfter = after;
    const popnn::gru::GruWeights weights{x.slice(8, 26).reshape({3, 3, 2}), x.slice(0, 12).reshape({3, 2, 2}),
                                         after ? x.slice(16, 28).reshape({3, 2, 2}) : x.slice(16, 22).reshape({3, 2})};
    const Tensor state = x.slice(0, 2).reshape({1, 2});
    Tensor kept, inputs;
    popnn::gru::GruWeights grads;
    const Tensor out = popnn::gru::gruFwd(graph, params, state, sequence, weights, &kept, prog);
    keep(gru, out);
    keep(gru + " state", popnn::gru::gruBwdWithWU(graph, params, prog, state, kept, weights, sequence, out, out, &inputs, grads));
    keep(gru + " input", inputs);
    keep(gru + " weights", grads.inputWeights);
    keep(gru + " feedback", grads.outputWeights);
    keep(gru + " biases", grads.biases);
  }
  {
    const Tensor logits = popops::sin(graph, x.slice(0, 24).reshape({6, 1, 4}), prog);
    const auto plan = popnn::ctc::plan(graph, FLOAT, FLOAT, 1, 6, 2, 4);
    const auto found = popnn::ctc::calcLossAndGradientLogits(graph, FLOAT, logits, number({2, 1}, {1, 2}), number({6}, {1}),
                                                             number({2}, {1}), prog, 0, plan);
    keep("ctc", found.first);
    keep("ctc gradient", found.second);
    const auto best = popnn::ctc_infer::beamSearchDecoderLogits(
        graph, logits, number({6}, {1}), prog, 0, 4, 2, popnn::ctc_infer::plan(graph, FLOAT, 1, 6, 4, 4));
    keep("ctc paths", std::get<0>(best));
  }
  keep("place", popnn::spatialSoftMax2D(graph, prog, x.reshape({2, 4, 4}), 2.0f).first);

  fn::VoidFunction twice(graph, {fn::input(beta), fn::inout(beta), fn::created()},
                         [&](std::vector<Tensor> &args, Sequence &body) {
                           popops::addInPlace(graph, args[1], args[0], body);
                           args[2] = popops::mul(graph, args[1], 2.0f, body);
                         });
  Tensor sum = graph.clone(beta);
  prog.add(Copy(beta, sum));
  for (const Tensor &added : {gamma, x.slice(8, 12)}) {
    std::vector<Tensor> args{added, sum, Tensor()};
    twice(args, prog);
    keep(added == gamma ? "called" : "called again", args[2]);
  }
  keep("sum", sum);
  fn::TensorFunction product(graph, {fn::input(beta), fn::input(beta)}, [&](std::vector<Tensor> &args, Sequence &body) {
    return popops::mul(graph, args[0], args[1], body);
  });
  std::vector<Tensor> factors{gamma, beta};
  keep("product", product(factors, prog));

  for (std::size_t n = 0; n != results.size(); ++n)
    graph.createHostRead("out" + std::to_string(n), results[n].second);
  Engine engine(graph, prog);
  engine.load(device);
  std::vector<float> values(32);
  for (unsigned n = 0; n != 32; ++n)
    values[n] = 0.1f * n - 1.5f;
  engine.writeTensor("x", values.data(), values.data() + values.size());
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
