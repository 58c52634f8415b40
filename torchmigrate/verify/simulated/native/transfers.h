// Device-to-host copies with non_blocking=True: the host sees poison until it has synchronized.
#pragma once
#include "state.h"
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Stream.h>
#include <algorithm>
#include <cstring>
#include <vector>

namespace simulated {

// Who synchronizes `stream` up to `at` or later waits for the transfer, too.
struct Follower {
  Stream stream;
  uint64_t at;
};

struct Transfer {
  at::Tensor host, values;  // shares the target's memory, which the program may drop before the copy lands
  std::vector<Follower> followers;
};
inline auto& transfers = *new std::vector<Transfer>;  // guarded by transfer_mutex
inline std::mutex transfer_mutex;
inline std::atomic<size_t> pending{0};
inline std::atomic<uint64_t> transfer_clock{0};  // rises with each transfer, recorded event and wait

template <class Wanted>
void land_if(Wanted wanted) {
  if (pending == 0) return;  // the usual program has none: no lock
  std::lock_guard<std::mutex> lock(transfer_mutex);
  at::AutoDispatchBelowADInplaceOrView below;
  auto landed = [&](Transfer& t) {
    if (t.host.storage().use_count() == 1) return true;  // nobody is left to read it
    if (!std::any_of(t.followers.begin(), t.followers.end(), wanted)) return false;
    t.host.copy_(t.values);
    return true;
  };
  transfers.erase(std::remove_if(transfers.begin(), transfers.end(), landed), transfers.end());
  pending = transfers.size();
}

inline void land_device(DeviceIndex device) {
  land_if([&](const Follower& f) { return f.stream.device_index() == device; });
}

inline void land_stream(const Stream& stream, uint64_t until = UINT64_MAX) {
  land_if([&](const Follower& f) { return f.stream == stream && f.at <= until; });
}

// `waiting` waits for what `stream` had queued up to `until`: synchronizing it then lands that too.
inline void wait_for(const Stream& stream, uint64_t until, const Stream& waiting) {
  std::lock_guard<std::mutex> lock(transfer_mutex);
  auto now = ++transfer_clock;
  for (auto& t : transfers)
    if (std::any_of(t.followers.begin(), t.followers.end(), [&](const Follower& f) { return f.stream == stream && f.at <= until; }))
      t.followers.push_back({waiting, now});
}

inline void poison(const at::Tensor& host) {
  auto poison = at::empty_like(host, MemoryFormat::Contiguous);
  std::memset(poison.data_ptr(), kPoison, poison.nbytes());
  host.copy_(poison);
}

// A copy to the device sees what its own stream has copied to the host before, though the host does not yet.
template <class Copy>
void with_arrived(const at::Tensor& host, const Stream& stream, Copy copy) {
  if (pending == 0 || !host.has_storage()) return copy();
  std::lock_guard<std::mutex> lock(transfer_mutex);
  std::vector<at::Tensor> shown;
  for (auto& t : transfers)
    if (t.host.storage().is_alias_of(host.storage()) && std::any_of(t.followers.begin(), t.followers.end(), [&](const Follower& f) { return f.stream == stream; })) {
      t.host.copy_(t.values);
      shown.push_back(t.host);
    }
  copy();
  for (auto& target : shown) poison(target);
}

// `host` holds the copied values already; they are taken out again until the stream is synchronized.
inline void postpone(const at::Tensor& host, const Stream& stream) {
  if (host.numel() == 0) return;
  std::lock_guard<std::mutex> lock(transfer_mutex);
  auto values = host.clone();
  poison(host);
  transfers.push_back({host.detach(), std::move(values), {{stream, ++transfer_clock}}});
  pending = transfers.size();
}
}  // namespace simulated
