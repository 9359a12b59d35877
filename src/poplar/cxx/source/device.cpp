// Targets, devices and models. Part of openipu.
#include "state.hpp"

#include <poplar/DeviceManager.hpp>
#include <poplar/IPUModel.hpp>

#include <sstream>

namespace poplar {

using openipu::ask;
using openipu::Handle;

std::string toString(TargetType type) {
  return type == TargetType::IPU ? "IPU" : type == TargetType::CPU ? "CPU" : "IPU_MODEL";
}

Target::Target(const openipu::Value &received)
    : id_(received.at(0).integer), facts_(std::make_shared<const openipu::Value>(received.at(1))) {}

namespace {
const openipu::Value &find(const std::shared_ptr<const openipu::Value> &facts, const char *name) {
  if (!facts)
    throw poplar_error("This target is empty. Take one from a device: IPUModel().createDevice().getTarget().");
  const openipu::Value *found = facts->find(name);
  if (!found)
    throw poplar_error(std::string("The target has no figure ") + name + ".");
  return *found;
}
} // namespace

std::uint64_t Target::count(const char *name) const { return static_cast<std::uint64_t>(find(facts_, name).asFloat()); }
std::string Target::text(const char *name) const { return find(facts_, name).text; }

TargetType Target::getTargetType() const {
  const std::string type = text("type");
  return type == "IPU" ? TargetType::IPU : type == "CPU" ? TargetType::CPU : TargetType::IPU_MODEL;
}
Target Target::createCPUTarget(bool, unsigned numIPUs) { return Target(ask("target.cpu", numIPUs)); }
Target Target::createIPUTarget(unsigned numIPUs, StringRef systemType, const OptionFlags &) {
  return Target(ask("target.ipu", numIPUs, nullptr, systemType.cloneAsString()));
}
Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef systemType, const OptionFlags &) {
  return Target(ask("target.ipu", numIPUs, tilesPerIPU, systemType.cloneAsString()));
}

void copyFloatToDeviceHalf(const Target &, const float *from, void *to, std::size_t count) {
  half *out = static_cast<half *>(to);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = half(from[i]);
}
void copyDoubleToDeviceHalf(const Target &, const double *from, void *to, std::size_t count) {
  half *out = static_cast<half *>(to);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = half(static_cast<float>(from[i]));
}
void copyDeviceHalfToFloat(const Target &, const void *from, float *to, std::size_t count) {
  const half *in = static_cast<const half *>(from);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = in[i];
}
void copyDeviceHalfToDouble(const Target &, const void *from, double *to, std::size_t count) {
  const half *in = static_cast<const half *>(from);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = float(in[i]);
}

Device::Device(const openipu::Value &received)
    : handle_(received.at(0).integer), number_(static_cast<unsigned>(received.at(1).integer)), target_(received.at(2)) {}
Device Device::createCPUDevice() { return Device(ask("device.cpu")); }
Device Device::createSimulatorDevice(const Target &target, const OptionFlags &) {
  return Device(ask("device.simulator", Handle{target.id()}));
}
bool Device::attach() const { return ask("device.attach", Handle{handle_}).asBool(); }
void Device::detach() const { ask("device.detach", Handle{handle_}); }
bool Device::isAttached() const { return ask("device.isAttached", Handle{handle_}).asBool(); }
std::vector<int> Device::getDriverIDs() const {
  const openipu::Value found = ask("device.driverIDs", Handle{handle_});
  return std::vector<int>(found.numbers.begin(), found.numbers.end());
}
std::map<std::string, std::string> Device::getAttributes() const {
  const openipu::Value found = ask("device.attributes", Handle{handle_});
  std::map<std::string, std::string> attributes;
  for (std::size_t i = 0; i + 1 < found.list.size(); i += 2)
    attributes[found.list[i].text] = found.list[i + 1].text;
  return attributes;
}
Device Device::createVirtualDevice(unsigned tilesPerIPU) {
  return Device(ask("device.virtual", Handle{handle_}, tilesPerIPU));
}

namespace {
std::vector<Device> readDevices(const openipu::Value &found) {
  std::vector<Device> devices;
  for (const openipu::Value &entry : found.list)
    devices.push_back(Device(entry));
  return devices;
}
} // namespace

std::vector<Device> DeviceManager::getDevices(const OptionFlags &) const {
  return readDevices(ask("manager.getDevices", nullptr, 1));
}
std::vector<Device> DeviceManager::getDevices(TargetType type, unsigned numIPUs, const OptionFlags &) const {
  return readDevices(ask("manager.getDevices", toString(type), numIPUs));
}
Device DeviceManager::getDevice(TargetType, unsigned id, const OptionFlags &) const { return getDevice(id); }
Device DeviceManager::getDevice(unsigned id, const OptionFlags &) const { return Device(ask("manager.getDevice", id)); }
Device DeviceManager::acquireAvailableDevice(unsigned numIPUs, const OptionFlags &options) const {
  for (Device &device : getDevices(TargetType::IPU, numIPUs, options))
    if (device.attach())
      return device;
  throw poplar_error("There is no free device of " + std::to_string(numIPUs) + " IPUs.");
}

IPUModel::IPUModel(char const *version) : IPUVersion(version) {
  const openipu::Value found = ask("model.figures", IPUVersion);
  const auto number = [&found](const char *name) { return static_cast<unsigned>(found.find(name)->asFloat()); };
  numIPUs = number("numIPUs");
  tilesPerIPU = number("tilesPerIPU");
  numWorkerContexts = number("numWorkerContexts");
  memoryBytesPerTile = number("bytesPerTile");
  exchangeBytesPerCycle = number("exchangeBytesPerCycle");
  minIPUSyncDelay = number("minIPUSyncDelay");
  globalSyncCycles = number("globalSyncCycles");
  tileClockFrequency = found.find("clockFrequency")->asFloat();
  relativeSyncDelay = RelativeSyncDelayType::AUTO;
  memcpyBytesPerCycle = 8;
  dataPathWidth = 64;
  fp16ConvUnitMaxPipelineDepth = 4;
  compileIPUCode = false;
}

Device IPUModel::createDevice(const OptionFlags &options, bool, unsigned) const {
  const std::map<std::string, double> figures = {{"numIPUs", numIPUs},
                                                 {"tilesPerIPU", tilesPerIPU},
                                                 {"numWorkerContexts", numWorkerContexts},
                                                 {"bytesPerTile", memoryBytesPerTile},
                                                 {"exchangeBytesPerCycle", exchangeBytesPerCycle},
                                                 {"minIPUSyncDelay", minIPUSyncDelay},
                                                 {"clockFrequency", tileClockFrequency}};
  return Device(ask("model.createDevice", IPUVersion, figures, relativeSyncDelay == RelativeSyncDelayType::NO_DELAY, options));
}

void readJSON(StringRef text, OptionFlags &flags) {
  const openipu::Value found = ask("options.parse", text.cloneAsString());
  for (std::size_t i = 0; i + 1 < found.list.size(); i += 2)
    flags.set(found.list[i].text, found.list[i + 1].text);
}
void readJSON(std::istream &from, OptionFlags &flags) {
  std::ostringstream all;
  all << from.rdbuf();
  readJSON(all.str(), flags);
}

} // namespace poplar
