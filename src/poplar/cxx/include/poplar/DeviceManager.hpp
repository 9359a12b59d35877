// Finds devices. Part of openipu, written independently.
#ifndef openipu_poplar_DeviceManager_hpp
#define openipu_poplar_DeviceManager_hpp

#include <poplar/Device.hpp>

#include <vector>

namespace poplar {

class DeviceManager {
public:
  DeviceManager() {}
  static DeviceManager createDeviceManager() { return DeviceManager(); }
  std::size_t getNumDevices() const { return getDevices().size(); }
  std::vector<Device> getDevices(const OptionFlags &options = {}) const;
  std::vector<Device> getDevices(TargetType type, unsigned numIPUs, const OptionFlags &options = {}) const;
  Device getDevice(TargetType type, unsigned id, const OptionFlags &options = {}) const;
  Device getDevice(unsigned id, const OptionFlags &options = {}) const;
  Device acquireAvailableDevice(unsigned numIPUs, const OptionFlags &options = {}) const;
};

} // namespace poplar

#endif
