// The exceptions of the interface. Part of openipu, written independently.
#ifndef openipu_poplar_exceptions_hpp
#define openipu_poplar_exceptions_hpp

#include <cstdint>
#include <stdexcept>
#include <string>

namespace poplar {

struct poplar_error : public std::runtime_error {
  std::string type;
  explicit poplar_error(const std::string &message) : std::runtime_error(message), type("poplar_error") {}
  explicit poplar_error(const char *message) : poplar_error(std::string(message)) {}

protected:
  poplar_error(const std::string &message, const char *name) : std::runtime_error(message), type(name) {}
};

#define OPENIPU_ERROR(name, base)                                                                  \
  struct name : public base {                                                                      \
    explicit name(const std::string &message) : base(message, #name) {}                            \
                                                                                                   \
  protected:                                                                                       \
    name(const std::string &message, const char *derived) : base(message, derived) {}              \
  };
OPENIPU_ERROR(file_load_error, poplar_error)
OPENIPU_ERROR(missing_cycle_estimate, poplar_error)
OPENIPU_ERROR(missing_perf_estimate, missing_cycle_estimate)
OPENIPU_ERROR(symbol_error, poplar_error)
OPENIPU_ERROR(unknown_field, poplar_error)
OPENIPU_ERROR(unknown_vertex_type, poplar_error)
OPENIPU_ERROR(no_environment, poplar_error)
OPENIPU_ERROR(parse_error, poplar_error)
OPENIPU_ERROR(invalid_option, poplar_error)
OPENIPU_ERROR(invalid_machine_model, poplar_error)
OPENIPU_ERROR(stream_connection_error, poplar_error)
OPENIPU_ERROR(graph_cycle_error, poplar_error)
OPENIPU_ERROR(graph_recursion_error, poplar_error)
OPENIPU_ERROR(invalid_tile_mapping, poplar_error)
OPENIPU_ERROR(type_error, poplar_error)
OPENIPU_ERROR(no_size_specified, poplar_error)
OPENIPU_ERROR(profiling_disabled, poplar_error)
OPENIPU_ERROR(control_program_error, poplar_error)
OPENIPU_ERROR(runtime_error, poplar_error)
OPENIPU_ERROR(application_runtime_error, runtime_error)
OPENIPU_ERROR(system_runtime_error, runtime_error)
OPENIPU_ERROR(recoverable_runtime_error, system_runtime_error)
OPENIPU_ERROR(unrecoverable_runtime_error, system_runtime_error)
OPENIPU_ERROR(unknown_runtime_error, system_runtime_error)
OPENIPU_ERROR(overflow_error, poplar_error)
OPENIPU_ERROR(tensor_creation_error, poplar_error)
OPENIPU_ERROR(tensor_io_state_error, poplar_error)
OPENIPU_ERROR(index_error, poplar_error)
OPENIPU_ERROR(graph_object_load_error, poplar_error)
OPENIPU_ERROR(graph_object_creation_error, poplar_error)
OPENIPU_ERROR(graph_connection_error, poplar_error)
OPENIPU_ERROR(graph_program_compilation_error, poplar_error)
OPENIPU_ERROR(graph_replication_error, poplar_error)
OPENIPU_ERROR(memory_elem_constraints_error, poplar_error)
OPENIPU_ERROR(link_error, poplar_error)
#undef OPENIPU_ERROR

struct graph_memory_allocation_error : public poplar_error {
  std::string graphProfilePath;
  explicit graph_memory_allocation_error(const std::string &message, const std::string &profile = "")
      : poplar_error(message, "graph_memory_allocation_error"), graphProfilePath(profile) {}
  std::string getProfilePath() const { return graphProfilePath; }
};

} // namespace poplar

#endif
