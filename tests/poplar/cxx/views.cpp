// Views of a tensor of 0, 1, 2, …: each is copied out and printed, so that its elements can be compared.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

using namespace poplar;
using namespace poplar::program;

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device.getTarget());
  Tensor t = graph.addVariable(INT, {2, 3, 4}, "t");
  graph.setTileMapping(t, 1);
  graph.createHostWrite("t", t);
  const std::vector<std::pair<std::string, Tensor>> views = {
      {"index", t[1]},
      {"index twice", t[1][2]},
      {"slice", t.slice(1, 3, 1)},
      {"slice all", t.slice({0, 1, 1}, {2, 3, 3})},
      {"shuffle", t.dimShuffle({2, 0, 1})},
      {"shuffle partial", t.dimShufflePartial({2}, {0})},
      {"roll", t.dimRoll(2)},
      {"reverse", t.reverse(1)},
      {"sample", t.subSample(2, 2)},
      {"flatten", t.dimShuffle({1, 0, 2}).flatten()},
      {"flatten partial", t.flatten(1, 3)},
      {"reshape", t.reshape({4, 6})},
      {"reshape shuffled", t.dimShuffle({1, 2, 0}).reshape({6, 4})},
      {"broadcast", t.slice(0, 1, 0).broadcast(3, 0)},
      {"broadcast more", t.slice(0, 2, 1).broadcast(2, 1)},
      {"upsample", t.slice(0, 1, 0).upsample(2, 2, UpsampleMethod::REPEAT)},
      {"concat", concat({t[0], t[1].reverse(0)}, 1)},
      {"concat sliced", concat(t[0], t[1], 0).slice(2, 5).transpose()},
      {"append", append(t[0].slice(0, 2), t[1][0], 0)},
      {"expand", t.expand({0, 2})},
      {"squeeze", t.slice(0, 1, 1).squeeze({1})},
  };
  for (const auto &view : views)
    graph.createHostRead(view.first, view.second);
  Engine engine(graph, Sequence());
  engine.load(device);
  std::vector<int> values(24);
  for (int i = 0; i < 24; ++i)
    values[i] = i;
  engine.writeTensor("t", values.data(), values.data() + values.size());
  for (const auto &view : views) {
    std::vector<int> found(view.second.numElements());
    engine.readTensor(view.first, found.data(), found.data() + found.size());
    std::cout << view.first << "|" << view.second.shapeToString() << "|";
    for (int value : found)
      std::cout << value << " ";
    std::cout << "\n";
  }
  const auto mapping = graph.getTileMapping(t);
  std::cout << "mapping|" << mapping.size() << "|" << mapping[1][0] << "\n";
  std::cout << "regions|" << t.slice(1, 3, 1).getContiguousRegions().size() << "|"
            << t.slice(0, 1, 0).broadcast(2, 0).containsAliases() << "\n";
}
