// Graphs: what is often called is collected, the rest is asked at once. Part of openipu.
#include "state.hpp"

#include <limits>

namespace openipu {

namespace {
const std::size_t enough = 1 << 22; // numbers: then what was collected is sent, to keep memory small
}

std::int64_t GraphState::numberLine(const poplar::SourceLocation &here) {
  const auto key = std::make_pair(here.getFileName(), here.getLineNumber());
  const auto found = lines.find(key);
  if (found != lines.end())
    return found->second;
  const std::int64_t number = static_cast<std::int64_t>(lines.size());
  lines[key] = number;
  newLines.push_back(here);
  return number;
}

// A list of lists: lines, mappings, and for each compute set its new vertices and what was said of them.
void GraphState::flush() {
  if (pending.empty() && mapped.empty())
    return;
  Writer out;
  out.tag(Tag::List);
  out.size(5);
  put(out, "graph.flush");
  put(out, id);
  out.tag(Tag::List);
  out.size(newLines.size());
  for (const poplar::SourceLocation &line : newLines)
    put(out, poplar::DebugContext(line));
  out.tag(Tag::List);
  out.size(mapped.size());
  for (const auto &entry : mapped) {
    out.tag(Tag::List);
    out.size(2);
    put(out, entry.first);
    put(out, entry.second);
  }
  out.tag(Tag::List);
  out.size(pending.size());
  for (const auto &entry : pending) {
    const PendingVertices &set = entry.second;
    out.tag(Tag::List);
    out.size(6);
    put(out, entry.first);
    put(out, set.added);
    put(out, set.tiles);
    put(out, set.estimates);
    out.tag(Tag::List);
    out.size(set.rows.size());
    for (const auto &column : set.rows) {
      out.tag(Tag::List);
      out.size(3);
      put(out, column.first.first);
      put(out, column.first.second);
      put(out, column.second);
    }
    out.tag(Tag::List);
    out.size(set.states.size());
    for (const auto &column : set.states) {
      out.tag(Tag::List);
      out.size(4);
      put(out, column.first.first);
      put(out, column.first.second);
      put(out, column.second.first);
      put(out, column.second.second);
    }
  }
  newLines.clear();
  mapped.clear();
  pending.clear();
  waiting = 0;
  exchange(out);
}

void put(Writer &out, const poplar::Graph &graph) {
  graph.flush();
  put(out, Handle{graph.handle()});
}

void put(Writer &out, poplar::ComputeSet computeSet) {
  out.tag(Tag::ComputeSet);
  out.raw(computeSet.getId());
}

void put(Writer &out, const poplar::DebugContext &context) {
  out.tag(Tag::List);
  out.size(4);
  put(out, context.getPathName());
  put(out, context.getLocation().getFileName());
  put(out, context.getLocation().getLineNumber());
  put(out, context.getLocation().getFunctionName());
}

void put(Writer &out, const poplar::OptionFlags &options) { put(out, options.asMap()); }

} // namespace openipu

namespace poplar {

using openipu::ask;

namespace {

std::vector<std::int64_t> asNumbers(ArrayRef<std::size_t> values) {
  return std::vector<std::int64_t>(values.begin(), values.end());
}

const char *nameMethod(TensorCloneMethod method) {
  return method == TensorCloneMethod::CREATE_NEW_ORDER ? "CREATE_NEW_ORDER" : "PRESERVE_ORDER";
}

std::string describe(const openipu::CodeletInfo &codelet) {
  std::string names;
  for (const openipu::FieldInfo &field : codelet.fields)
    names += (names.empty() ? "" : ", ") + field.name;
  return names.empty() ? "none" : names;
}

} // namespace

FieldRef VertexRef::operator[](StringRef field) const {
  if (!codelet_)
    throw poplar_error("This vertex is empty: Graph::addVertex makes one.");
  const auto found = codelet_->byName.find(field);
  if (found == codelet_->byName.end())
    throw unknown_field("The codelet " + codelet_->name + " has no field '" + field.cloneAsString() +
                        "'. Its fields: " + describe(*codelet_) + ".");
  return FieldRef(*this, found->second);
}

FieldRef FieldRef::operator[](std::size_t place) const {
  if (place_ >= 0)
    throw index_error("A field has one level of entries.");
  return FieldRef(vertex_, field_, static_cast<std::int64_t>(place));
}

CodeletFileType getCodeletFileType(const char *path) {
  const std::string name(path);
  const auto ends = [&name](const char *suffix) {
    const std::string end(suffix);
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  if (ends(".cpp") || ends(".cc") || ends(".cxx"))
    return CodeletFileType::CppSource;
  if (ends(".c"))
    return CodeletFileType::CSource;
  if (ends(".S"))
    return CodeletFileType::PreprocessedAsmSource;
  if (ends(".s"))
    return CodeletFileType::AsmSource;
  if (ends(".gp") || ends(".o"))
    return CodeletFileType::Object;
  throw poplar_error("The type of the codelet file " + name + " cannot be told from its name.");
}

Graph::Graph(const Target &target, replication_factor replicas) : state_(std::make_shared<openipu::GraphState>()) {
  if (!target.isValid())
    throw poplar_error("A graph needs a target: take it from a device, for example IPUModel().createDevice().getTarget().");
  const openipu::Value made = ask("graph.create", openipu::Handle{target.id()}, replicas.value);
  handle_ = made.at(0).integer;
  state_->id = handle_;
  target_ = Target(made.at(1));
  state_->replicas = replicas.value;
}

Graph::Graph(const Device &device, replication_factor replicas) : Graph(device.getTarget(), replicas) {}

const Target &Graph::getTarget() const { return target_; }
unsigned Graph::getReplicationFactor() const { return state_->replicas; }
void Graph::flush() const { state_->flush(); }

Graph Graph::createVirtualGraph(unsigned numTilesPerIPU) const {
  std::vector<unsigned> tiles;
  const unsigned all = target_.getTilesPerIPU();
  for (unsigned ipu = 0; ipu < target_.getNumIPUs(); ++ipu)
    for (unsigned tile = 0; tile < numTilesPerIPU; ++tile)
      tiles.push_back(ipu * all + tile);
  return createVirtualGraph(tiles);
}
Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) const {
  std::vector<unsigned> tiles;
  for (unsigned tile = lowerTile; tile < upperTile; ++tile)
    tiles.push_back(tile);
  return createVirtualGraph(tiles);
}
Graph Graph::createVirtualGraph(const std::vector<unsigned> &tiles) const {
  const openipu::Value made = ask("graph.virtual", *this, std::vector<std::int64_t>(tiles.begin(), tiles.end()));
  std::vector<unsigned> chosen;
  for (unsigned tile : tiles)
    chosen.push_back(tiles_.empty() ? tile : tiles_.at(tile));
  return Graph(state_, made, chosen);
}
Graph Graph::getTopLevelGraph() const { return Graph(state_, ask("graph.top", *this), {}); }

unsigned Graph::place(unsigned tile, const char *what) const {
  const std::size_t count = tiles_.empty() ? target_.getNumTiles() : tiles_.size();
  if (tile >= count && target_.getTargetType() != TargetType::CPU)
    throw invalid_tile_mapping(std::string(what) + ": tile " + std::to_string(tile) + " does not exist: the graph has " +
                               std::to_string(count) + " tiles, 0 to " + std::to_string(count - 1) + ".");
  return tiles_.empty() ? tile : tiles_[tile];
}

bool Graph::addCodelets(StringRef path, CodeletFileType, StringRef compileFlags, StringRef) {
  ask("graph.addCodelets", *this, path.cloneAsString(), compileFlags.cloneAsString(), false);
  return true;
}
bool Graph::addCodelets(StringRef path, CodeletFileType type, StringRef compileFlags, std::ostream &out, StringRef target) {
  try {
    return addCodelets(path, type, compileFlags, target);
  } catch (const poplar_error &error) {
    out << error.what() << "\n";
    throw;
  }
}
void Graph::addCodelets(std::stringstream &stream, StringRef compileFlags, CodeletFileType, StringRef) {
  ask("graph.addCodelets", *this, stream.str(), compileFlags.cloneAsString(), true);
}
void Graph::addCodelets(std::stringstream &stream, StringRef compileFlags, std::ostream &out, CodeletFileType type,
                        StringRef target) {
  try {
    addCodelets(stream, compileFlags, type, target);
  } catch (const poplar_error &error) {
    out << error.what() << "\n";
    throw;
  }
}

Tensor Graph::addVariable(const Type &type, ArrayRef<std::size_t> shape, const DebugContext &context) {
  return openipu::readTensor(ask("graph.addVariable", openipu::Handle{handle_}, type, asNumbers(shape), context));
}
Tensor Graph::addVariable(const Type &type, ArrayRef<std::size_t> shape, VariableMappingMethod method,
                          const DebugContext &context) {
  const Tensor made = addVariable(type, shape, context);
  if (method == VariableMappingMethod::LINEAR)
    ask("call", "poputil", "mapTensorLinearly", std::vector<std::int64_t>(), openipu::Handle{handle_}, made);
  return made;
}
Tensor Graph::clone(const Type &type, const Tensor &tensor, const DebugContext &context, TensorCloneMethod method) {
  return openipu::readTensor(ask("graph.clone", *this, type, tensor, nameMethod(method), context));
}
Tensor Graph::clone(const Tensor &tensor, const DebugContext &context, TensorCloneMethod method) {
  return clone(tensor.elementType(), tensor, context, method);
}
Tensor Graph::addNumbers(const Type &type, ArrayRef<std::size_t> shape, const std::vector<double> &values,
                         const DebugContext &context) {
  return openipu::readTensor(
      ask("graph.addConstant", openipu::Handle{handle_}, type, asNumbers(shape), values, context));
}
Tensor Graph::addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, const std::uint16_t *values,
                              const DebugContext &context) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count(shape); ++i)
    numbers.push_back(static_cast<float>(half::fromBits(values[i])));
  return addNumbers(type, shape, numbers, context);
}
Tensor Graph::addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, std::uint16_t value,
                              const DebugContext &context) {
  return addNumbers(type, shape, {static_cast<float>(half::fromBits(value))}, context);
}

void Graph::setTileMapping(const Tensor &tensor, unsigned tile, SourceLocation) {
  const unsigned real = place(tile, "setTileMapping");
  std::int64_t start, stride;
  const std::size_t elements = tensor.numElements();
  if (elements == 0)
    return;
  openipu::Numbers &log = state_->mapped[tensor.elementType().bytes()];
  if (tensor.asRow(start, stride)) {
    log.insert(log.end(), {start, static_cast<std::int64_t>(elements), stride, real});
  } else {
    for (const Interval &region : tensor.getContiguousRegions()) {
      const std::int64_t first = tensor.isStrided() ? tensor.flatten()[region.begin()].listAddresses()[0]
                                                    : tensor.listAddresses()[region.begin()];
      log.insert(log.end(), {first, static_cast<std::int64_t>(region.size()), 1, real});
    }
  }
  if (++state_->waiting > openipu::enough)
    flush();
}
void Graph::setTileMapping(const Tensor &tensor, const TileToTensorMapping &mapping) {
  const Tensor flat = tensor.flatten();
  for (unsigned tile = 0; tile < mapping.size(); ++tile)
    for (const Interval &interval : mapping[tile]) {
      if (interval.end() > flat.numElements() || interval.begin() > interval.end())
        throw invalid_tile_mapping("setTileMapping: an interval on tile " + std::to_string(tile) + " is outside of the " +
                                   std::to_string(flat.numElements()) + " elements of the tensor.");
      setTileMapping(flat.slice(interval), tile);
    }
}
void Graph::setTileMapping(const VertexRef &vertex, unsigned tile) {
  const std::int64_t real = place(tile, "setTileMapping of a vertex");
  openipu::Numbers &log = state_->pending[vertex.computeSet()].tiles;
  log.insert(log.end(), {vertex.getId(), real});
}

TileToTensorMapping Graph::getTileMapping(const Tensor &tensor, bool requireComplete, bool) const {
  const openipu::Value found = ask("graph.getTileMapping", *this, tensor, requireComplete);
  TileToTensorMapping mapping(tiles_.empty() ? target_.getNumTiles() / state_->replicas : tiles_.size());
  for (std::size_t i = 0; i + 2 < found.numbers.size(); i += 3) {
    const std::size_t tile = static_cast<std::size_t>(found.numbers[i]);
    if (tile >= mapping.size())
      mapping.resize(tile + 1);
    mapping[tile].push_back(Interval(static_cast<std::size_t>(found.numbers[i + 1]), static_cast<std::size_t>(found.numbers[i + 2])));
  }
  return mapping;
}
TileToTensorMapping Graph::getTileMapping(const Tensor &tensor, bool *isComplete) const {
  const TileToTensorMapping mapping = getTileMapping(tensor, false);
  std::size_t covered = 0;
  for (const auto &intervals : mapping)
    for (const Interval &interval : intervals)
      covered += interval.size();
  *isComplete = covered == tensor.numElements();
  return mapping;
}

ComputeSet Graph::addComputeSet(const DebugContext &context) {
  const std::int64_t id = ask("graph.addComputeSet", openipu::Handle{handle_}, context).integer;
  state_->vertexCounts[id] = 0;
  return ComputeSet(id);
}

VertexRef Graph::addVertex(ComputeSet computeSet, StringRef type, SourceLocation here) {
  std::unique_ptr<openipu::CodeletInfo> &codelet = state_->codelets[type];
  if (!codelet) {
    openipu::Value found;
    try {
      found = ask("graph.describeCodelet", openipu::Handle{handle_}, type.cloneAsString());
    } catch (...) {
      state_->codelets.erase(type);
      throw;
    }
    codelet.reset(new openipu::CodeletInfo{found.at(0).integer, found.at(1).text, {}, {}});
    for (const openipu::Value &field : found.at(2).list) {
      codelet->byName[field.at(0).text] = static_cast<unsigned>(codelet->fields.size());
      codelet->fields.push_back({field.at(0).text, field.at(1).text, field.at(2).text, openipu::readType(field.at(3).text)});
    }
  }
  auto known = state_->vertexCounts.find(computeSet.getId());
  if (known == state_->vertexCounts.end()) // one that a library made
    known = state_->vertexCounts.insert({computeSet.getId(), ask("graph.countVertices", openipu::Handle{handle_}, computeSet).integer}).first;
  const std::int64_t number = known->second++;
  openipu::Numbers &log = state_->pending[computeSet.getId()].added;
  log.insert(log.end(), {codelet->number, state_->numberLine(here)});
  if (++state_->waiting > openipu::enough)
    flush();
  return VertexRef(state_.get(), computeSet.getId(), number, codelet.get());
}
VertexRef Graph::addVertex(ComputeSet computeSet, StringRef type, ArrayRef<ConnectionDesc> connections,
                           SourceLocation here) {
  const VertexRef vertex = addVertex(computeSet, type, here);
  connect(vertex, connections);
  return vertex;
}

void Graph::connect(VertexRef vertex, ArrayRef<ConnectionDesc> connections) {
  for (const ConnectionDesc &connection : connections) {
    if (connection.single)
      connect(vertex[connection.field], connection.tensors[0]);
    else
      connect(vertex[connection.field], ArrayRef<Tensor>(connection.tensors));
  }
}

void Graph::connect(FieldRef field, const Tensor &tensor) {
  const VertexRef &vertex = field.vertex();
  const openipu::FieldInfo &info = vertex.codelet().fields[field.field()];
  const bool isVector = info.form == "vector" && tensor.rank() == 1;
  const bool isScalar = info.form == "scalar" && tensor.rank() == 0;
  if (field.place() < 0 && tensor.isStrided() && (isVector || isScalar) && tensor.elementType() == info.type &&
      info.access != "state") {
    openipu::Numbers &log = state_->pending[vertex.computeSet()].rows[{vertex.codelet().number, info.name}];
    if (isVector)
      log.insert(log.end(), {vertex.getId(), tensor.offset(), static_cast<std::int64_t>(tensor.dim(0)), tensor.strides()[0]});
    else
      log.insert(log.end(), {vertex.getId(), tensor.offset(), 1, 1});
    ++state_->waiting;
    return;
  }
  ask("graph.connect", *this, vertex.computeSet(), vertex.getId(), info.name, field.place(), tensor);
}
void Graph::connect(FieldRef field, ArrayRef<Tensor> tensors) {
  const VertexRef &vertex = field.vertex();
  const std::vector<Tensor> list(tensors.begin(), tensors.end());
  ask("graph.connect", *this, vertex.computeSet(), vertex.getId(), vertex.codelet().fields[field.field()].name, field.place(), list);
}
void Graph::connectConstant(FieldRef field, double value) {
  const VertexRef &vertex = field.vertex();
  ask("graph.connect", *this, vertex.computeSet(), vertex.getId(), vertex.codelet().fields[field.field()].name, field.place(), value);
}
void Graph::setState(FieldRef field, double value) {
  const VertexRef &vertex = field.vertex();
  const openipu::FieldInfo &info = vertex.codelet().fields[field.field()];
  if (info.access == "state" && info.form == "scalar" && field.place() < 0) {
    auto &log = state_->pending[vertex.computeSet()].states[{vertex.codelet().number, info.name}];
    log.first.push_back(vertex.getId());
    log.second.push_back(value);
    return;
  }
  ask("graph.setInitialValue", *this, vertex.computeSet(), vertex.getId(), info.name, value);
}
void Graph::setState(FieldRef field, const std::vector<double> &values) {
  const VertexRef &vertex = field.vertex();
  ask("graph.setInitialValue", *this, vertex.computeSet(), vertex.getId(), vertex.codelet().fields[field.field()].name, values);
}
void Graph::setFieldSize(FieldRef field, std::size_t size) {
  const VertexRef &vertex = field.vertex();
  ask("graph.setFieldSize", *this, vertex.computeSet(), vertex.getId(), vertex.codelet().fields[field.field()].name, size);
}
void Graph::setPerfEstimate(const VertexRef &vertex, std::uint64_t cycles, std::uint64_t flops) {
  openipu::Numbers &log = state_->pending[vertex.computeSet()].estimates;
  log.insert(log.end(), {vertex.getId(), static_cast<std::int64_t>(cycles), static_cast<std::int64_t>(flops)});
}

void Graph::createHostWrite(StringRef handle, const Tensor &tensor, bool) {
  ask("graph.createHostWrite", openipu::Handle{handle_}, handle.cloneAsString(), tensor);
}
void Graph::createHostRead(StringRef handle, const Tensor &tensor, bool) {
  ask("graph.createHostRead", openipu::Handle{handle_}, handle.cloneAsString(), tensor);
}
DataStream Graph::addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t elements, ReplicatedStreamMode mode,
                                      const OptionFlags &options) {
  const std::int64_t id = ask("graph.addHostToDeviceFIFO", openipu::Handle{handle_}, handle.cloneAsString(), type, elements,
                              static_cast<int>(mode), options)
                              .integer;
  return DataStream(id, handle, type, elements);
}
DataStream Graph::addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t elements, const OptionFlags &options) {
  const std::int64_t id =
      ask("graph.addDeviceToHostFIFO", openipu::Handle{handle_}, handle.cloneAsString(), type, elements, options).integer;
  return DataStream(id, handle, type, elements);
}
RemoteBuffer Graph::addRemoteBuffer(StringRef handle, const Type &type, std::size_t elements, std::size_t repeats, bool,
                                    bool) {
  const std::int64_t id =
      ask("graph.addRemoteBuffer", openipu::Handle{handle_}, handle.cloneAsString(), type, elements, repeats).integer;
  return RemoteBuffer(id, handle, type, elements, repeats);
}
HostFunction Graph::addHostFunction(StringRef handle, ArrayRef<HostFunction::Argument> inputs,
                                    ArrayRef<HostFunction::Argument> outputs) {
  std::vector<std::pair<Type, std::size_t>> in, out;
  for (const auto &argument : inputs)
    in.push_back({argument.elementType, argument.numElements});
  for (const auto &argument : outputs)
    out.push_back({argument.elementType, argument.numElements});
  const std::int64_t id = ask("graph.addHostFunction", openipu::Handle{handle_}, handle.cloneAsString(), in, out).integer;
  return HostFunction(id, handle, Type(), 0);
}
Function Graph::addFunction(const program::Program &program) {
  return Function(ask("graph.addFunction", *this, openipu::ProgramList{{program.node()}}).integer);
}

std::vector<std::vector<Interval>> Graph::getSortedContiguousRegions(const Tensor &tensor, ArrayRef<Interval> regions,
                                                                     bool, std::vector<std::size_t> *) const {
  const Tensor::Addresses all = tensor.flatten().listAddresses();
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (const Interval &region : regions)
    for (std::size_t i = region.begin(); i < region.end(); ++i)
      order.push_back({all.at(i), i});
  std::sort(order.begin(), order.end());
  std::vector<std::vector<Interval>> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool follows = i > 0 && order[i].first == order[i - 1].first + 1;
    if (!follows)
      found.emplace_back();
    std::vector<Interval> &group = found.back();
    if (follows && group.back().end() == order[i].second)
      group.back() = Interval(group.back().begin(), order[i].second + 1);
    else
      group.push_back(Interval(order[i].second, order[i].second + 1));
  }
  return found;
}

} // namespace poplar
