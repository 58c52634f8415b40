// One translation unit that turns host memory into a strict accelerator: mps, xpu, cuda, mtia, or any name for PrivateUse1.
// Written against the public ATen and c10 headers of torch 2.9 to 2.13. Loaded before `import torch`, since torch caches its hooks.
#include "collectives.h"
#include "hooks.h"
#include <ATen/autocast_mode.h>
#include <pthread.h>

namespace simulated {

torch::Library& library(const char* name, DispatchKey key = dispatch_key) { return *new torch::Library(torch::Library::IMPL, name, key, __FILE__, __LINE__); }

void register_kernels() {
  auto boxed = [] { return torch::CppFunction::makeFromBoxedFunction<&kernel>(); };
  auto& all = library("_");
  all.fallback(boxed());
  library("_", sparse_key()).fallback(boxed());
  library("_", nested_key()).fallback(boxed());
  auto& aten = library("aten");
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  aten.impl("_copy_from", TORCH_FN(copy_from));
  aten.impl("copy_", TORCH_FN(copy_));
  aten.impl("record_stream", boxed());
  for (auto* name : kWhole) aten.impl(name, boxed());
  if (device_type != DeviceType::MPS) return;
  for (auto key : {DispatchKey::MPS, DispatchKey::AutogradMPS}) library("aten", key).impl("linear", TORCH_FN(linear));
}

// Torch's own are for CUDA and PrivateUse1.
void register_collectives() {
  register_timer();
  if (device_type == DeviceType::CUDA || device_type == DeviceType::PrivateUse1) return;
  auto& c10d = library("c10d");
  for (auto* name : kCollectives) c10d.impl(name, torch::CppFunction::makeFromBoxedFunction<&collective>());
}

DispatchKey key_of(DeviceType type) {
  switch (type) {
    case DeviceType::CUDA: return DispatchKey::CUDA;
    case DeviceType::MPS: return DispatchKey::MPS;
    case DeviceType::XPU: return DispatchKey::XPU;
    case DeviceType::MTIA: return DispatchKey::MTIA;
    case DeviceType::PrivateUse1: return DispatchKey::PrivateUse1;
    default: TORCH_CHECK(false, "cannot simulate ", type);
  }
}

void start(const char* type, int count, size_t bytes) {
  device_type = Device(type).type();
  dispatch_key = key_of(device_type);
  device_limit = std::min(count, kMaxDevices);
  if (bytes) capacity = bytes;
  pthread_atfork(nullptr, nullptr, [] { bad_fork = used.load(); });
  SetAllocator(device_type, &device_memory, /*priority=*/100);
  at::setHostAllocator(device_type, &pinned_memory, /*priority=*/100);
  impl::DeviceGuardImplRegistrar registrar(device_type, &guard);
  register_hooks();
  register_kernels();
  register_collectives();
}

uint64_t bits(const std::vector<int64_t>& types) {
  uint64_t set = 0;
  for (auto t : types) set |= 1ull << t;
  return set;
}

void configure(std::vector<std::string> no_check, std::vector<std::string> missing, std::string missing_message, std::vector<std::string> missing_sparse,
               std::vector<int64_t> banned, std::string dtype_message, std::vector<int64_t> incapable, std::vector<std::string> whole,
               std::vector<std::string> structured, std::vector<std::string> whole_sparse, std::vector<int64_t> memory_only, std::string memory_only_message,
               std::vector<std::string> narrow, std::vector<int64_t> narrow_dtypes, std::string narrow_message) {
  rules = {{no_check.begin(), no_check.end()}, {missing.begin(), missing.end()}, missing_message, {missing_sparse.begin(), missing_sparse.end()}, bits(banned), dtype_message, bits(incapable)};
  rules.memory_only_dtypes = bits(memory_only);
  rules.memory_only_message = memory_only_message;
  for (auto& name : narrow) rules.narrow["aten::" + name] = bits(narrow_dtypes);
  rules.narrow_message = narrow_message;
  auto& aten = library("aten");
  auto& sparse = library("aten", sparse_key());
  for (auto& name : whole) {
    rules.on_cpu.insert("aten::" + name);
    aten.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&kernel>());
  }
  for (auto& name : structured) aten.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&kernel>());
  for (auto& name : whole_sparse) sparse.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&kernel>());
}

std::vector<std::string> counts() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> lines;
  for (auto& [name, n] : kernels) lines.push_back(name + "=" + std::to_string(n));
  return lines;
}

int64_t random_count() { return random_kernels; }
std::vector<int64_t> work() {
  std::lock_guard<std::mutex> lock(mutex);
  return {work_done.elements, work_done.products, most_parameter_bytes, reads, altered, work_done.half_products};
}
int64_t peak_bytes(int64_t i) {
  std::lock_guard<std::mutex> lock(mutex);
  return statistics[i].allocated_bytes[0].peak;
}
void listen(int64_t address) { listener = reinterpret_cast<Listener>(address); }
int64_t count_of_devices() { return device_count(); }
std::optional<at::Generator> generator_of(int64_t i) { return default_generator(DeviceIndex(i)); }
double elapsed_time(int64_t start, int64_t end) { return guard.elapsedTime(reinterpret_cast<void*>(start), reinterpret_cast<void*>(end), 0); }
void resize_storage_of(const at::Tensor& t, int64_t bytes) { resize_storage(t.storage(), size_t(bytes)); }
}  // namespace simulated

// By ctypes, before and without torch's Python.
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED const char* torchmigrate_start(const char* type, int count, size_t bytes) {
  try {
    simulated::start(type, count, bytes);
    return nullptr;
  } catch (const std::exception& e) {
    static std::string words;
    words = e.what();
    return words.c_str();
  }
}
EXPORTED int torchmigrate_device() { return simulated::current; }
EXPORTED int torchmigrate_count() { return simulated::device_limit; }

TORCH_LIBRARY(torchmigrate_simulated, m) {
  m.def("configure(str[] no_check, str[] missing, str missing_message, str[] missing_sparse, int[] banned, str dtype_message, int[] incapable, str[] whole, str[] structured, str[] whole_sparse, int[] memory_only, str memory_only_message, str[] narrow, int[] narrow_dtypes, str narrow_message) -> ()", &simulated::configure);
  m.def("stage(__torch__.torch.classes.c10d.ProcessGroup group, str name) -> ()", &simulated::stage);
  m.def("counts() -> str[]", &simulated::counts);
  m.def("listen(int address) -> ()", &simulated::listen);
  m.def("random_count() -> int", &simulated::random_count);
  m.def("work() -> int[]", &simulated::work);
  m.def("peak_bytes(int device) -> int", &simulated::peak_bytes);
  m.def("default_generator(int device) -> Generator?", &simulated::generator_of);
  m.def("resize_storage(Tensor self, int bytes) -> ()", &simulated::resize_storage_of);
  m.def("elapsed_time(int start, int end) -> float", &simulated::elapsed_time);
  m.def("device_count() -> int", &simulated::count_of_devices);
  m.def("use() -> ()", &simulated::use);
  m.def("in_bad_fork() -> bool", &simulated::in_bad_fork);
}

// Autocast for PrivateUse1, which core leaves to the backend: core's own lists. The in-tree types have theirs.
namespace at {  // whose names the lists use
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FLOAT32)
#define FLOAT32_UNLESS_TOLD(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_UNLESS_TOLD)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(WIDEST)
  m.impl("binary_cross_entropy", +[](const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) -> at::Tensor {
    TORCH_CHECK(false, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast.");
  });
}
}  // namespace at
