// Reads profiles: the figures that C++ programs ask for most. Part of openipu, written independently.
#ifndef openipu_pva_pva_hpp
#define openipu_pva_pva_hpp

#include <openipu/client.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pva {

// A place in a report: names of attributes from its root, as Python's pva has them.
class Part {
public:
  Part(std::int64_t report, std::string path) : report_(report), path_(std::move(path)) {}

protected:
  Part part(const char *name) const { return Part(report_, path_.empty() ? name : path_ + "." + name); }
  openipu::Value get(const char *name) const { return openipu::ask("pva.get", report_, path_.empty() ? name : path_ + "." + name); }
  std::uint64_t number(const char *name) const { return static_cast<std::uint64_t>(get(name).asFloat()); }
  std::int64_t report_;
  std::string path_;
  friend class Report;
  friend class CompilationReport;
  friend class ExecutionReport;
};

class Target : public Part {
public:
  explicit Target(Part part) : Part(part) {}
  std::uint64_t numTiles() const { return number("numTiles"); }
  std::uint64_t numIPUs() const { return number("numIPUs"); }
  std::uint64_t tilesPerIpu() const { return number("tilesPerIpu"); }
  std::uint64_t bytesPerTile() const { return number("bytesPerTile"); }
  std::uint64_t totalMemory() const { return number("totalMemory"); }
  std::uint64_t clockFrequency() const { return number("clockFrequency"); }
  std::string architecture() const { return get("architecture").text; }
};

class CompiledGraph : public Part {
public:
  explicit CompiledGraph(Part part) : Part(part) {}
  std::uint64_t numComputeSets() const { return number("numComputeSets"); }
  std::uint64_t numVertices() const { return number("numVertices"); }
  std::uint64_t numEdges() const { return number("numEdges"); }
  std::uint64_t numVars() const { return number("numVars"); }
};

class CompilationReport : public Part {
public:
  explicit CompilationReport(Part part) : Part(part) {}
  CompiledGraph graph() const { return CompiledGraph(part("graph")); }
  Target target() const { return Target(part("target")); }
};

class PoplarVersion : public Part {
public:
  explicit PoplarVersion(Part part) : Part(part) {}
  std::uint64_t major() const { return number("major"); }
  std::uint64_t minor() const { return number("minor"); }
  std::uint64_t point() const { return number("point"); }
  std::string string() const { return get("string").text; }
};

class ExecutionReport : public Part {
public:
  explicit ExecutionReport(Part part) : Part(part) {}
};

class Report : public Part {
public:
  explicit Report(std::int64_t handle) : Part(handle, "") {}
  CompilationReport compilation() const { return CompilationReport(part("compilation")); }
  ExecutionReport execution() const { return ExecutionReport(part("execution")); }
  PoplarVersion poplarVersion() const { return PoplarVersion(part("poplarVersion")); }
};

inline Report openReport(const std::string &path, const std::string &executionPath = "") {
  return Report(openipu::ask("pva.open", path, executionPath).integer);
}

} // namespace pva

#endif
