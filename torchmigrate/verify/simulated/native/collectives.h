// Collectives: torch.distributed's operators, staged through the gloo group that distributed.py puts in place.
#pragma once
#include "kernels.h"

namespace simulated {

// Device tensors at any depth (Tensor, Tensor[], Tensor[][]) become CPU tensors over the same bytes.
inline IValue stage(const IValue& v, Aliases& aliases) {
  if (v.isTensor()) return on_device(v.toTensor()) ? IValue(aliases.alias(v.toTensor())) : v;
  if (!v.isList()) return v;
  c10::impl::GenericList list(v.toList().elementType());
  for (const IValue& x : v.toListRef()) list.push_back(stage(x, aliases));
  return list;
}

inline IValue unstage(const IValue& v, Aliases& aliases) {
  if (v.isTensor()) return aliases.result(v.toTensor(), current);
  if (!v.isList()) return v;
  c10::impl::GenericList list(v.toList().elementType());
  for (const IValue& x : v.toListRef()) list.push_back(unstage(x, aliases));
  return list;
}

// Which of torch's own kernels runs: the one that asks the process group for another type's backend, under which
// distributed.py has registered gloo. The group has none for the CPU, so CPU tensors are refused as NCCL refuses them.
inline DispatchKey carrier() { return device_type == DeviceType::CUDA ? DispatchKey::PrivateUse1 : DispatchKey::CUDA; }

inline void collective(const OperatorHandle& op, DispatchKeySet, Stack* stack) {
  count(full_name(op.schema().operator_name()));
  Aliases aliases;
  auto arguments = op.schema().arguments().size();
  std::vector<IValue> keep(stack->end() - long(arguments), stack->end());
  for (size_t i = stack->size() - arguments; i < stack->size(); i++) (*stack)[i] = stage((*stack)[i], aliases);
  op.redispatchBoxed(DispatchKeySet(carrier()), stack);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) (*stack)[i] = unstage((*stack)[i], aliases);
}

inline const std::vector<const char*> kCollectives = {
    "send", "recv_", "recv_any_source_", "broadcast_", "allreduce_", "allreduce_coalesced_", "reduce_", "allgather_", "_allgather_base_",
    "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_", "gather_", "scatter_", "alltoall_", "alltoall_base_", "barrier"};
}  // namespace simulated
