// Device-to-host copies with non_blocking=True: the host sees poison until it has synchronized.
#pragma once
#include "state.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace simulated {

struct Transfer {
  Storage keep;                    // of the host tensor, which may be dropped before the copy lands
  void* to;
  std::vector<char> bytes;
  DeviceIndex device;
  uint64_t number;                 // rises with time
  std::vector<StreamId> streams;   // synchronizing any of these lands it
};
inline auto& transfers = *new std::vector<Transfer>;  // guarded by transfer_mutex
inline std::mutex transfer_mutex;
inline std::atomic<uint64_t> transfer_number{0};

template <class Wanted>
void land_if(Wanted wanted) {
  if (transfer_number == 0) return;  // the usual program has none: no lock
  std::lock_guard<std::mutex> lock(transfer_mutex);
  auto landed = [&](Transfer& t) {
    if (!wanted(t)) return false;
    std::memcpy(t.to, t.bytes.data(), t.bytes.size());
    return true;
  };
  transfers.erase(std::remove_if(transfers.begin(), transfers.end(), landed), transfers.end());
}

inline bool follows(const Transfer& t, DeviceIndex device, StreamId stream) {
  return t.device == device && std::find(t.streams.begin(), t.streams.end(), stream) != t.streams.end();
}

inline void land_device(DeviceIndex device) {
  land_if([&](const Transfer& t) { return t.device == device; });
}

inline void land_stream(DeviceIndex device, StreamId stream, uint64_t until = UINT64_MAX) {
  land_if([&](const Transfer& t) { return t.number <= until && follows(t, device, stream); });
}

// `waiting` waits for what `stream` had queued up to `until`: synchronizing it then lands that too.
inline void wait_for(DeviceIndex device, StreamId stream, uint64_t until, StreamId waiting) {
  std::lock_guard<std::mutex> lock(transfer_mutex);
  for (auto& t : transfers)
    if (t.number <= until && follows(t, device, stream)) t.streams.push_back(waiting);
}

// `host` holds the copied values already; they are taken out again until the stream is synchronized.
inline void postpone(const at::Tensor& host, DeviceIndex device, StreamId stream) {
  if (!host.is_contiguous() || host.numel() == 0) return;  // a strided target: too rare to simulate, lands at once
  char* to = static_cast<char*>(host.data_ptr());
  std::lock_guard<std::mutex> lock(transfer_mutex);
  std::vector<char> bytes(to, to + host.nbytes());
  std::memset(to, kPoison, bytes.size());
  transfers.push_back({host.storage(), to, std::move(bytes), device, ++transfer_number, {stream}});
}
}  // namespace simulated
