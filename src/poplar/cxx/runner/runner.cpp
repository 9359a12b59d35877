// Runs compiled codelets in a process of their own, over memory that it shares with the engine. Part of openipu.
//
// runner LIBRARY MEMORY_FD MEMORY_BYTES PROGRESS_OFFSET REQUEST_FD REPLY_FD HEAP_BYTES
//
// Each request is {u32 op, u64 bytes, payload}, each reply {u32 status, u64 bytes, payload}; poplar/native/process.py is
// the other side. Words in the shared memory say which vertex is at work: a crash or a hang has a place.
#include <poplar/Codelet.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

enum Op : std::uint32_t { DESCRIBE = 1, PREPARE = 2, RUN = 3, RELEASE = 4, COUNT = 5, PLACE = 6 };
enum Status : std::uint32_t { DONE = 0, RETURNED_FALSE = 1, NO_MEMORY = 2, THROWN = 3, BAD_REQUEST = 4 };

struct Progress { // in the shared memory
  volatile std::uint64_t batch, vertex, begun;
};

char *memory = nullptr;
Progress *progress = nullptr;
std::uint64_t memoryBytes = 0;
int requests = -1, replies = -1;

void readAll(void *to, std::size_t bytes) {
  char *at = static_cast<char *>(to);
  while (bytes > 0) {
    const ssize_t got = read(requests, at, bytes);
    if (got <= 0)
      std::_Exit(0); // the engine is gone
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void writeAll(const void *from, std::size_t bytes) {
  const char *at = static_cast<const char *>(from);
  while (bytes > 0) {
    const ssize_t put = write(replies, at, bytes);
    if (put <= 0)
      std::_Exit(0);
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void reply(Status status, const void *payload = nullptr, std::uint64_t bytes = 0) {
  char head[12];
  std::memcpy(head, &status, 4);
  std::memcpy(head + 4, &bytes, 8);
  writeAll(head, sizeof head);
  if (bytes > 0)
    writeAll(payload, bytes);
}

// A request's payload, read from front to back.
class Payload {
public:
  explicit Payload(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  template <typename T> T take() {
    T value;
    std::memcpy(&value, takeBytes(sizeof value), sizeof value);
    return value;
  }
  const char *takeBytes(std::size_t count) {
    if (count > bytes_.size() - at_)
      throw std::runtime_error("a request that is too short");
    const char *here = bytes_.data() + at_;
    at_ += count;
    return here;
  }

private:
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

struct Span {
  char *first;
  std::uint64_t count;
};

class Batch {
public:
  Batch(const openipu::VertexEntry &type, Payload &payload) : type_(type), count_(payload.take<std::uint64_t>()) {
    step_ = type.bytes;
    vertices_.reset(new (std::align_val_t(64)) char[count_ * step_ + 64]());
    rows_.resize(type.fieldCount);
    place(payload);
  }

  void place(Payload &payload) {
    for (std::size_t i = 0; i < type_.fieldCount; ++i)
      place(type_.fields[i], rows_[i], payload);
  }

  std::uint64_t count() const { return count_; }
  bool compute(std::uint64_t i) const { return type_.compute(vertices_.get() + i * step_); }

private:
  struct Free {
    void operator()(char *p) const { ::operator delete[](p, std::align_val_t(64)); }
  };

  char *locate(Payload &payload, std::uint64_t bytes) const {
    const std::uint64_t offset = payload.take<std::uint64_t>();
    if (offset > memoryBytes || bytes > memoryBytes - offset)
      throw std::runtime_error("a request outside the shared memory");
    return memory + offset;
  }

  Span locateSpan(Payload &payload, std::size_t elementBytes) const {
    const std::uint64_t offset = payload.take<std::uint64_t>(), count = payload.take<std::uint64_t>();
    if (offset > memoryBytes || count > (memoryBytes - offset) / elementBytes)
      throw std::runtime_error("a request outside the shared memory");
    return {memory + offset, count};
  }

  // A field without data stays as it is; at first an empty vector, a null pointer.
  void place(const openipu::FieldEntry &field, std::unique_ptr<char[]> &rows, Payload &payload) {
    if (!payload.take<std::uint8_t>())
      return;
    const bool isPlain = field.kind == openipu::STATE && field.form != openipu::VECTOR;
    std::vector<std::uint64_t> lengths;
    if (!isPlain && (field.form == openipu::ROWS || field.form == openipu::POINTERS)) {
      std::uint64_t total = 0;
      for (std::uint64_t i = 0; i < count_; ++i) {
        lengths.push_back(payload.take<std::uint64_t>());
        total += lengths.back();
      }
      const std::size_t step = field.form == openipu::ROWS ? sizeof(Span) : sizeof(char *);
      rows.reset(new char[total * step + 1]);
    }
    char *row = rows.get();
    for (std::uint64_t i = 0; i < count_; ++i) {
      char *at = vertices_.get() + i * step_ + field.offset;
      if (isPlain) {
        std::memcpy(at, payload.takeBytes(field.bytes), field.bytes);
      } else if (field.form == openipu::SCALAR) {
        char *target = locate(payload, field.elementBytes);
        std::memcpy(at, &target, sizeof target);
      } else if (field.form == openipu::VECTOR) {
        const Span span = locateSpan(payload, field.elementBytes);
        std::memcpy(at, &span, sizeof span);
      } else {
        const Span outer{row, lengths[i]};
        std::memcpy(at, &outer, sizeof outer);
        for (std::uint64_t j = 0; j < lengths[i]; ++j) {
          if (field.form == openipu::ROWS) {
            const Span span = locateSpan(payload, field.elementBytes);
            std::memcpy(row, &span, sizeof span);
            row += sizeof span;
          } else {
            char *target = locate(payload, field.elementBytes);
            std::memcpy(row, &target, sizeof target);
            row += sizeof target;
          }
        }
      }
    }
  }

  const openipu::VertexEntry &type_;
  std::uint64_t count_;
  std::size_t step_;
  std::unique_ptr<char[], Free> vertices_;
  std::vector<std::unique_ptr<char[]>> rows_;
};

std::string describe(const openipu::VertexEntry *all) {
  std::string text;
  for (const openipu::VertexEntry *v = all; v->name; ++v) {
    text += std::string("v\t") + v->name + "\t" + v->base + "\t" + (v->compute ? "1" : "0") + "\t" +
            std::to_string(v->bytes) + "\n";
    for (std::size_t i = 0; i < v->fieldCount; ++i) {
      const openipu::FieldEntry &f = v->fields[i];
      text += std::string("f\t") + f.name + "\t" + char(f.kind) + "\t" + char(f.form) + "\t" + f.type + "\t" +
              std::to_string(f.elementBytes) + "\t" + std::to_string(f.offset) + "\t" + std::to_string(f.bytes) + "\t" +
              std::to_string(f.alignment) + "\t" + std::to_string(f.minAlign) + "\n";
    }
  }
  return text;
}

class Runner {
public:
  Runner(const openipu::VertexEntry *all, volatile std::uint64_t *counter) : all_(all), counter_(counter) {}

  void serve() {
    for (;;) {
      const std::uint32_t op = takeWord();
      std::uint64_t bytes;
      readAll(&bytes, sizeof bytes);
      std::vector<char> content(bytes);
      readAll(content.data(), bytes);
      Payload payload(std::move(content));
      try {
        answer(static_cast<Op>(op), payload);
      } catch (const std::bad_alloc &) {
        reply(NO_MEMORY);
      } catch (const std::exception &error) {
        reply(inCompute_ ? THROWN : BAD_REQUEST, error.what(), std::strlen(error.what()));
      } catch (...) {
        reply(THROWN);
      }
      inCompute_ = false;
      std::fflush(stdout);
    }
  }

private:
  std::uint32_t takeWord() {
    std::uint32_t word;
    readAll(&word, sizeof word);
    return word;
  }

  void answer(Op op, Payload &payload) {
    switch (op) {
    case DESCRIBE: {
      const std::string text = describe(all_);
      return reply(DONE, text.data(), text.size());
    }
    case PREPARE: {
      const openipu::VertexEntry &type = all_[payload.take<std::uint32_t>()];
      batches_.emplace_back(new Batch(type, payload));
      const std::uint64_t number = batches_.size() - 1;
      return reply(DONE, &number, sizeof number);
    }
    case PLACE: {
      const std::uint32_t number = payload.take<std::uint32_t>();
      batches_.at(number)->place(payload);
      return reply(DONE);
    }
    case RUN: {
      const bool goesOn = payload.take<std::uint32_t>() != 0;
      return reply(run(payload.take<std::uint32_t>(), goesOn, nullptr) ? DONE : RETURNED_FALSE);
    }
    case COUNT: {
      const std::uint32_t number = payload.take<std::uint32_t>();
      std::vector<std::uint64_t> counts(batches_.at(number)->count());
      run(number, true, counts.data());
      return reply(DONE, counts.data(), counts.size() * sizeof(std::uint64_t));
    }
    case RELEASE:
      batches_.at(payload.take<std::uint32_t>()).reset();
      return reply(DONE);
    }
    reply(BAD_REQUEST);
  }

  // Which vertex was the first to return false, `progress` says. With `goesOn` the others run all the same.
  bool run(std::uint32_t number, bool goesOn, std::uint64_t *counts) {
    const Batch &batch = *batches_.at(number);
    progress->batch = number;
    inCompute_ = true;
    std::uint64_t failed = batch.count();
    for (std::uint64_t i = 0; i < batch.count(); ++i) {
      progress->vertex = i;
      progress->begun = progress->begun + 1;
      if (counts && counter_)
        *counter_ = 0;
      if (!batch.compute(i) && failed == batch.count()) {
        failed = i;
        if (!goesOn)
          break;
      }
      if (counts && counter_)
        counts[i] = *counter_;
    }
    inCompute_ = false;
    if (failed == batch.count())
      return true;
    progress->vertex = failed;
    return false;
  }

  const openipu::VertexEntry *all_;
  volatile std::uint64_t *counter_;
  std::vector<std::unique_ptr<Batch>> batches_;
  bool inCompute_ = false;
};

pid_t parent = 0;

// A vertex that never ends must not outlive the engine. (A signal at the parent's death would come when the thread that
// started this process ends.)
void endWithParent(int) {
  if (getppid() != parent)
    _exit(1);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 8)
    return 2;
  parent = getppid();
  struct sigaction look = {};
  look.sa_handler = endWithParent;
  look.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &look, nullptr);
  const struct itimerval each = {{1, 0}, {1, 0}};
  setitimer(ITIMER_REAL, &each, nullptr);
  memoryBytes = std::strtoull(argv[3], nullptr, 10);
  requests = std::atoi(argv[5]);
  replies = std::atoi(argv[6]);
  void *mapped = mmap(nullptr, memoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, std::atoi(argv[2]), 0);
  if (mapped == MAP_FAILED) {
    std::perror("the codelets' shared memory cannot be mapped");
    return 3;
  }
  memory = static_cast<char *>(mapped);
  progress = reinterpret_cast<Progress *>(memory + std::strtoull(argv[4], nullptr, 10));
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  using List = const openipu::VertexEntry *(*)();
  const List list = reinterpret_cast<List>(dlsym(library, "openipu_list_vertices"));
  if (!list)
    return 5;
  using Counter = volatile std::uint64_t *(*)();
  const Counter counter = reinterpret_cast<Counter>(dlsym(library, "openipu_find_counter"));
  const rlim_t heap = std::strtoull(argv[7], nullptr, 10);
  const struct rlimit limit = {heap, heap}, none = {0, 0};
  setrlimit(RLIMIT_DATA, &limit);
  setrlimit(RLIMIT_CORE, &none);
  Runner(list(), counter ? counter() : nullptr).serve();
}
