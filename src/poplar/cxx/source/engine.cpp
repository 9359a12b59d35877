// Engines and executables; what a running program wants of the host is answered here. Part of openipu.
#include "state.hpp"

#include <sstream>

namespace openipu {

void put(Writer &out, const ProgramList &programs) {
  std::unordered_map<const Node *, std::int64_t> numbers;
  std::vector<const Node *> order;
  std::vector<std::pair<const Node *, std::size_t>> path; // node, next child: without recursion, trees may be deep
  for (const NodePtr &program : programs.programs) {
    path.push_back({program.get(), 0});
    while (!path.empty()) {
      const Node *node = path.back().first;
      if (numbers.count(node)) {
        path.pop_back();
        continue;
      }
      if (path.back().second < node->children.size()) {
        path.push_back({node->children[path.back().second++].get(), 0});
        continue;
      }
      numbers[node] = static_cast<std::int64_t>(order.size());
      order.push_back(node);
      path.pop_back();
    }
  }
  out.tag(Tag::List);
  out.size(2);
  out.tag(Tag::List);
  out.size(order.size());
  for (const Node *node : order) {
    std::vector<std::int64_t> children;
    for (const NodePtr &child : node->children)
      children.push_back(numbers[child.get()]);
    out.tag(Tag::List);
    out.size(2 + node->count);
    put(out, node->kind);
    put(out, children);
    out.raw(node->arguments.data(), node->arguments.size());
  }
  std::vector<std::int64_t> roots;
  for (const NodePtr &program : programs.programs)
    roots.push_back(numbers[program.get()]);
  put(out, roots);
}

namespace {
ProgramList listPrograms(poplar::ArrayRef<poplar::program::Program> programs) {
  ProgramList list;
  for (const poplar::program::Program &program : programs)
    list.programs.push_back(program.node());
  return list;
}
} // namespace

struct Ring { // a user's buffer; without an end every transfer begins at its beginning
  char *begin = nullptr;
  char *end = nullptr;
};

struct EngineState : Listener {
  std::int64_t id = -1;
  std::map<std::string, Ring> rings;
  std::map<std::pair<std::string, std::int64_t>, poplar::StreamCallbackHandle> callbacks;
  std::map<std::pair<std::string, std::int64_t>, poplar::HostCallbackHandle> functions;
  std::ostream *print = &std::cerr;

  explicit EngineState(std::int64_t number) : id(number) { listen(id, this); }
  ~EngineState() override { forget(id); }

  char *locate(const Ring &ring, std::uint64_t position, std::size_t bytes) const {
    if (!ring.end)
      return ring.begin;
    const std::uint64_t places = static_cast<std::uint64_t>(ring.end - ring.begin) / bytes;
    return ring.begin + (position % places) * bytes;
  }

  bool isWritten(const Ring &ring) const {
    for (const auto &other : rings)
      if (&other.second != &ring && other.second.begin < (ring.end ? ring.end : ring.begin + 1) &&
          ring.begin < (other.second.end ? other.second.end : other.second.begin + 1))
        return true;
    return false;
  }

  poplar::StreamCallbackHandle &find(const std::string &handle, std::int64_t replica) {
    const auto found = callbacks.find({handle, replica});
    return found != callbacks.end() ? found->second : callbacks[{handle, 0}];
  }

  void hear(const std::string &what, const Value &event, Writer &answer) override {
    if (what == "print") {
      *print << event.at(2).text << std::flush;
      return;
    }
    const std::string &handle = event.at(2).text;
    const std::int64_t replica = event.at(3).integer;
    if (what == "take") { // position, bytes of one transfer, how many would be welcome
      const Ring &ring = rings[handle];
      const std::size_t bytes = static_cast<std::size_t>(event.at(5).integer);
      std::string data;
      const std::int64_t count = !ring.end || isWritten(ring) ? 1 : event.at(6).integer;
      for (std::int64_t i = 0; i < count; ++i)
        data.append(locate(ring, static_cast<std::uint64_t>(event.at(4).integer + i), bytes), bytes);
      openipu::put(answer, Bytes{data.data(), data.size()});
    } else if (what == "put") {
      const std::string &data = event.at(5).text;
      std::memcpy(locate(rings[handle], static_cast<std::uint64_t>(event.at(4).integer), data.size()), data.data(), data.size());
    } else if (what == "fetch" || what == "prefetch") {
      std::string data(static_cast<std::size_t>(event.at(4).integer), '\0');
      bool good = true;
      if (what == "fetch")
        find(handle, replica)->fetch(&data[0]);
      else
        good = find(handle, replica)->prefetch(&data[0]) == poplar::StreamCallback::Result::Success;
      answer.tag(Tag::List);
      answer.size(2);
      openipu::put(answer, good);
      openipu::put(answer, Bytes{data.data(), data.size()});
    } else if (what == "drain") {
      std::string data = event.at(4).text;
      find(handle, replica)->fetch(&data[0]);
    } else if (what == "complete") {
      find(handle, replica)->complete();
    } else if (what == "invalidate") {
      find(handle, replica)->invalidatePrefetched();
    } else if (what == "call") {
      callHost(handle, replica, event, answer);
    }
  }

  void callHost(const std::string &handle, std::int64_t replica, const Value &event, Writer &answer) {
    std::vector<const void *> inputs;
    for (const Value &input : event.at(4).list)
      inputs.push_back(input.text.data());
    std::vector<std::string> results;
    for (std::int64_t bytes : event.at(5).numbers)
      results.push_back(std::string(static_cast<std::size_t>(bytes), '\0'));
    std::vector<void *> outputs;
    for (std::string &result : results)
      outputs.push_back(&result[0]);
    const auto found = functions.find({handle, replica});
    (found != functions.end() ? found->second : functions[{handle, 0}])(inputs, outputs);
    answer.tag(Tag::List);
    answer.size(results.size());
    for (const std::string &result : results)
      openipu::put(answer, Bytes{result.data(), result.size()});
  }
};

} // namespace openipu

namespace poplar {

using openipu::ask;
using openipu::Handle;

Executable::Executable(std::int64_t handle)
    : handle_(new std::int64_t(handle), [](const std::int64_t *kept) {
        delete kept; // the engine's process keeps it: engines may still run it
      }) {}
std::int64_t Executable::handle() const { return *handle_; }
void Executable::serialize(std::ostream &to) const {
  const std::string content = ask("executable.serialize", Handle{*handle_}).text;
  to.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!to)
    throw poplar_error("The executable cannot be written: the stream refuses it. Is the file open, and the disk not full?");
}
Executable Executable::deserialize(std::istream &from) {
  std::ostringstream all;
  if (from)
    all << from.rdbuf();
  const std::string content = all.str();
  return Executable(ask("executable.deserialize", openipu::Bytes{content.data(), content.size()}).integer);
}

Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs, const OptionFlags &options,
                        ProgressFunc progress, const DebugContext &context) {
  if (progress)
    progress(0, 1);
  const std::int64_t handle = ask("compile", graph, openipu::listPrograms(programs), options, context).integer;
  if (progress)
    progress(1, 1);
  return Executable(handle);
}

Engine::Engine(const Graph &graph, ArrayRef<program::Program> programs, const OptionFlags &options)
    : state_(std::make_shared<openipu::EngineState>(
          ask("engine.create", graph, openipu::listPrograms(programs), options).integer)) {}
Engine::Engine(const Executable &executable, const OptionFlags &options)
    : state_(std::make_shared<openipu::EngineState>(ask("engine.open", Handle{executable.handle()}, options).integer)) {}
Engine::Engine(Engine &&) noexcept = default;
Engine &Engine::operator=(Engine &&) noexcept = default;
Engine::~Engine() {
  if (state_ && state_.use_count() == 1) {
    try {
      ask("engine.close", Handle{state_->id});
    } catch (...) { // a destructor has nobody to tell
    }
  }
}

void Engine::prepare(const Device &device) { load(device); }
void Engine::load(const Device &device) { ask("engine.load", Handle{state_->id}, Handle{device.handle()}); }
void Engine::run(unsigned program, const std::string &debugName) {
  std::cout.flush();
  std::fflush(stdout);
  ask("engine.run", Handle{state_->id}, program, debugName);
}

void Engine::writeTensor(StringRef handle, const void *begin, const void *end) {
  const std::size_t bytes = static_cast<std::size_t>(static_cast<const char *>(end) - static_cast<const char *>(begin));
  ask("engine.writeTensor", Handle{state_->id}, handle.cloneAsString(), openipu::Bytes{begin, bytes});
}
void Engine::writeTensor(StringRef handle, const void *begin) {
  const std::size_t bytes = static_cast<std::size_t>(ask("engine.sizeOf", Handle{state_->id}, handle.cloneAsString(), true).integer);
  ask("engine.writeTensor", Handle{state_->id}, handle.cloneAsString(), openipu::Bytes{begin, bytes});
}
void Engine::readTensor(StringRef handle, void *begin, void *end) {
  const std::size_t room = static_cast<std::size_t>(static_cast<char *>(end) - static_cast<char *>(begin));
  const std::string data = ask("engine.readTensor", Handle{state_->id}, handle.cloneAsString()).text;
  if (data.size() != room)
    throw tensor_io_state_error("readTensor('" + handle.cloneAsString() + "'): the tensor has " +
                                std::to_string(data.size()) + " bytes, the buffer " + std::to_string(room) + ".");
  std::memcpy(begin, data.data(), data.size());
}
void Engine::readTensor(StringRef handle, void *begin) {
  const std::string data = ask("engine.readTensor", Handle{state_->id}, handle.cloneAsString()).text;
  std::memcpy(begin, data.data(), data.size());
}

void Engine::connectStream(StringRef handle, void *begin, void *end) {
  const std::int64_t bytes = static_cast<char *>(end) - static_cast<char *>(begin);
  ask("engine.connectStream", Handle{state_->id}, handle.cloneAsString(), bytes);
  state_->rings[handle] = {static_cast<char *>(begin), static_cast<char *>(end)};
}
void Engine::connectStream(StringRef handle, void *begin) {
  ask("engine.connectStream", Handle{state_->id}, handle.cloneAsString(), -1);
  state_->rings[handle] = {static_cast<char *>(begin), nullptr};
}
void Engine::connectStreamToCallback(StringRef handle, StreamCallbackHandle callback) {
  connectStreamToCallback(handle, 0, std::move(callback));
}
void Engine::connectStreamToCallback(StringRef handle, unsigned replica, StreamCallbackHandle callback) {
  ask("engine.connectCallback", Handle{state_->id}, handle.cloneAsString(), replica);
  state_->callbacks[{handle, replica}] = std::move(callback);
}
void Engine::connectHostFunction(StringRef handle, unsigned replica, HostCallbackHandle callback) {
  ask("engine.connectHostFunction", Handle{state_->id}, handle.cloneAsString(), replica);
  state_->functions[{handle, replica}] = std::move(callback);
}

void Engine::copyToRemoteBuffer(const void *from, std::string handle, unsigned repeatIndex, unsigned replicationIndex) {
  const std::size_t bytes = static_cast<std::size_t>(ask("engine.sizeOfRemote", Handle{state_->id}, handle).integer);
  ask("engine.copyToRemoteBuffer", Handle{state_->id}, openipu::Bytes{from, bytes}, handle, repeatIndex, replicationIndex);
}
void Engine::copyFromRemoteBuffer(std::string handle, void *to, unsigned repeatIndex, unsigned replicationIndex) {
  const std::string data =
      ask("engine.copyFromRemoteBuffer", Handle{state_->id}, handle, repeatIndex, replicationIndex).text;
  std::memcpy(to, data.data(), data.size());
}

void Engine::printProfileSummary(std::ostream &to, const OptionFlags &options) const {
  to << ask("engine.profileSummary", Handle{state_->id}, options).text;
}
pva::Report Engine::getReport(bool) { return pva::Report(ask("engine.getReport", Handle{state_->id}).integer); }
void Engine::resetExecutionProfile() { ask("engine.profiling", Handle{state_->id}, "reset"); }
void Engine::enableExecutionProfiling() { ask("engine.profiling", Handle{state_->id}, "enable"); }
void Engine::disableExecutionProfiling() { ask("engine.profiling", Handle{state_->id}, "disable"); }
void Engine::setPrintStream(std::ostream &to) { state_->print = &to; }
void Engine::setPrintTensorStream(std::ostream &to) { state_->print = &to; }
std::vector<std::string> Engine::listStreams() const {
  std::vector<std::string> names;
  for (const openipu::Value &name : ask("engine.listStreams", Handle{state_->id}).list)
    names.push_back(name.text);
  return names;
}
std::vector<std::string> Engine::getHandles() const { return listStreams(); }

program::Switch program::Switch::switchWithBoundsChecking(Tensor control, const Cases &cases, const DebugContext &context) {
  return Switch(control, cases, ErrorProgram("The value of a switch has no case", control, context), context);
}

} // namespace poplar
