// What nccl, xccl and hccl refuse: torch's ProcessGroupNCCL.cpp, torch-xpu-ops' ProcessGroupXCCL.cpp, torch_npu's ProcessGroupHCCL.cpp.
#pragma once
#include "state.h"
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <cctype>
#include <vector>

namespace simulated {
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

struct CommunicationLibrary {
  std::string name, shown;  // "nccl", "NCCL"

  explicit CommunicationLibrary(std::string given) : name(given), shown(given) {
    for (auto& c : shown) c = char(std::toupper(c));
  }
  // gloo itself, on the tensors of a CUDA build.
  bool is_gloo() const { return name == "gloo"; }
  bool is_hccl() const { return name == "hccl"; }

  void check(const Tensors& all) const {
    if (!is_gloo()) heard([&] { check_each(all); });
  }
  void check_each(const Tensors& all) const {
    for (auto& t : all) {
      TORCH_CHECK_VALUE(on_device(t) && !t.is_sparse(), "Tensors must be ", DeviceTypeName(device_type), " and dense");
      TORCH_CHECK_VALUE(t.device() == all[0].device(), "Expected list of tensors on the same device");
      TORCH_CHECK_TYPE(t.scalar_type() == all[0].scalar_type(), "Tensors must have identical type");
      TORCH_CHECK_VALUE(all.size() > 1 || t.is_contiguous(t.suggest_memory_format()), "Tensors must be contiguous");
      TORCH_CHECK_VALUE(t.is_non_overlapping_and_dense(), "Tensors must be non-overlapping and dense");
      check_type(t.scalar_type());
    }
  }

  // Of a buffer that holds one part for each rank, and of the part.
  void check_sizes(const char* name, const at::Tensor& whole, const char* other, const at::Tensor& part, int64_t ranks) const {
    if (is_gloo()) return;
    TORCH_CHECK_TYPE(whole.dtype() == part.dtype(), name, " tensor must have the same type as ", other, " tensor");
    TORCH_CHECK_VALUE(whole.numel() == part.numel() * ranks, name, " tensor size must be equal to world_size times ", other, " tensor size");
  }

  void check_type(ScalarType type) const {
    for (auto known : {kByte, kChar, kInt, kLong, kHalf, kFloat, kDouble, kBool, kBFloat16})
      if (type == known) return;
    bool refused = !is_hccl() && (type == kShort || type == kUInt16 || type == kUInt32 || type == kUInt64);
    TORCH_CHECK_TYPE(!refused, "Input tensor data type is not supported for ", shown, " process group: ", toString(type));
    TORCH_CHECK_NOT_IMPLEMENTED(false, "simulated ", name, " carries no ", toString(type), " tensors, since gloo, which it uses, has none");
  }

  // The reduction that gloo is to do. AVG: the sum, to be divided. `method`: of the backend, e.g. "allreduce".
  ReduceOp reduction(const ReduceOp& op, ScalarType type, std::string method) const {
    if (is_gloo()) return op;
    TORCH_CHECK_NOT_IMPLEMENTED(op.op_ != ReduceOp::PREMUL_SUM, "simulated ", name, " has no ReduceOp.PREMUL_SUM");
    is_hccl() ? check_hccl(op, type, method) : check_nccl(op, type);
    if (op.op_ == ReduceOp::SUM && type == kBool) return ReduceOp::MAX;  // a byte each: a sum would overflow
    return op.op_ == ReduceOp::AVG ? ReduceOp(ReduceOp::SUM) : op;
  }
  void check_nccl(const ReduceOp& op, ScalarType type) const {
    TORCH_CHECK_VALUE(op.op_ < ReduceOp::BAND, "Cannot use ReduceOp.", spelled(op), " with ", shown);
    TORCH_CHECK_TYPE(op.op_ != ReduceOp::AVG || type != kBool, "Cannot use ReduceOp.AVG with boolean inputs");
  }
  void check_hccl(const ReduceOp& op, ScalarType type, const std::string& method) const {
    TORCH_CHECK(op.op_ < ReduceOp::BAND && op.op_ != ReduceOp::AVG, "Cannot use ReduceOp.", spelled(op), " with HCCL");
    TORCH_CHECK(type != kDouble, "HCCL ", method, ": Unsupported data type at::kDouble");
  }
  static const char* spelled(const ReduceOp& op) {
    static const char* const names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
    return names[op.op_];
  }

  // A communicator has one device per rank.
  void refuse_shared(Device device, int rank, int other) const {
    TORCH_CHECK_WITH(DistBackendError, false, shown, " error: invalid usage (simulated). Duplicate ",
      device_type == DeviceType::PrivateUse1 ? "NPU" : "GPU", " detected : rank ", rank, " and rank ", other, " both on ", device,
      ": each process has to use its own device, e.g. after set_device(local_rank)");
  }

  // What gloo does for the CPU only.
  void refuse_on_cuda(const char* method) const {
    TORCH_CHECK(!is_gloo(), "ProcessGroupGloo::", method, ": unsupported device type ", DeviceTypeName(device_type, true));
  }
};
}  // namespace simulated
