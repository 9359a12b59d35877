// Streams, remote buffers and functions of the host, as a graph knows them. Part of openipu, written independently.
#ifndef openipu_poplar_DataStream_hpp
#define openipu_poplar_DataStream_hpp

#include <poplar/Type.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

enum class ReplicatedStreamMode { REPLICATE, BROADCAST };

// Something with a handle that lives in the engine's process.
class HostLink {
public:
  HostLink() {}
  HostLink(std::int64_t id, std::string handle, Type type, std::size_t elements, std::size_t repeats = 1)
      : id_(id), handle_(std::move(handle)), type_(type), elements_(elements), repeats_(repeats) {}
  std::string handle() const { return handle_; }
  std::size_t numElements() const { return elements_; }
  Type elementType() const { return type_; }
  std::int64_t id() const { return id_; }

protected:
  std::int64_t id_ = -1;
  std::string handle_;
  Type type_;
  std::size_t elements_ = 0;
  std::size_t repeats_ = 1;
};

class DataStream : public HostLink {
public:
  using HostLink::HostLink;
  DataStream() {}
};

class RemoteBuffer : public HostLink {
public:
  using HostLink::HostLink;
  RemoteBuffer() {}
  std::size_t getRepeats() const { return repeats_; }
};

class HostFunction : public HostLink {
public:
  using HostLink::HostLink;
  HostFunction() {}
  struct Argument {
    Type elementType;
    std::size_t numElements;
  };
};

class Function {
public:
  Function() {}
  explicit Function(std::int64_t id) : id_(id) {}
  std::int64_t id() const { return id_; }

private:
  std::int64_t id_ = -1;
};

} // namespace poplar

#endif
