// torch.distributed on the simulated device: which backend a group has for its tensors, and the operators that ask for it.
#pragma once
#include "staged.h"
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace simulated {

// Puts `name` in front of the group's gloo, for the simulated device's tensors.
inline void stage(const intrusive_ptr<c10d::ProcessGroup>& group, std::string name) {
  auto staged = make_intrusive<StagedBackend>(group->getBackend(c10d::ProcessGroup::GLOO), std::move(name));
  group->setBackend(device_type, c10d::ProcessGroup::CUSTOM, intrusive_ptr<Backend>(staged));
}

// DistributedDataParallel measures itself on CUDA, with a clock that a CPU build lacks.
struct StepTimer final : c10d::Timer {
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    auto from = getTimestamp(start), to = getTimestamp(end);
    return from && to && *from < *to ? std::optional(*to - *from) : std::nullopt;
  }
};
inline void register_timer() {
  if (device_type != DeviceType::CUDA || c10d::TimerRegistry()->Has(device_type)) return;
  c10d::TimerRegistry()->Register(device_type, [](Device) -> std::unique_ptr<c10d::Timer> { return std::make_unique<StepTimer>(); });
}

// ---- torch.distributed's operators where torch has none for the key: all but CUDA and PrivateUse1

// Torch's CUDA kernels ask the group for the backend of CUDA: here a group that has the device's own there.
inline IValue with_cuda(const intrusive_ptr<c10d::ProcessGroup>& group) {
  auto made = make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
  made->setBackend(DeviceType::CUDA, c10d::ProcessGroup::CUSTOM, group->getBackend(device_type));
  return made;
}

inline void collective(const OperatorHandle& op, DispatchKeySet, Stack* stack) {
  auto name = full_name(op.schema().operator_name());
  if (device_type == DeviceType::MPS) heard([&] { refuse_operator(name); });
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0, first = stack->size() - arguments.size(); i < arguments.size(); i++)
    if (arguments[i].name() == "process_group") (*stack)[first + i] = with_cuda((*stack)[first + i].toCustomClass<c10d::ProcessGroup>());
  op.redispatchBoxed(DispatchKeySet(DispatchKey::CUDA), stack);
}

inline const std::vector<const char*> kCollectives = {
    "send", "recv_", "recv_any_source_", "broadcast_", "allreduce_", "allreduce_coalesced_", "reduce_", "allgather_", "_allgather_base_",
    "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_", "gather_", "scatter_", "alltoall_", "alltoall_base_", "barrier"};
}  // namespace simulated
