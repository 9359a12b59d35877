// Operations of reductions and updates. Part of openipu, written independently.
#ifndef openipu_popops_OperationDef_hpp
#define openipu_popops_OperationDef_hpp

#include <openipu/library.hpp>

namespace popops {
enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD };

inline openipu::Named name(Operation op) {
  static const char *const names[] = {"ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "SQUARE_ADD", "LOG_ADD"};
  return openipu::Named(std::string("popops.Operation.") + names[static_cast<int>(op)]);
}
} // namespace popops

#endif
