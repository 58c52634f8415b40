// Devices, streams and events, as c10's device guard wants them. Kernels run at once; only host copies lag (transfers.h).
#pragma once
#include "memory.h"
#include "transfers.h"
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <chrono>

namespace simulated {

inline thread_local std::vector<StreamId> current_streams(kMaxDevices, 0);
inline std::atomic<StreamId> last_stream{0};

inline double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

struct RecordedEvent {
  double at_ms;
  Stream stream;
  uint64_t transfers;  // the clock of the transfers
};

struct Guard final : impl::DeviceGuardImplInterface {
  static Stream stream(DeviceIndex i, StreamId id) { return Stream(Stream::UNSAFE, Device(device_type, i), id); }
  static DeviceIndex checked(Device d) {
    auto i = index_or_current(d.index());
    check_index(i);
    return i;
  }

  DeviceType type() const override { return device_type; }
  DeviceIndex deviceCount() const noexcept override { return DeviceIndex(device_count()); }
  Device getDevice() const override { return Device(device_type, current); }
  Device exchangeDevice(Device d) const override {
    Device before = getDevice();
    setDevice(d);
    return before;
  }
  void setDevice(Device d) const override {
    if (d.index() < 0) return;
    check_index(d.index());
    current = d.index();
  }
  void uncheckedSetDevice(Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < device_count()) current = d.index();
  }

  Stream getStream(Device d) const override {
    auto i = checked(d);
    return stream(i, current_streams[i]);
  }
  Stream getDefaultStream(Device d) const override { return stream(checked(d), 0); }
  Stream getNewStream(Device d, int) const override {
    // Each of MPS's streams is the default one (torch 2.13, ATen/mps/MPSGuardImpl.h).
    return device_type == DeviceType::MPS ? stream(0, 0) : stream(checked(d), ++last_stream);
  }
  Stream getStreamFromGlobalPool(Device d, bool) const override { return getNewStream(d, 0); }
  Stream exchangeStream(Stream s) const override {
    auto before = getStream(s.device());
    current_streams[s.device_index()] = s.id();
    return before;
  }
  bool queryStream(const Stream& s) const override {
    synchronizeStream(s);  // work is done at once, so the answer is yes: then the copies must be there
    return true;
  }
  void synchronizeStream(const Stream& s) const override { land_stream(s); }
  void synchronizeDevice(const DeviceIndex i) const override {
    check_index(index_or_current(i));
    land_device(index_or_current(i));
  }

  void record(void** event, const Stream& s, const DeviceIndex, const EventFlag) const override {
    RecordedEvent recorded{now_ms(), s, ++transfer_clock};
    *event ? void(*static_cast<RecordedEvent*>(*event) = recorded) : void(*event = new RecordedEvent(recorded));
  }
  void block(void* event, const Stream& s) const override {
    if (!event) return;
    auto* e = static_cast<RecordedEvent*>(event);
    wait_for(e->stream, e->transfers, s);
  }
  bool queryEvent(void* event) const override {
    synchronizeEvent(event);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    auto* e = static_cast<RecordedEvent*>(event);
    land_stream(e->stream, e->transfers);
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<RecordedEvent*>(event); }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    return static_cast<RecordedEvent*>(end)->at_ms - static_cast<RecordedEvent*>(start)->at_ms;
  }
#if TORCH_VERSION_MINOR >= 10
  DeviceCapability getDeviceCapability(Device) const override {
    DeviceCapability capability;
    capability.capability_data.capability_bits &= ~(rules.banned_dtypes | rules.incapable_dtypes);
    return capability;
  }
#endif
};
inline auto& guard = *new Guard;

// What the host waits for when it reads from the device: the current stream.
inline void host_synchronizes(DeviceIndex i = current) { land_stream(guard.stream(i, current_streams[i])); }
}  // namespace simulated
