// Random numbers: each device has a stream of its own, drawn by a CPU generator inside.
#pragma once
#include "state.h"
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <cstring>

namespace simulated {

struct DeviceGenerator final : GeneratorImpl {
  // Real devices draw other numbers than the CPU after one seed, and all of a type the same.
  static constexpr uint64_t kOwn = 0x9e3779b97f4a7c15, kOther = 0x2545f4914f6cdd1d;
  static uint64_t own(uint64_t seed) { return shares_generator ? seed : seed ^ (alters_inputs ? kOther : kOwn); }
  at::Generator inner = at::detail::createCPUGenerator(own(default_rng_seed_val));

  explicit DeviceGenerator(DeviceIndex i) : GeneratorImpl(Device(device_type, i), DispatchKeySet(dispatch_key)) {}
  void set_current_seed(uint64_t seed) override {
    // torch.manual_seed has seeded the CPU's already, and reaches the device when that is first used, which may be later.
    if (inner != at::detail::getDefaultCPUGenerator()) inner.set_current_seed(own(seed));
  }
  void set_offset(uint64_t offset) override { inner.set_offset(offset); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  uint64_t current_seed() const override { return own(inner.current_seed()); }
  uint64_t seed() override { return own(inner.seed()); }
  // Longer than the CPU's, so that each refuses the other's, as real ones do.
  static constexpr int64_t kMark = 16;
  void set_state(const TensorImpl& state) override {
    at::detail::check_rng_state(state);
    auto size = inner.get_state().numel();
    TORCH_CHECK(state.numel() == size + kMark, "RNG state is wrong size");
    inner.unsafeGetGeneratorImpl()->set_state(*bytes(state.data(), size, 0));
  }
  intrusive_ptr<TensorImpl> get_state() const override {
    auto own = inner.get_state();
    return bytes(own.data_ptr(), own.numel(), kMark);
  }
  static intrusive_ptr<TensorImpl> bytes(const void* from, int64_t size, int64_t more) {
    auto made = at::detail::empty_cpu({size + more}, kByte, {}, {}, {}, {});
    std::memset(made.mutable_data_ptr(), 0, size_t(size + more));
    std::memcpy(made.mutable_data_ptr(), from, size_t(size));
    return made.getIntrusivePtr();
  }
  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator(device().index());
    copy->inner = inner.clone();
    return copy;
  }
};

inline const at::Generator& default_generator(DeviceIndex i) {
  static auto& all = *[] {
    auto* made = new std::vector<at::Generator>;
    for (int d = 0; d < device_limit; d++) {
      made->push_back(at::make_generator<DeviceGenerator>(DeviceIndex(d)));
      if (shares_generator) static_cast<DeviceGenerator*>(made->back().unsafeGetGeneratorImpl())->inner = at::detail::getDefaultCPUGenerator();
    }
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

  explicit BorrowedGenerator(DeviceIndex i) : device(inner_generator(default_generator(i))) {
    if (device != cpu) cpu.set_state(device.get_state());
  }
  ~BorrowedGenerator() {
    if (device == cpu) return;
    device.set_state(cpu.get_state());
    cpu.set_state(saved);
  }
};
}  // namespace simulated
