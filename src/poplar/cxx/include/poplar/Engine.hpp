// Engines load programs on devices and run them. Part of openipu, written independently.
#ifndef openipu_poplar_Engine_hpp
#define openipu_poplar_Engine_hpp

#include <poplar/Device.hpp>
#include <poplar/Executable.hpp>
#include <poplar/Graph.hpp>
#include <poplar/StreamCallback.hpp>
#include <pva/pva.hpp>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace openipu {
struct EngineState;
}

namespace poplar {

class Engine {
public:
  Engine(const Graph &graph, ArrayRef<program::Program> programs, const OptionFlags &options = {});
  Engine(const Graph &graph, const program::Program &program, const OptionFlags &options = {})
      : Engine(graph, ArrayRef<program::Program>(&program, std::size_t(1)), options) {}
  Engine(const Graph &graph, const std::vector<program::Program> &programs, const OptionFlags &options = {})
      : Engine(graph, ArrayRef<program::Program>(programs), options) {}
  explicit Engine(const Executable &executable, const OptionFlags &options = {});
  Engine(Engine &&) noexcept;
  Engine &operator=(Engine &&) noexcept;
  ~Engine();

  void prepare(const Device &device);
  void deploy() {}
  void load(const Device &device);
  void run(unsigned program = 0, const std::string &debugName = "");
  void loadAndRun(const Device &device, unsigned program = 0) {
    load(device);
    run(program);
  }

  void writeTensor(StringRef handle, const void *begin, const void *end);
  void writeTensor(StringRef handle, const void *begin);
  template <typename T> void writeTensor(StringRef handle, ArrayRef<T> values) {
    writeTensor(handle, values.begin(), values.end());
  }
  void readTensor(StringRef handle, void *begin, void *end);
  void readTensor(StringRef handle, void *begin);

  void connectStream(StringRef handle, void *begin, void *end);
  void connectStream(StringRef handle, void *begin);
  void connectStream(StringRef handle, const void *begin, const void *end) {
    connectStream(handle, const_cast<void *>(begin), const_cast<void *>(end));
  }
  void connectStream(StringRef handle, const void *begin) { connectStream(handle, const_cast<void *>(begin)); }
  void connectStreamToCallback(StringRef handle, StreamCallbackHandle callback);
  void connectStreamToCallback(StringRef handle, unsigned replica, StreamCallbackHandle callback);
  void connectHostFunction(StringRef handle, unsigned replica, HostCallbackHandle callback);

  void copyToRemoteBuffer(const void *from, std::string handle, unsigned repeatIndex, unsigned replicationIndex = 0);
  void copyFromRemoteBuffer(std::string handle, void *to, unsigned repeatIndex, unsigned replicationIndex = 0);

  void printProfileSummary(std::ostream &to, const OptionFlags &options = {}) const;
  pva::Report getReport(bool reportExecution = true);
  void resetExecutionProfile();
  void enableExecutionProfiling();
  void disableExecutionProfiling();
  void setPrintStream(std::ostream &to);
  void setPrintTensorStream(std::ostream &to);
  std::vector<std::string> listStreams() const;
  std::vector<std::string> getHandles() const;

private:
  std::shared_ptr<openipu::EngineState> state_;
};

} // namespace poplar

#endif
