// The pipe to the engine's process: started once, when the first request is made. Part of openipu.
#include "state.hpp"

#include <cerrno>
#include <csignal>
#include <exception>
#include <mutex>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OPENIPU_PYTHON
#define OPENIPU_PYTHON "python3"
#endif

namespace openipu {
namespace {

enum Mark : std::uint8_t { ANSWER = 0, FAILURE = 1, QUESTION = 2, NOTICE = 3 };

class Connection {
public:
  static Connection &get() {
    static Connection *only = new Connection(); // never destroyed: engines in static variables may outlive anything
    return *only;
  }

  Value exchange(const Writer &request) {
    send(request.bytes());
    for (;;) {
      const std::string message = receive();
      const std::uint8_t mark = static_cast<std::uint8_t>(message.at(0));
      std::size_t at = 1;
      const Value value = decode(message, at);
      if (mark == ANSWER || mark == FAILURE) {
        if (thrown_) { // by a callback of the user's, which the engine knows nothing of
          const std::exception_ptr thrown = thrown_;
          thrown_ = nullptr;
          std::rethrow_exception(thrown);
        }
        if (mark == ANSWER)
          return value;
        raise(value.at(0).text, value.at(1).text);
      }
      hear(value, mark == QUESTION);
    }
  }

  std::map<std::int64_t, Listener *> listeners;

private:
  Connection() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
      throw poplar::system_runtime_error("openipu: no socket for the engine's process: " + std::string(std::strerror(errno)));
    const char *chosen = std::getenv("OPENIPU_PYTHON");
    const std::string python = chosen && *chosen ? chosen : OPENIPU_PYTHON;
    const std::string number = std::to_string(ends[1]);
    std::cout.flush();
    child_ = fork();
    if (child_ < 0)
      throw poplar::system_runtime_error("openipu: the engine's process cannot be started: " + std::string(std::strerror(errno)));
    if (child_ == 0) {
      close(ends[0]);
      execlp(python.c_str(), python.c_str(), "-m", "poplar.server", number.c_str(), static_cast<char *>(nullptr));
      std::fprintf(stderr,
                   "openipu: %s cannot be started (%s). Name the Python that openipu is installed in by OPENIPU_PYTHON.\n",
                   python.c_str(), std::strerror(errno));
      std::_Exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
    owner_ = getpid();
    std::atexit(finish);
    const std::string hello = receive();
    if (hello.size() < 2 || hello[0] != ANSWER)
      lost();
  }

  // The engine's process ends when nobody holds the other end of its socket; what it still prints comes first.
  static void finish() {
    Connection &only = get();
    if (only.owner_ != getpid())
      return;
    close(only.socket_);
    only.socket_ = -1;
    waitpid(only.child_, nullptr, 0);
  }

  [[noreturn]] void lost() {
    int status = 0;
    std::string how = "it ended";
    if (waitpid(child_, &status, 0) == child_) {
      if (WIFSIGNALED(status))
        how = std::string("it was ended by signal ") + std::to_string(WTERMSIG(status));
      else if (WEXITSTATUS(status))
        how = "it ended with code " + std::to_string(WEXITSTATUS(status));
    }
    throw poplar::system_runtime_error("openipu: the engine's process is gone (" + how +
                                       "). Its own message stands above. Is openipu installed in the Python that was "
                                       "used? OPENIPU_PYTHON names another one.");
  }

  void send(const std::string &content) {
    const std::uint64_t size = content.size();
    write(&size, sizeof size);
    write(content.data(), content.size());
  }

  void write(const void *from, std::size_t bytes) {
    const char *at = static_cast<const char *>(from);
    while (bytes > 0) {
      const ssize_t put = ::send(socket_, at, bytes, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR)
        continue;
      if (put <= 0)
        lost();
      at += put;
      bytes -= static_cast<std::size_t>(put);
    }
  }

  std::string receive() {
    std::uint64_t size = 0;
    read(&size, sizeof size);
    std::string content(size, '\0');
    read(&content[0], size);
    return content;
  }

  void read(void *to, std::size_t bytes) {
    char *at = static_cast<char *>(to);
    while (bytes > 0) {
      if (ready_ == filled_) {
        ssize_t got;
        do
          got = bytes >= sizeof buffer_ ? recv(socket_, at, bytes, 0) : recv(socket_, buffer_, sizeof buffer_, 0);
        while (got < 0 && errno == EINTR);
        if (got <= 0)
          lost();
        if (bytes >= sizeof buffer_) {
          at += got;
          bytes -= static_cast<std::size_t>(got);
          continue;
        }
        ready_ = 0;
        filled_ = static_cast<std::size_t>(got);
      }
      const std::size_t take = std::min(bytes, filled_ - ready_);
      std::memcpy(at, buffer_ + ready_, take);
      ready_ += take;
      at += take;
      bytes -= take;
    }
  }

  void hear(const Value &event, bool wantsAnswer) {
    Writer answer;
    const auto found = listeners.find(event.at(1).integer);
    if (found != listeners.end() && !thrown_) {
      try {
        found->second->hear(event.at(0).text, event, answer);
      } catch (...) {
        thrown_ = std::current_exception();
        answer = Writer();
      }
    }
    if (wantsAnswer) {
      if (answer.bytes().empty())
        put(answer, nullptr);
      send(answer.bytes());
    }
  }

  template <typename T> static T take(const std::string &bytes, std::size_t &at) {
    T value;
    if (bytes.size() - at < sizeof value)
      throw poplar::system_runtime_error("openipu: a message of the engine's process is cut short");
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }

  static Value decode(const std::string &bytes, std::size_t &at) {
    Value value;
    value.tag = static_cast<Tag>(take<std::uint8_t>(bytes, at));
    switch (value.tag) {
    case Tag::None:
      break;
    case Tag::Bool:
      value.integer = take<std::uint8_t>(bytes, at);
      break;
    case Tag::Int:
    case Tag::Handle:
    case Tag::ComputeSet:
    case Tag::Program:
      value.integer = take<std::int64_t>(bytes, at);
      break;
    case Tag::Float:
      value.real = take<double>(bytes, at);
      break;
    case Tag::Text:
    case Tag::Bytes: {
      const std::uint64_t size = take<std::uint64_t>(bytes, at);
      value.text.assign(bytes, at, size);
      at += size;
      break;
    }
    case Tag::Type:
      value.integer = take<std::uint8_t>(bytes, at);
      break;
    case Tag::List:
    case Tag::Dict: {
      const std::uint64_t size = take<std::uint64_t>(bytes, at) * (value.tag == Tag::Dict ? 2 : 1);
      for (std::uint64_t i = 0; i < size; ++i)
        value.list.push_back(decode(bytes, at));
      break;
    }
    case Tag::Ints:
      takeNumbers(bytes, at, value.numbers);
      break;
    case Tag::Tensor: { // graph, type, rank, dimensions, then 1, offset, strides or 0, addresses
      value.integer = take<std::int64_t>(bytes, at);
      const std::uint8_t type = take<std::uint8_t>(bytes, at);
      const std::uint64_t rank = take<std::uint64_t>(bytes, at);
      value.numbers.push_back(type);
      value.numbers.push_back(static_cast<std::int64_t>(rank));
      for (std::uint64_t i = 0; i < rank; ++i)
        value.numbers.push_back(take<std::int64_t>(bytes, at));
      const std::uint8_t strided = take<std::uint8_t>(bytes, at);
      value.numbers.push_back(strided);
      if (strided)
        for (std::uint64_t i = 0; i <= rank; ++i)
          value.numbers.push_back(take<std::int64_t>(bytes, at));
      else
        takeNumbers(bytes, at, value.numbers);
      break;
    }
    }
    return value;
  }

  static void takeNumbers(const std::string &bytes, std::size_t &at, std::vector<std::int64_t> &to) {
    const std::uint64_t count = take<std::uint64_t>(bytes, at);
    if (count > (bytes.size() - at) / sizeof(std::int64_t))
      throw poplar::system_runtime_error("openipu: a message of the engine's process is cut short");
    const std::size_t before = to.size();
    to.resize(before + count);
    std::memcpy(to.data() + before, bytes.data() + at, count * sizeof(std::int64_t));
    at += count * sizeof(std::int64_t);
  }

  std::exception_ptr thrown_;
  int socket_ = -1;
  pid_t child_ = -1;
  pid_t owner_ = -1;
  char buffer_[1 << 16];
  std::size_t ready_ = 0, filled_ = 0;
};

std::recursive_mutex &mutex() {
  static std::recursive_mutex *only = new std::recursive_mutex();
  return *only;
}

} // namespace

Value exchange(const Writer &request) {
  std::lock_guard<std::recursive_mutex> lock(mutex());
  return Connection::get().exchange(request);
}

void listen(std::int64_t engine, Listener *listener) { Connection::get().listeners[engine] = listener; }
void forget(std::int64_t engine) { Connection::get().listeners.erase(engine); }

void raise(const std::string &type, const std::string &message) {
#define OPENIPU_RAISE(name)                                                                        \
  if (type == #name)                                                                               \
    throw poplar::name(message);
  OPENIPU_RAISE(file_load_error)
  OPENIPU_RAISE(missing_cycle_estimate)
  OPENIPU_RAISE(missing_perf_estimate)
  OPENIPU_RAISE(symbol_error)
  OPENIPU_RAISE(unknown_field)
  OPENIPU_RAISE(unknown_vertex_type)
  OPENIPU_RAISE(parse_error)
  OPENIPU_RAISE(invalid_option)
  OPENIPU_RAISE(invalid_machine_model)
  OPENIPU_RAISE(stream_connection_error)
  OPENIPU_RAISE(graph_cycle_error)
  OPENIPU_RAISE(graph_recursion_error)
  OPENIPU_RAISE(invalid_tile_mapping)
  OPENIPU_RAISE(type_error)
  OPENIPU_RAISE(no_size_specified)
  OPENIPU_RAISE(profiling_disabled)
  OPENIPU_RAISE(control_program_error)
  OPENIPU_RAISE(application_runtime_error)
  OPENIPU_RAISE(system_runtime_error)
  OPENIPU_RAISE(runtime_error)
  OPENIPU_RAISE(overflow_error)
  OPENIPU_RAISE(tensor_creation_error)
  OPENIPU_RAISE(tensor_io_state_error)
  OPENIPU_RAISE(index_error)
  OPENIPU_RAISE(graph_object_load_error)
  OPENIPU_RAISE(graph_object_creation_error)
  OPENIPU_RAISE(graph_connection_error)
  OPENIPU_RAISE(graph_program_compilation_error)
  OPENIPU_RAISE(graph_replication_error)
  OPENIPU_RAISE(graph_memory_allocation_error)
  OPENIPU_RAISE(link_error)
#undef OPENIPU_RAISE
  throw poplar::poplar_error(message);
}

} // namespace openipu
