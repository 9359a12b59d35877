// Names for what a program makes, and where it made it. Part of openipu, written independently.
#ifndef openipu_poplar_DebugContext_hpp
#define openipu_poplar_DebugContext_hpp

#include <poplar/StringRef.hpp>

#include <string>
#include <vector>

namespace poplar {

class SourceLocation {
public:
  SourceLocation() : file_(""), function_(""), line_(0) {}
  SourceLocation(const char *function, const char *file, unsigned line)
      : file_(file), function_(function), line_(line) {}
  static SourceLocation Current(const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(),
                                unsigned line = __builtin_LINE()) {
    return SourceLocation(function, file, line);
  }
  bool isValid() const { return line_ != 0; }
  const char *getFileName() const { return file_; }
  const char *getFunctionName() const { return function_; }
  unsigned getLineNumber() const { return line_; }

private:
  const char *file_;
  const char *function_;
  unsigned line_;
};

using DebugId = unsigned long long;

class DebugContext;

class DebugNameAndId {
public:
  DebugNameAndId(std::string name = "", DebugId id = 0, std::string parent = "")
      : name_(join(parent, name)), id_(id) {}
  DebugNameAndId(const char *name) : name_(name), id_(0) {}
  DebugNameAndId(const DebugNameAndId &parent, StringRef name) : name_(join(parent.name_, name)), id_(parent.id_) {}
  std::string getPathName() const { return name_; }
  static std::string join(const std::string &parent, const std::string &name) {
    return parent.empty() ? name : name.empty() ? parent : parent + "/" + name;
  }

private:
  std::string name_;
  DebugId id_;
};

class DebugInfo;

class DebugContext {
public:
  DebugContext(SourceLocation here = SourceLocation::Current()) : location_(here) {}
  DebugContext(const char *name, SourceLocation here = SourceLocation::Current()) : name_(name), location_(here) {}
  DebugContext(StringRef name, SourceLocation here = SourceLocation::Current()) : name_(name), location_(here) {}
  DebugContext(std::string name, SourceLocation here = SourceLocation::Current())
      : name_(std::move(name)), location_(here) {}
  DebugContext(const DebugContext &parent, StringRef name) : name_(DebugNameAndId::join(parent.name_, name)), location_(parent.location_) {}
  DebugContext(const DebugNameAndId &parent, StringRef name = "", SourceLocation here = SourceLocation::Current())
      : name_(DebugNameAndId::join(parent.getPathName(), name)), location_(here) {}
  DebugContext(const DebugInfo &info, std::string name = "", SourceLocation here = SourceLocation::Current());

  std::string getPathName() const { return name_; }
  const SourceLocation &getLocation() const { return location_; }

private:
  std::string name_;
  SourceLocation location_;
};

class DebugInfo {
public:
  DebugInfo(const DebugContext &context, std::string layer) : name_(context.getPathName()), layer_(std::move(layer)) {}
  virtual ~DebugInfo() {}
  std::string getPathName() const { return name_; }
  DebugId getId() const { return 0; }

private:
  std::string name_, layer_;
};

inline DebugContext::DebugContext(const DebugInfo &info, std::string name, SourceLocation here)
    : name_(DebugNameAndId::join(info.getPathName(), name)), location_(here) {}

} // namespace poplar

#endif
