// A model of an IPU as a device. Part of openipu, written independently.
#ifndef openipu_poplar_IPUModel_hpp
#define openipu_poplar_IPUModel_hpp

#include <poplar/Device.hpp>

#include <string>

namespace poplar {

struct IPUModel {
  enum class ExchangeType { BUFFERLESS_MULTICAST, AGGRESSIVE_MULTICAST };
  enum class RelativeSyncDelayType { AUTO, NO_DELAY, LINEAR };

  explicit IPUModel(char const *IPUVersion = "ipu2");

  std::string IPUVersion;
  unsigned numIPUs;
  unsigned tilesPerIPU;
  unsigned numWorkerContexts;
  unsigned memoryBytesPerTile;
  unsigned exchangeBytesPerCycle;
  unsigned memcpyBytesPerCycle;
  unsigned minIPUSyncDelay;
  RelativeSyncDelayType relativeSyncDelay;
  unsigned globalSyncCycles;
  double tileClockFrequency;
  unsigned dataPathWidth;
  unsigned fp16ConvUnitMaxPipelineDepth;
  bool compileIPUCode;

  Device createDevice(const OptionFlags &options = {}, bool accurateHalf = false,
                      unsigned deviceManagerId = 0xffffffffu) const;
};

} // namespace poplar

#endif
