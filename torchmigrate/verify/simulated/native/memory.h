// Memory: device blocks with exact statistics, a capacity and poison; pinned host blocks.
#pragma once
#include "state.h"
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/version.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simulated {
using CachingAllocator::StatArray;
using CachingDeviceAllocator::DeviceStats;

struct Block {
  size_t bytes;
  DeviceIndex device;
  bool parameter = false;  // a kernel has read it as a leaf that wants a gradient
};
inline auto& blocks = *new std::unordered_map<void*, Block>;  // guarded by mutex
inline auto& pinned = *new std::unordered_set<void*>;         // guarded by mutex
inline DeviceStats statistics[kMaxDevices];      // guarded by mutex

inline int64_t parameter_bytes = 0, most_parameter_bytes = 0;  // guarded by mutex

inline void mark_parameter(const void* p) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(const_cast<void*>(p));
  if (found == blocks.end() || found->second.parameter) return;
  found->second.parameter = true;
  parameter_bytes += int64_t(found->second.bytes);
  most_parameter_bytes = std::max(most_parameter_bytes, parameter_bytes);
}

inline std::vector<StatArray*> arrays(DeviceStats& s) {
  return {&s.allocation, &s.active, &s.allocated_bytes, &s.active_bytes, &s.requested_bytes, &s.reserved_bytes};
}

inline void change(StatArray& array, int64_t by) {
  for (int pool : {0, 1}) by >= 0 ? array[pool].increase(by) : array[pool].decrease(-by);  // 0: all, 1: small pool
}

inline void account(DeviceStats& s, int64_t bytes, int64_t count) {
  for (auto* array : {&s.allocated_bytes, &s.active_bytes, &s.requested_bytes}) change(*array, bytes);
  for (auto* array : {&s.allocation, &s.active}) change(*array, count);
  int64_t grown = s.allocated_bytes[0].current - s.reserved_bytes[0].current;  // freed blocks stay reserved
  if (grown > 0) change(s.reserved_bytes, grown);
}

inline void free_device(void* p) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(p);
  if (found == blocks.end()) return;
  account(statistics[found->second.device], -int64_t(found->second.bytes), -1);
  if (found->second.parameter) parameter_bytes -= int64_t(found->second.bytes);
  blocks.erase(found);
  std::free(p);
}

inline void free_pinned(void* p) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    pinned.erase(p);
  }
  std::free(p);
}

inline void* aligned(size_t bytes) {
  void* p = nullptr;
  TORCH_CHECK(!posix_memalign(&p, 64, bytes), "the host has no ", bytes, " bytes left");
  return p;
}

// "20.00 MiB", as the allocators of torch write it.
inline std::string size_text(size_t bytes) {
  if (bytes <= 1024) return std::to_string(bytes) + " bytes";
  double size = double(bytes) / 1024;
  const char* units[] = {" KiB", " MiB", " GiB"};
  int unit = 0;
  for (; size > 1024 && unit < 2; unit++) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%s", size, units[unit]);
  return text;
}

inline void refuse(DeviceStats& s, size_t bytes) {
  s.num_ooms++;
  size_t used = size_t(s.allocated_bytes[0].current);
  // A plain RuntimeError on a Mac: aten/src/ATen/mps/MPSAllocator.mm.
  TORCH_CHECK(device_type != DeviceType::MPS, "MPS backend out of memory (MPS allocated: ", size_text(used), ", other allocations: 0 bytes, max allowed: ",
    size_text(capacity), "). Tried to allocate ", size_text(bytes), " on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for "
    "memory allocations (may cause system failure).");
  TORCH_CHECK_WITH(OutOfMemoryError, false, DeviceTypeName(device_type), " out of memory. Tried to allocate ", size_text(bytes), ". Simulated device ",
    int(current), " has a total capacity of ", size_text(capacity), " of which ", size_text(capacity - used), " is free.");
}

struct DeviceMemory final : DeviceAllocator {
  DataPtr allocate(size_t bytes) override {
    Device device(device_type, current);
    if (!bytes) return {nullptr, nullptr, &free_device, device};
    use();
    std::lock_guard<std::mutex> lock(mutex);
    auto& s = statistics[current];
    if (size_t(s.allocated_bytes[0].current) + bytes > capacity) refuse(s, bytes);
    void* p = aligned(bytes);
    std::memset(p, kPoison, bytes);
    blocks[p] = {bytes, current};
    account(s, int64_t(bytes), 1);
    return {p, p, &free_device, device};
  }
  DeleterFnPtr raw_deleter() const override { return &free_device; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool initialized() override { return true; }
  void emptyCache(MempoolId_t = {0, 0}) override {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto& s : statistics) change(s.reserved_bytes, s.allocated_bytes[0].current - s.reserved_bytes[0].current);
  }
  void recordStream(const DataPtr&, Stream) override {}
  DeviceStats getDeviceStats(DeviceIndex d) override {
    check_index(d);
    std::lock_guard<std::mutex> lock(mutex);
    return statistics[d];
  }
  void resetAccumulatedStats(DeviceIndex d) override {
    check_index(d);
    std::lock_guard<std::mutex> lock(mutex);
    for (auto* array : arrays(statistics[d]))
      for (auto& stat : *array) stat.reset_accumulated();
  }
  void resetPeakStats(DeviceIndex d) override {
    check_index(d);
    std::lock_guard<std::mutex> lock(mutex);
    for (auto* array : arrays(statistics[d]))
      for (auto& stat : *array) stat.reset_peak();
  }
#if TORCH_VERSION_MINOR >= 10
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex d) override {
    check_index(d);
    std::lock_guard<std::mutex> lock(mutex);
    return {capacity - statistics[d].allocated_bytes[0].current, capacity};
  }
#endif
};
inline auto& device_memory = *new DeviceMemory;

struct PinnedMemory final : at::HostAllocator {
  DataPtr allocate(size_t bytes) override {
    void* p = bytes ? aligned(bytes) : nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    if (p) pinned.insert(p);
    return {p, p, &free_pinned, Device(kCPU)};
  }
  DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool record_event(void*, void*, Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};
inline auto& pinned_memory = *new PinnedMemory;

inline bool is_pinned(const void* p) {
  std::lock_guard<std::mutex> lock(mutex);
  return pinned.count(const_cast<void*>(p));
}
inline bool is_device_memory(const void* p) {
  std::lock_guard<std::mutex> lock(mutex);
  return blocks.count(const_cast<void*>(p));
}
}  // namespace simulated
