// Graphs: variables, vertices, where they lie, and what the host exchanges with them.
// Part of openipu, written independently.
//
// What programs call most (tile mappings, vertices, connections) is collected here and sent in bulk, before anything
// that needs it.
#ifndef openipu_poplar_Graph_hpp
#define openipu_poplar_Graph_hpp

#include <openipu/client.hpp>
#include <poplar/ArrayRef.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/Interval.hpp>
#include <poplar/PerfEstimateFunc.hpp>
#include <poplar/Program.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <poplar/VertexRef.hpp>
#include <poplar/exceptions.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace poplar {

struct replication_factor {
  explicit replication_factor(unsigned factor) : value(factor) {}
  unsigned value;
};

enum class CodeletFileType { PreprocessedAsmSource, AsmSource, CSource, CppSource, IrSource, Object, Auto };
CodeletFileType getCodeletFileType(const char *path);

enum class VariableMappingMethod { NONE, LINEAR };

using TileToTensorMapping = std::vector<std::vector<Interval>>;

class Graph {
public:
  using TileToTensorMapping = poplar::TileToTensorMapping;

  explicit Graph(const Target &target, replication_factor replicas = replication_factor(1));
  explicit Graph(const Device &device, replication_factor replicas = replication_factor(1));
  Graph(Graph &&) = default;
  Graph &operator=(Graph &&) = default;
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  const Target &getTarget() const;
  unsigned getReplicationFactor() const;
  Graph createVirtualGraph(unsigned numTilesPerIPU) const;
  Graph createVirtualGraph(unsigned lowerTile, unsigned upperTile) const;
  Graph createVirtualGraph(const std::vector<unsigned> &tiles) const;
  Graph getTopLevelGraph() const;

  bool addCodelets(StringRef path, CodeletFileType type = CodeletFileType::Auto, StringRef compileFlags = "",
                   StringRef targetName = "");
  bool addCodelets(StringRef path, CodeletFileType type, StringRef compileFlags, std::ostream &compileOutput,
                   StringRef targetName = "");
  void addCodelets(std::stringstream &stream, StringRef compileFlags = "",
                   CodeletFileType type = CodeletFileType::CppSource, StringRef targetName = "");
  void addCodelets(std::stringstream &stream, StringRef compileFlags, std::ostream &compileOutput,
                   CodeletFileType type = CodeletFileType::CppSource, StringRef targetName = "");

  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape, const DebugContext &context = {});
  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape, VariableMappingMethod method,
                     const DebugContext &context = {});
  Tensor clone(const Type &type, const Tensor &tensor, const DebugContext &context = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
  Tensor clone(const Tensor &tensor, const DebugContext &context = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);

  template <typename T> Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, ArrayRef<T> values,
                                           const DebugContext &context = {"<const>"}) {
    return addConstant(type, shape, values.data(), values.size(), context);
  }
  template <typename T, typename A>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const std::vector<T, A> &values,
                     const DebugContext &context = {"<const>"}) {
    return addConstant(type, shape, values.data(), values.size(), context);
  }
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, T value,
                     const DebugContext &context = {"<const>"}) {
    return addConstant(type, shape, &value, 1, context);
  }
  template <typename T, typename P, typename = typename std::enable_if<std::is_pointer<P>::value>::type>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, P values,
                     const DebugContext &context = {"<const>"}) {
    return addConstant(type, shape, values, count(shape), context);
  }
  template <typename P, typename = typename std::enable_if<std::is_pointer<P>::value>::type, typename = void>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, P values,
                     const DebugContext &context = {"<const>"}) {
    return addConstant(type, shape, values, count(shape), context);
  }
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, const std::uint16_t *values,
                         const DebugContext &context = {"<const>"});
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, std::uint16_t value,
                         const DebugContext &context = {"<const>"});

  void setTileMapping(const Tensor &tensor, unsigned tile, SourceLocation here = SourceLocation::Current());
  void setTileMapping(const Tensor &tensor, const TileToTensorMapping &mapping);
  void setTileMapping(const VertexRef &vertex, unsigned tile);
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool requireComplete = true,
                                     bool allowExternal = false) const;
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool *isComplete) const;

  ComputeSet addComputeSet(const DebugContext &context = {});
  VertexRef addVertex(ComputeSet computeSet, StringRef type, SourceLocation here = SourceLocation::Current());
  VertexRef addVertex(ComputeSet computeSet, StringRef type, ArrayRef<ConnectionDesc> connections,
                      SourceLocation here = SourceLocation::Current());

  void connect(FieldRef field, const Tensor &tensor);
  void connect(FieldRef field, ArrayRef<Tensor> tensors);
  void connect(FieldRef field, const std::vector<Tensor> &tensors) { connect(field, ArrayRef<Tensor>(tensors)); }
  void connect(VertexRef vertex, ArrayRef<ConnectionDesc> connections);
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  void connect(FieldRef field, T value) {
    connectConstant(field, static_cast<double>(value));
  }
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value || std::is_enum<T>::value>::type>
  void setInitialValue(FieldRef field, T value) {
    setState(field, toNumber(value));
  }
  template <typename T> void setInitialValue(FieldRef field, ArrayRef<T> values) {
    std::vector<double> numbers;
    for (const T &value : values)
      numbers.push_back(toNumber(value));
    setState(field, numbers);
  }
  template <typename T, typename A> void setInitialValue(FieldRef field, const std::vector<T, A> &values) {
    setInitialValue(field, ArrayRef<T>(values));
  }
  void setInitialValueHalf(FieldRef field, std::uint16_t value) {
    setState(field, static_cast<float>(half::fromBits(value)));
  }
  void setFieldSize(FieldRef field, std::size_t size);

  void setPerfEstimate(const VertexRef &vertex, std::uint64_t cycles, std::uint64_t flops = 0);
  void setCycleEstimate(const VertexRef &vertex, std::uint64_t cycles) { setPerfEstimate(vertex, cycles); }
  // For vertices without an estimate of their own; asked when the graph is compiled.
  void registerPerfEstimator(StringRef vertexType, PerfEstimateFunc function);
  void registerCycleEstimator(StringRef vertexType, CycleEstimateFunc function);

  void createHostWrite(StringRef handle, const Tensor &tensor, bool rearrangeOnHost = false);
  void createHostRead(StringRef handle, const Tensor &tensor, bool rearrangeOnHost = false);
  DataStream addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t elements,
                                 ReplicatedStreamMode mode = ReplicatedStreamMode::REPLICATE,
                                 const OptionFlags &options = {});
  DataStream addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t elements,
                                 const OptionFlags &options = {});
  RemoteBuffer addRemoteBuffer(StringRef handle, const Type &type, std::size_t elements, std::size_t repeats = 1,
                               bool rearrangeOnHost = false, bool optimiseMemory = false);
  HostFunction addHostFunction(StringRef handle, ArrayRef<HostFunction::Argument> inputs,
                               ArrayRef<HostFunction::Argument> outputs);
  Function addFunction(const program::Program &program);

  std::vector<std::vector<Interval>> getSortedContiguousRegions(const Tensor &tensor, ArrayRef<Interval> regions,
                                                                bool removeAliasedIntervals = false,
                                                                std::vector<std::size_t> *aliases = nullptr) const;
  void reorderToSimplify(Tensor *, ArrayRef<Tensor *>, bool = true) const {} // an order that is right is kept
  bool isConstant(const Tensor &tensor) const { return tensor.containsConstant(); }

  // How the rest of the library sees it.
  std::int64_t handle() const { return handle_; }
  std::shared_ptr<openipu::GraphState> state() const { return state_; }
  void flush() const; // sends what was collected

private:
  Graph(std::shared_ptr<openipu::GraphState> state, const openipu::Value &made, std::vector<unsigned> tiles)
      : state_(std::move(state)), handle_(made.at(0).integer), target_(made.at(1)), tiles_(std::move(tiles)) {}
  unsigned place(unsigned tile, const char *what) const;
  static std::size_t count(ArrayRef<std::size_t> shape) {
    std::size_t elements = 1;
    for (std::size_t size : shape)
      elements *= size;
    return elements;
  }
  template <typename T> static typename std::enable_if<!std::is_enum<T>::value, double>::type toNumber(T value) {
    return static_cast<double>(value);
  }
  template <typename T> static typename std::enable_if<std::is_enum<T>::value, double>::type toNumber(T value) {
    return static_cast<double>(static_cast<typename std::underlying_type<T>::type>(value));
  }
  template <typename T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const T *values, std::size_t given,
                     const DebugContext &context) {
    std::vector<double> numbers(values, values + given);
    return addNumbers(type, shape, numbers, context);
  }
  Tensor addNumbers(const Type &type, ArrayRef<std::size_t> shape, const std::vector<double> &values,
                    const DebugContext &context);
  Tensor addBytes(const Type &type, ArrayRef<std::size_t> shape, const void *values, std::size_t bytes,
                  const DebugContext &context);
  void connectConstant(FieldRef field, double value);
  void setState(FieldRef field, double value);
  void setState(FieldRef field, const std::vector<double> &values);

  std::shared_ptr<openipu::GraphState> state_;
  std::int64_t handle_ = -1;
  Target target_;
  std::vector<unsigned> tiles_; // of a virtual graph; empty for all
};

} // namespace poplar

namespace openipu {
void put(Writer &out, const poplar::Graph &graph); // flushed first
}

#endif
