// The machine that a graph is built for. Part of openipu, written independently.
#ifndef openipu_poplar_Target_hpp
#define openipu_poplar_Target_hpp

#include <openipu/client.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace poplar {

enum class TargetType { IPU, IPU_MODEL, CPU };
std::string toString(TargetType type);
inline std::ostream &operator<<(std::ostream &out, TargetType type) { return out << toString(type); }

class Target {
public:
  Target() {}
  static Target createCPUTarget(bool accurateHalf = false, unsigned numIPUs = 1);
  static Target createIPUTarget(unsigned numIPUs, StringRef systemType, const OptionFlags &options = {});
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef systemType,
                                const OptionFlags &options = {});

  TargetType getTargetType() const;
  std::string getTargetArchString() const { return text("arch"); }
  std::string getTargetSystemString() const { return text("system"); }
  unsigned getNumIPUs() const { return number("ipus"); }
  unsigned getTilesPerIPU() const { return number("tilesPerIPU"); }
  unsigned getNumTiles() const { return number("tiles"); }
  unsigned getNumWorkerContexts() const { return number("workers"); }
  unsigned getBytesPerTile() const { return number("bytesPerTile"); }
  std::uint64_t getMemoryBytes() const { return count("memoryBytes"); }
  unsigned getExchangeBytesPerCycle() const { return number("exchangeBytesPerCycle"); }
  unsigned getMemcpyBytesPerCycle() const { return getDataPathWidth() / 8; }
  unsigned getMinIPUSyncDelay() const { return number("minIPUSyncDelay"); }
  unsigned getMaxIPUSyncDelay() const { return number("maxIPUSyncDelay"); }
  unsigned getGlobalSyncCycles() const { return number("globalSyncCycles"); }
  unsigned getInterleavedMemoryElementIndex() const { return number("interleavedMemoryElementIndex"); }
  double getTileClockFrequency() const { return static_cast<double>(count("tileClockFrequency")); }
  unsigned getDataPathWidth() const { return number("dataPathWidth"); }
  unsigned getFp16InFp16OutConvUnitsPerTile() const { return number("fp16InFp16OutConvUnitsPerTile"); }
  unsigned getFp16InFp32OutConvUnitsPerTile() const { return number("fp16InFp32OutConvUnitsPerTile"); }
  unsigned getFp32InFp32OutConvUnitsPerTile() const { return number("fp32InFp32OutConvUnitsPerTile"); }
  unsigned getConvUnitMaxPipelineDepth() const { return number("convUnitMaxPipelineDepth"); }
  unsigned getConvUnitCoeffLoadBytesPerCycle() const { return number("convUnitCoeffLoadBytesPerCycle"); }
  bool supportsExchangeBusSharing() const { return number("exchangeBusSharing") != 0; }
  unsigned getTilesPerSharedExchangeBus() const { return number("tilesPerSharedExchangeBus"); }
  unsigned getFloatVectorWidth() const { return getVectorWidth(FLOAT); }
  unsigned getHalfVectorWidth() const { return getVectorWidth(HALF); }
  unsigned getWeightsPerConvUnit(bool floatActivations) const { return floatActivations ? 8 : 16; }
  unsigned getVectorWidth(Type type) const {
    const unsigned width = getDataPathWidth() / 8 / static_cast<unsigned>(type.bytes());
    return width ? width : 1;
  }
  std::size_t getTypeSize(Type type) const { return type.bytes(); }
  std::size_t getAtomicStoreGranularity() const { return 4; }

  std::int64_t id() const { return id_; }
  bool isValid() const { return static_cast<bool>(facts_); }
  explicit Target(const openipu::Value &received);

private:
  std::uint64_t count(const char *name) const;
  unsigned number(const char *name) const { return static_cast<unsigned>(count(name)); }
  std::string text(const char *name) const;

  std::int64_t id_ = 0;
  std::shared_ptr<const openipu::Value> facts_;
};

inline bool operator==(const Target &a, const Target &b) { return a.id() == b.id(); }
inline bool operator!=(const Target &a, const Target &b) { return !(a == b); }

// 16-bit numbers as a device holds them.
void copyFloatToDeviceHalf(const Target &target, const float *from, void *to, std::size_t count);
void copyDoubleToDeviceHalf(const Target &target, const double *from, void *to, std::size_t count);
void copyDeviceHalfToFloat(const Target &target, const void *from, float *to, std::size_t count);
void copyDeviceHalfToDouble(const Target &target, const void *from, double *to, std::size_t count);

} // namespace poplar

#endif
