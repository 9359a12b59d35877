// Functions of the program's that say what vertices cost; the engine asks them when a graph is compiled. Part of openipu.
#include "state.hpp"

namespace openipu {
namespace {

class Estimators : public Listener {
public:
  explicit Estimators(poplar::Target target) : target_(std::move(target)) {}
  std::map<std::string, poplar::PerfEstimateFunc> functions;

  // "estimate", graph, codelet, then for each field: name, rank, sizes, values
  void hear(const std::string &, const Value &event, Writer &answer) override {
    std::map<std::string, poplar::FieldData> fields;
    for (const Value &field : event.at(3).list) {
      std::vector<std::size_t> sizes(field.at(2).numbers.begin(), field.at(2).numbers.end());
      std::vector<double> values;
      for (const Value &value : field.at(3).list)
        values.push_back(value.tag == Tag::Float ? value.real : static_cast<double>(value.integer));
      fields.emplace(field.at(0).text, poplar::FieldData(field.at(0).text, static_cast<unsigned>(field.at(1).integer),
                                                         std::move(sizes), std::move(values)));
    }
    const std::string &name = event.at(2).text;
    const auto made = functions.at(name)(poplar::VertexIntrospector(name, std::move(fields)), target_);
    put(answer, std::vector<std::int64_t>{static_cast<std::int64_t>(made.cycles), static_cast<std::int64_t>(made.flops)});
  }

private:
  poplar::Target target_;
};

} // namespace

GraphState::~GraphState() {
  if (estimators)
    forget(id);
}

} // namespace openipu

namespace poplar {

void Graph::registerPerfEstimator(StringRef vertexType, PerfEstimateFunc function) {
  if (!state_->estimators) {
    state_->estimators = std::make_shared<openipu::Estimators>(getTarget());
    openipu::listen(state_->id, state_->estimators.get());
  }
  // The engine knows one spelling of the name, and asks by it.
  const std::string name = openipu::ask("graph.registerEstimator", *this, state_->id, vertexType.cloneAsString()).text;
  static_cast<openipu::Estimators &>(*state_->estimators).functions[name] = std::move(function);
}

void Graph::registerCycleEstimator(StringRef vertexType, CycleEstimateFunc function) {
  registerPerfEstimator(vertexType, [function](const VertexIntrospector &vertex, const Target &target) {
    return VertexPerfEstimate(function(vertex, target));
  });
}

} // namespace poplar
