// Random numbers: each device has a stream of its own, drawn by a CPU generator inside.
#pragma once
#include "state.h"
#include <ATen/CPUGeneratorImpl.h>

namespace simulated {

struct DeviceGenerator final : GeneratorImpl {
  at::Generator inner = at::detail::createCPUGenerator();

  explicit DeviceGenerator(DeviceIndex i) : GeneratorImpl(Device(device_type, i), DispatchKeySet(dispatch_key)) {}
  void set_current_seed(uint64_t seed) override { inner.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner.set_offset(offset); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return inner.seed(); }
  void set_state(const TensorImpl& state) override { inner.unsafeGetGeneratorImpl()->set_state(state); }
  intrusive_ptr<TensorImpl> get_state() const override { return inner.unsafeGetGeneratorImpl()->get_state(); }
  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator(device().index());
    copy->inner = inner.clone();
    return copy;
  }
};

inline const at::Generator& default_generator(DeviceIndex i) {
  static auto& all = *[] {
    auto* made = new std::vector<at::Generator>;
    for (int d = 0; d < device_count; d++) made->push_back(at::make_generator<DeviceGenerator>(DeviceIndex(d)));
    return made;
  }();
  i = index_or_current(i);
  check_index(i);
  return all[i];
}

inline at::Generator& inner_generator(const at::Generator& g) {
  return static_cast<DeviceGenerator*>(g.unsafeGetGeneratorImpl())->inner;
}

// While it lives the CPU's default generator continues the device's stream: for kernels that take no generator.
struct BorrowedGenerator {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  at::Generator& device;
  at::Tensor saved = cpu.get_state();

  explicit BorrowedGenerator(DeviceIndex i) : device(inner_generator(default_generator(i))) { cpu.set_state(device.get_state()); }
  ~BorrowedGenerator() {
    device.set_state(cpu.get_state());
    cpu.set_state(saved);
  }
};
}  // namespace simulated
