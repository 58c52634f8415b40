// What is simulated: one device type per process, its devices, and the rules that its real backend imposes.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <sstream>
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
inline int device_limit = 1;
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
  std::unordered_set<std::string> on_cpu;       // what MPS runs there without being asked
  uint64_t memory_only_dtypes = 0;              // can be held and copied, and no kernel takes or gives them
  std::string memory_only_message;
  std::unordered_map<std::string, uint64_t> narrow;  // dtypes that single operators, by name without variant, do not take
  std::string narrow_message;                   // with {} for operator and dtype
};
inline Rules& rules = *new Rules;

// What has run. Guarded by `mutex`, as are the allocator's tables.
inline std::mutex mutex;
inline auto& kernels = *new std::unordered_map<std::string, int64_t>;
inline int64_t random_kernels = 0;
struct Amount {
  int64_t elements = 0;  // of all tensors that kernels read or wrote
  int64_t products = 0;  // of matrix products, convolutions, attention and recurrent nets: `multiplied`
  int64_t half_products = 0;  // those of float16 and bfloat16
};
inline Amount work_done;
inline int64_t reads = 0;    // how often the host read from the device
inline int64_t altered = 0;  // tensors altered on their way to the device

// What a run changes on purpose; read once, from the environment, when the library is loaded.
inline const bool fallback_to_cpu = [] {  // when the real library reads it: at import
  const char* told = std::getenv("PYTORCH_ENABLE_MPS_FALLBACK");
  return told && told[0] == '1';
}();
inline bool told(const char* variable, const char* value) {
  const char* found = std::getenv(variable);
  return found && std::string(found) == value;
}
// What leaves the device is altered, to show which results depend on it: numbers, or those with a fraction only.
inline const bool alters_numbers = told("TORCHMIGRATE_ALTER", "numbers");
inline const bool alters_fractions = alters_numbers || told("TORCHMIGRATE_ALTER", "fractions");
// So is what reaches the device, numbers with a fraction and random ones, to show which results depend on that.
inline const bool alters_inputs = told("TORCHMIGRATE_ALTER", "inputs");
// The devices draw from the CPU's generator, as the same program does on a machine without any.
inline const bool shares_generator = told("TORCHMIGRATE_GENERATOR", "cpu");

inline thread_local DeviceIndex current = 0;

// Of sparse COO tensors on the device.
inline DispatchKey sparse_key() { return toRuntimePerBackendFunctionalityKey(DispatchKey::Sparse, toBackendComponent(dispatch_key)); }
// Of tensors that are lists of tensors: torch.nested, and the fast path of nn.TransformerEncoder.
inline DispatchKey nested_key() { return toRuntimePerBackendFunctionalityKey(DispatchKey::NestedTensor, toBackendComponent(dispatch_key)); }

inline bool is_device(const Device& d) { return d.type() == device_type; }
inline bool on_device(const at::Tensor& t) { return t.defined() && is_device(t.device()); }
inline DeviceIndex index_or_current(DeviceIndex i) { return i < 0 ? current : i; }

// CUDA counts what CUDA_VISIBLE_DEVICES lists when it is first used: programs set it after `import torch`, too. Whatever the
// numbers are, so many devices are simulated, up to the limit.
inline int visible_devices() {
  const char* listed = device_type == DeviceType::CUDA ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
  if (!listed) return device_limit;
  int count = 0;
  std::istringstream entries(listed);
  for (std::string entry; std::getline(entries, entry, ',') && entry.find_first_not_of(' ') != std::string::npos && entry[0] != '-';) count++;
  return std::min(count, device_limit);
}
inline std::atomic<int> counted{-1};  // once used
inline int device_count() { return counted < 0 ? visible_devices() : counted.load(); }

inline void check_index(DeviceIndex i) {
  if (i >= 0 && i < device_count()) return;
  const char* words = device_type == DeviceType::CUDA ? "CUDA error: invalid device ordinal" : "invalid device index";
  auto message = str(words, " (", device_type, ":", int(i), " of ", device_count(), " simulated)");
  if (device_type == DeviceType::CUDA) throw AcceleratorError({__func__, __FILE__, __LINE__}, /*cudaErrorInvalidDevice*/ 101, message);
  TORCH_CHECK(false, message);
}

// A device that has been used does not survive a fork.
inline std::atomic<bool> used{false}, bad_fork{false};
inline void use() {
  if (!used) counted = visible_devices();
  used = true;
  TORCH_CHECK(!bad_fork, "Cannot re-initialize ", DeviceTypeName(device_type), " in forked subprocess. To use ", DeviceTypeName(device_type),
    " with multiprocessing, you must use the 'spawn' start method");
}
inline bool in_bad_fork() { return bad_fork; }

// Who hears of each error that the device answers with: what Python calls it, and its words.
using Listener = void (*)(const char*, const char*);
inline std::atomic<Listener> listener{nullptr};

inline const char* name_in_python(const Error& e) {
  if (dynamic_cast<const NotImplementedError*>(&e)) return "NotImplementedError";
  if (dynamic_cast<const TypeError*>(&e)) return "TypeError";
  if (dynamic_cast<const IndexError*>(&e)) return "IndexError";
  if (dynamic_cast<const ValueError*>(&e)) return "ValueError";
  return "RuntimeError";
}

inline thread_local int heard_calls = 0;  // that are under way

// Calls `work`, and tells the listener of an error that leaves it; of one inside another, once.
template <class Work>
auto heard(Work&& work) {
  struct Inside {
    Inside() { heard_calls++; }
    ~Inside() { heard_calls--; }
  } inside;
  try {
    return work();
  } catch (const Error& e) {
    if (auto* told = listener.load(); told && heard_calls == 1) told(name_in_python(e), e.what_without_backtrace());
    throw;
  }
}
}  // namespace simulated
