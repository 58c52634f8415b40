// The hook interface of each backend, registered where torch looks for its own.
#pragma once
#include "generator.h"
#include "guard.h"
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/detail/MTIAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/DeviceGuard.h>

namespace simulated {

template <class Base>
struct Hooks : Base {
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  DeviceIndex deviceCount() const override { return DeviceIndex(device_count()); }
  void setCurrentDevice(DeviceIndex i) const override { guard.setDevice(Device(device_type, i)); }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex i) const override {
    auto before = current;
    setCurrentDevice(i);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex i) const override {
    auto before = current;
    guard.uncheckedSetDevice(Device(device_type, i));
    return before;
  }
  bool isPinnedPtr(const void* p) const override { return is_pinned(p); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  Device getDeviceFromPtr(void* p) const override {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = blocks.find(p);
    TORCH_CHECK(found != blocks.end(), "not memory of a simulated ", device_type, " device");
    return Device(device_type, found->second.device);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex i) const override { return default_generator(i); }
  at::Generator getNewGenerator(DeviceIndex i) const override { return at::make_generator<DeviceGenerator>(guard.checked(Device(device_type, i))); }
};

inline void resize_storage(const Storage& storage, size_t bytes) {
  DeviceGuard on(storage.device());
  auto data = device_memory.allocate(bytes);
  if (storage.nbytes() && bytes) std::memcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

struct PrivateUse1Hooks final : Hooks<at::PrivateUse1HooksInterface> {
  void resizePrivateUse1Bytes(const Storage& storage, size_t bytes) const override { resize_storage(storage, bytes); }
};

struct MPSHooks final : Hooks<at::MPSHooksInterface> {
  mutable std::unordered_map<uint32_t, void*> events;  // by id, once recorded
  mutable uint32_t last_event = 0;

  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  // As on a Mac, where pinning a CPU tensor gives it mps storage and so an error (pytorch #86060).
  at::Allocator* getPinnedMemoryAllocator() const override { return &device_memory; }
  bool isPinnedPtr(const void* p) const override { return is_device_memory(p); }
  at::Allocator* getMPSDeviceAllocator() const override { return &device_memory; }
  void deviceSynchronize() const override { land_device(0); }
  void commitStream() const override {}
  void emptyCache() const override { device_memory.emptyCache(); }
  size_t getCurrentAllocatedMemory() const override { return statistics[0].allocated_bytes[0].current; }
  size_t getDriverAllocatedMemory() const override { return statistics[0].reserved_bytes[0].current; }
  size_t getRecommendedMaxMemory() const override { return capacity; }
  void setMemoryFraction(double) const override {}
  void profilerStartTrace(const std::string&, bool) const override {}
  void profilerStopTrace() const override {}
  uint32_t acquireEvent(bool) const override { return ++last_event; }
  void releaseEvent(uint32_t id) const override {
    guard.destroyEvent(events[id], 0);
    events.erase(id);
  }
  void recordEvent(uint32_t id) const override { guard.record(&events[id], guard.stream(0, 0), 0, EventFlag::PYTORCH_DEFAULT); }
  void waitForEvent(uint32_t) const override {}  // there is one stream
  void synchronizeEvent(uint32_t id) const override { guard.synchronizeEvent(events[id]); }
  bool queryEvent(uint32_t id) const override { return guard.queryEvent(events[id]); }
  double elapsedTimeOfEvents(uint32_t start, uint32_t end) const override { return guard.elapsedTime(events[start], events[end], 0); }
};

struct XPUHooks final : Hooks<at::XPUHooksInterface> {
  bool hasXPU() const override { return true; }
  std::string showConfig() const override { return "simulated XPU"; }
  DeviceIndex getNumGPUs() const override { return DeviceIndex(device_count()); }
  DeviceIndex current_device() const override { return current; }
  int32_t getGlobalIdxFromDevice(const Device& d) const override { return d.index(); }
  void deviceSynchronize(DeviceIndex i) const override { guard.synchronizeDevice(i); }
};

struct CUDAHooks final : Hooks<at::CUDAHooksInterface> {
  bool hasCUDA() const override { return true; }
  bool hasMAGMA() const override { return true; }  // so that torch.backends.cuda.preferred_linalg_library takes these names
  bool hasCuSOLVER() const override { return true; }
  DeviceIndex current_device() const override { return current; }
  int getNumGPUs() const override { return device_count(); }
  void deviceSynchronize(DeviceIndex i) const override { guard.synchronizeDevice(i); }
  at::Allocator* getCUDADeviceAllocator() const override { return &device_memory; }
  std::string showConfig() const override { return "  - simulated CUDA\n"; }  // a part of torch.__config__.show()
  // torch.backends.cuda.cufft_plan_cache: nothing is planned
  mutable int64_t most_plans = 4096;
  int64_t cuFFTGetPlanCacheMaxSize(DeviceIndex) const override { return most_plans; }
  void cuFFTSetPlanCacheMaxSize(DeviceIndex, int64_t size) const override { most_plans = size; }
  int64_t cuFFTGetPlanCacheSize(DeviceIndex) const override { return 0; }
  void cuFFTClearPlanCache(DeviceIndex) const override {}
};

struct MTIAHooks final : Hooks<at::MTIAHooksInterface> {
  bool hasMTIA() const override { return true; }
  void deviceSynchronize(DeviceIndex i) const override { guard.synchronizeDevice(i); }
  void emptyCache() const override { device_memory.emptyCache(); }
  Stream getCurrentStream(DeviceIndex i) const override { return guard.getStream(Device(device_type, i)); }
  Stream getDefaultStream(DeviceIndex i) const override { return guard.getDefaultStream(Device(device_type, i)); }
  void setCurrentStream(const Stream& s) const override { guard.exchangeStream(s); }
  DeviceIndex getDeviceCount() const override { return DeviceIndex(device_count()); }
};

template <class Interface, class Registry>
void add(Registry* registry, const char* name, std::unique_ptr<Interface> (*make)()) {
  registry->Register(name, [make](auto&&...) { return make(); }, "", c10::REGISTRY_PREFERRED);
}

// A CUDA build without a GPU says that it has CUDA, next to which MPS and XPU refuse to exist.
struct NoCUDAHooks final : at::CUDAHooksInterface {};

inline void register_hooks() {
  using std::make_unique;
  auto cuda = at::CUDAHooksRegistry();
  if (device_type != DeviceType::CUDA && cuda->Has("CUDAHooks"))
    add<at::CUDAHooksInterface>(cuda, "CUDAHooks", +[]() -> std::unique_ptr<at::CUDAHooksInterface> { return make_unique<NoCUDAHooks>(); });
  switch (device_type) {
    case DeviceType::CUDA:
      return add<at::CUDAHooksInterface>(cuda, "CUDAHooks", +[]() -> std::unique_ptr<at::CUDAHooksInterface> { return make_unique<CUDAHooks>(); });
    case DeviceType::MPS:
      return add<at::MPSHooksInterface>(at::MPSHooksRegistry(), "MPSHooks", +[]() -> std::unique_ptr<at::MPSHooksInterface> { return make_unique<MPSHooks>(); });
    case DeviceType::XPU:
      return add<at::XPUHooksInterface>(at::XPUHooksRegistry(), "XPUHooks", +[]() -> std::unique_ptr<at::XPUHooksInterface> { return make_unique<XPUHooks>(); });
    case DeviceType::MTIA:
      return add<at::MTIAHooksInterface>(at::MTIAHooksRegistry(), "MTIAHooks", +[]() -> std::unique_ptr<at::MTIAHooksInterface> { return make_unique<MTIAHooks>(); });
    default:
      at::RegisterPrivateUse1HooksInterface(new PrivateUse1Hooks);
  }
}
}  // namespace simulated
