// What is simulated: one device type per process, its devices, and the rules that its real backend imposes.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace simulated {
using namespace c10;

constexpr int kMaxDevices = 16;
constexpr int kPoison = 0x7f;  // fills memory that nothing has written yet: 3.39e38 as float32, NaN as float16

// Nothing here or in the other headers is ever destroyed: tensors outlive the statics of a library at exit.

// Set once, before the first tensor.
inline DeviceType device_type = DeviceType::PrivateUse1;
inline DispatchKey dispatch_key = DispatchKey::PrivateUse1;
inline int device_count = 1;
inline size_t capacity = size_t(8) << 30;  // bytes per device

// The backend's own rules and words, set by `configure`.
struct Rules {
  std::unordered_set<std::string> no_check;     // native_functions.yaml says device_check: NoCheck
  std::unordered_set<std::string> missing;      // no kernel on the real backend
  std::string missing_message;                  // with {} for the operator
  std::unordered_set<std::string> missing_sparse;  // no kernel for its sparse COO tensors
  uint64_t banned_dtypes = 0;                   // bit i: ScalarType(i) cannot live on the device
  std::string dtype_message;
  uint64_t incapable_dtypes = 0;                // further ones that get_device_capability() denies
};
inline Rules& rules = *new Rules;

// What has run. Guarded by `mutex`, as are the allocator's tables.
inline std::mutex mutex;
inline auto& kernels = *new std::unordered_map<std::string, int64_t>;
inline int64_t random_kernels = 0;

inline thread_local DeviceIndex current = 0;

// Of sparse COO tensors on the device.
inline DispatchKey sparse_key() { return toRuntimePerBackendFunctionalityKey(DispatchKey::Sparse, toBackendComponent(dispatch_key)); }

inline bool is_device(const Device& d) { return d.type() == device_type; }
inline bool on_device(const at::Tensor& t) { return t.defined() && is_device(t.device()); }
inline DeviceIndex index_or_current(DeviceIndex i) { return i < 0 ? current : i; }

inline void check_index(DeviceIndex i) {
  if (i >= 0 && i < device_count) return;
  const char* words = device_type == DeviceType::CUDA ? "CUDA error: invalid device ordinal" : "invalid device index";
  TORCH_CHECK(false, words, " (", device_type, ":", int(i), " of ", device_count, " simulated)");
}
}  // namespace simulated
