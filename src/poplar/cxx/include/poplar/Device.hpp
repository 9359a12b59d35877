// Devices to load programs on. Part of openipu, written independently.
#ifndef openipu_poplar_Device_hpp
#define openipu_poplar_Device_hpp

#include <poplar/Target.hpp>

#include <map>
#include <string>
#include <vector>

namespace poplar {

class Device {
public:
  Device() {}
  static Device createCPUDevice();
  static Device createSimulatorDevice(const Target &target, const OptionFlags &options = {});

  unsigned getId() const { return number_; }
  const Target &getTarget() const { return target_; }
  bool attach() const;
  void detach() const;
  bool isAttached() const;
  bool supportsRemoteBuffers() const { return true; }
  bool hasRemoteBuffers() const { return true; }
  std::vector<int> getDriverIDs() const;
  std::map<std::string, std::string> getAttributes() const;
  Device createVirtualDevice(unsigned tilesPerIPU);

  std::int64_t handle() const { return handle_; }
  explicit Device(const openipu::Value &received);

private:
  std::int64_t handle_ = -1;
  unsigned number_ = 0;
  Target target_;
};

} // namespace poplar

#endif
