// Every operator on the device: strict about where its tensors live, then the CPU's kernel on the same bytes.
#pragma once
#include "alias.h"
#include "generator.h"
#include "guard.h"
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/linear_native.h>
#include <torch/library.h>
#include <cmath>
#include <cstdlib>

namespace simulated {
using Stack = torch::jit::Stack;

inline const std::unordered_set<std::string> kMetadata = {
    // Their CPU kernels read no bytes, and copy the key set from their argument.
    "aten::as_strided", "aten::view", "aten::_reshape_alias", "aten::unfold", "aten::view_as_real", "aten::view_as_complex",
    "aten::set_", "aten::set_.source_Storage", "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor",
    "aten::resize_", "aten::_local_scalar_dense", "aten::is_set_to"};

// Composites of core that pick a kernel which only the backend's own build has: the CPU's kernel is taken whole.
inline const std::vector<const char*> kWhole = {"convolution", "convolution_backward"};

inline std::string full_name(const OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

inline bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

[[noreturn]] inline void refuse_operator(const std::string& name) {
  std::string message = rules.missing_message;
  if (auto at = message.find("{}"); at != std::string::npos) message.replace(at, 2, name);
  C10_THROW_ERROR(NotImplementedError, message);
}

// Types for which the CPU has no kernel, and CUDA has one (OpInfo's dtypesIfCUDA): the CPU's kernel computes in another.
struct Widened {
  const char* prefix;
  std::vector<ScalarType> from;
  ScalarType to;
};
inline const auto& kWidened = *new std::vector<Widened>{
    {"aten::abs", {kBool}, kByte},
    {"aten::trace", {kBool}, kByte},
    {"aten::histc", {kByte, kChar, kShort, kInt, kLong}, kDouble},
    {"aten::avg_pool3d", {kHalf, kBFloat16}, kFloat},
    {"aten::_upsample_bilinear2d_aa", {kHalf, kBFloat16}, kFloat},
    {"aten::multi_margin_loss", {kHalf, kBFloat16}, kFloat},
    {"aten::multilabel_margin_loss", {kHalf, kBFloat16}, kFloat},
    {"aten::rrelu_with_noise", {kHalf}, kFloat},
    {"aten::polygamma", {kHalf}, kFloat},
    {"aten::round", {kHalf}, kFloat},
};

// One call of one operator.
struct Call {
  const OperatorHandle& op;
  Stack& stack;
  bool is_sparse;  // dispatched for a sparse COO tensor, or to make one
  bool is_nested;
  const FunctionSchema& schema = op.schema();
  std::string name = full_name(schema.operator_name());
  size_t first = stack.size() - schema.arguments().size();
  bool indexing = starts_with(name, "aten::index") || starts_with(name, "aten::_index_put_impl_") || starts_with(name, "aten::_unsafe_index");
  Aliases aliases;
  Device device = Device(device_type, current);
  std::vector<IValue> keep;  // the device tensors, while the kernel works on their aliases

  IValue& argument(size_t i) { return stack[first + i]; }

  // What a backend's public lists of operators leave out of dtypes: rules.narrow.
  void refuse_dtype(ScalarType type) {
    auto found = rules.narrow.find(schema.operator_name().name);
    if (found != rules.narrow.end() && (found->second >> int(type) & 1)) {
      std::string message = rules.narrow_message;
      if (auto at = message.find("{}"); at != std::string::npos) message.replace(at, 2, name + " of " + toString(type));
      TORCH_CHECK(false, message);
    }
  }

  void refuse_missing() {
    TORCH_CHECK_NOT_IMPLEMENTED(!(is_sparse && rules.missing_sparse.count(name)), "Could not run '", name, "' with arguments from the '", toString(sparse_key()), "' backend.");
    bool missing = rules.missing.count(name);
    if (missing && !fallback_to_cpu) refuse_operator(name);
    if (missing || rules.on_cpu.count(name))
      TORCH_WARN_ONCE("The operator '", name, "' is not currently supported on the MPS backend and will fall back to run on the CPU. This may have performance implications.");
  }

  // What MPS refuses by its arguments: aten/src/ATen/native/mps/operations/AdaptivePooling.mm and Convolution.mm, and what
  // torch/testing/_internal/common_mps.py expects to fail.
  void refuse_arguments() {
    if (device_type == DeviceType::CUDA || device_type == DeviceType::MPS) refuse_bytes();
    if (device_type != DeviceType::MPS) return;
    if (starts_with(name, "aten::scatter_reduce")) refuse_product();
    if (name == "aten::_adaptive_avg_pool2d" || name == "aten::adaptive_avg_pool2d.out") refuse_uneven_pool();
    if (name == "aten::convolution") refuse_convolution();
  }
  // Of what the CPU interpolates in bytes, aten/src/ATen/native/cuda/UpSampleBicubic2d.cu and UpSampleBilinear2d.cu take no such.
  void refuse_bytes() {
    for (auto* interpolation : {"aten::upsample_bicubic2d", "aten::_upsample_bicubic2d_aa", "aten::_upsample_bilinear2d_aa"})
      if (starts_with(name, interpolation) && argument(0).isTensor())
        TORCH_CHECK_NOT_IMPLEMENTED(argument(0).toTensor().scalar_type() != kByte, "\"", schema.operator_name().name.substr(6), "\" not implemented for 'Byte'");
  }
  void refuse_product() {
    bool wide = argument(0).toTensor().scalar_type() == kLong, product = argument(4).toStringRef() == "prod";
    TORCH_CHECK(!(wide && product), "scatter_reduce with reduce='prod' is not supported for int64 on MPS");
  }
  void refuse_uneven_pool() {
    auto input = argument(0).toTensor().sizes();
    auto output = argument(1).toIntVector();
    for (size_t i = 0; i < output.size(); i++) {
      auto in = input[input.size() - output.size() + i], out = output[i];
      const char* from = in >= out ? "input" : "output";
      const char* by = in >= out ? "output" : "input";
      TORCH_CHECK(std::min(in, out) == 0 || std::max(in, out) % std::min(in, out) == 0, "Adaptive pool MPS: ", from, " sizes must be divisible by ", by,
        " sizes. Non-divisible input sizes are not implemented on MPS device yet. For now, you can manually transfer tensor to cpu in this case. "
        "Please refer to [this issue](https://github.com/pytorch/pytorch/issues/96056)");
    }
  }
  void refuse_convolution() {
    const auto& input = argument(0).toTensor();
    auto type = input.scalar_type();
    TORCH_CHECK(!isIntegralType(type, /*includeBool=*/true), "Convolution is supported only for Floating types");
    bool transposed = argument(6).toBool(), short_type = type == kHalf || type == kBFloat16;
    TORCH_CHECK(!(transposed && input.dim() == 5 && short_type), "ConvTranspose 3D with BF16 or FP16 types is not supported on MPS");
  }

  void find_device() {
    for (size_t i = 0; i < schema.arguments().size(); i++)
      if (auto found = device_of(argument(i))) {
        device = *found;
        return;
      }
    // It is here for its generator alone.
    for (size_t i = 0; i < schema.arguments().size(); i++)
      TORCH_CHECK(!argument(i).isGenerator(), "Expected a 'cpu' device type for generator but found '", device_type, "'");
  }
  static std::optional<Device> device_of(const IValue& v) {
    if (v.isTensor()) return on_device(v.toTensor()) ? std::optional(v.toTensor().device()) : std::nullopt;
    if (v.isDevice() && is_device(v.toDevice())) return Device(device_type, index_or_current(v.toDevice().index()));
    if (v.isList())
      for (const IValue& x : v.toListRef())
        if (auto found = device_of(x)) return found;
    return std::nullopt;
  }

  void check(const at::Tensor& t, const Argument& a) {
    if (!t.defined() || t.device() == device || name == "aten::copy_") return;
    bool written = a.alias_info() && a.alias_info()->isWrite();
    if (t.is_cpu()) {
      if (t.dim() == 0 && !written && rules.no_check.count(name)) return;  // a scalar that TensorIterator lets in
      if (indexing && a.name() == "indices") return;                       // CUDA takes CPU indices
      if (indexing && a.name() == "self") TORCH_CHECK_INDEX(false, "indices should be either on cpu or on the same device as the indexed tensor (cpu)");
    }
    auto method = schema.operator_name().name.substr(schema.operator_name().name.find("::") + 2);
    TORCH_CHECK(!rules.no_check.count(name), "Expected all tensors to be on the same device, but found at least two devices, ", device, " and ", t.device(), "! (when checking argument ", a.name(), " in ", method, ")");
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but got ", a.name(), " is on ", t.device(), ", different from other tensors on ", device, " (when checking argument in method wrapper_", DeviceTypeName(device_type), "_", method, ")");
  }

  at::Tensor lower(const at::Tensor& t, const Argument& a) {
    check(t, a);
    if (on_device(t) && t.layout() == kStrided && t.requires_grad() && t.is_leaf() && t.has_storage()) mark_parameter(t.storage().data());
    if (on_device(t)) check_computes(t.scalar_type());
    if (on_device(t)) refuse_dtype(t.scalar_type());
    auto cpu = on_device(t) ? aliases.alias(t) : t;
    // derivatives.yaml makes this one's arguments contiguous for every backend but XPU, whose kernel takes any.
    return name == "aten::native_group_norm_backward" && cpu.defined() ? cpu.contiguous() : cpu;
  }
  at::Generator lower(const IValue& v) {
    const at::Generator& g = v.isNone() ? default_generator(device.index()) : v.toGenerator();
    TORCH_CHECK(is_device(g.device()), "Expected a '", device_type, "' device type for generator but found '", g.device().type(), "'");
    return inner_generator(g);
  }
  void lower(IValue& v, const Argument& a) {
    if (v.isTensor()) {
      v = lower(v.toTensor(), a);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(lower(t, a));
      v = list;
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector()) list.push_back(t ? std::optional(lower(*t, a)) : std::nullopt);
      v = list;
    } else if (v.isDevice() && is_device(v.toDevice())) {
      v = Device(kCPU);
    } else if (a.type()->str().find("Generator") != std::string::npos) {
      v = lower(v);
    }
  }

  void lower_arguments() {
    for (size_t i = 0; i < schema.arguments().size(); i++) {
      keep.push_back(argument(i));
      lower(argument(i), schema.arguments()[i]);
    }
  }

  bool takes_generator() const {
    for (const auto& a : schema.arguments())
      if (a.name() == "generator") return true;
    return false;
  }

  // CUDA's and XPU's kernels of softmax turn half into float in one step, and back; the CPU's know one type alone.
  bool half_to_float() {
    bool forward = name == "aten::_softmax" || name == "aten::_log_softmax";
    bool backward = name == "aten::_softmax_backward_data" || name == "aten::_log_softmax_backward_data";
    if (forward && argument(2).toBool()) {
      argument(0) = argument(0).toTensor().to(kFloat);
      argument(2) = false;
    }
    if (!backward || argument(0).toTensor().scalar_type() == argument(3).toScalarType()) return false;
    argument(3) = argument(0).toTensor().scalar_type();
    return true;
  }

  void run() {
    bool half_gradient = half_to_float();
    bool random = op.hasTag(at::Tag::nondeterministic_seeded);
    if (random) count_random();
    std::optional<BorrowedGenerator> borrowed;
    if (random && !takes_generator()) borrowed.emplace(device.index());
    auto key = is_sparse ? DispatchKey::SparseCPU : is_nested ? DispatchKey::NestedTensorCPU : DispatchKey::CPU;
    auto* widened = wider();
    widened ? run_wider(*widened) : op.redispatchBoxed(DispatchKeySet(key), &stack);
    if (half_gradient) stack.back() = stack.back().toTensor().to(kHalf);
    // The CPU counts whole weights in float64, MPS in their own type.
    if (name == "aten::bincount" && device_type == DeviceType::MPS && keep[1].isTensor() && keep[1].toTensor().defined())
      stack.back() = stack.back().toTensor().to(keep[1].toTensor().scalar_type());
    if (op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape)) host_synchronizes();
  }
  const Widened* wider() {
    for (auto& each : kWidened)
      if (starts_with(name, each.prefix) && argument(0).isTensor() && argument(0).toTensor().defined())
        for (auto type : each.from)
          if (argument(0).toTensor().scalar_type() == type && !is_sparse && !is_nested) return &each;
    return nullptr;
  }
  void run_wider(const Widened& rule) {
    auto narrow = argument(0).toTensor().scalar_type();
    std::vector<std::pair<at::Tensor, at::Tensor>> written;  // (the wide one, the argument)
    for (size_t i = 0; i < schema.arguments().size(); i++) {
      if (!argument(i).isTensor() || !argument(i).toTensor().defined() || argument(i).toTensor().scalar_type() != narrow) continue;
      auto given = argument(i).toTensor(), wide = given.to(rule.to);
      auto* alias = schema.arguments()[i].alias_info();
      if (alias && alias->isWrite()) written.emplace_back(wide, given);
      argument(i) = wide;
    }
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack);
    for (auto& [wide, given] : written) given.resize_(wide.sizes()).copy_(wide);
    for (size_t i = stack.size() - schema.returns().size(); i < stack.size(); i++) {
      if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
      auto result = stack[i].toTensor();
      auto known = std::find_if(written.begin(), written.end(), [&](auto& pair) { return pair.first.is_same(result); });
      if (known != written.end()) stack[i] = known->second;
      else if (result.scalar_type() == rule.to) stack[i] = result.to(narrow);
    }
  }
  static void count_random() {
    std::lock_guard<std::mutex> lock(mutex);
    random_kernels++;
  }

  void raise_results() {
    aliases.write_back();
    for (size_t i = stack.size() - schema.returns().size(); i < stack.size(); i++) {
      auto& v = stack[i];
      if (v.isTensor() && v.toTensor().defined()) check_computes(v.toTensor().scalar_type());
      if (v.isTensor()) {
        v = aliases.result(v.toTensor(), device.index());
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(aliases.result(t, device.index()));
        v = list;
      }
    }
  }
};

inline void count(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex);
  kernels[name]++;
}

inline bool is_product(const std::string& name) {
  static const auto& parts = *new std::vector<const char*>{"mm", "mv", "convolution", "linear", "attention", "lstm", "gru", "rnn", "einsum", "dot"};
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) { return name.find(part) != std::string::npos; });
}

// How much a product multiplies: of two matrices sqrt(|a| |b| |a b|) = m k n, which parts of a batch add up to, whatever weights
// each part has beside it. Of others, as fused attention, all elements.
inline int64_t multiplied(const Call& call, int64_t elements) {
  bool gradient = call.name.find("convolution_backward") != std::string::npos;
  bool added = starts_with(call.name, "aten::add") || starts_with(call.name, "aten::baddbmm");  // to their first argument
  bool plain = call.name.find("mm") != std::string::npos || call.name.find("mv") != std::string::npos || call.name.find("convolution") != std::string::npos || starts_with(call.name, "aten::dot");
  auto numel = [](const IValue& v) { return v.isTensor() && v.toTensor().defined() && v.toTensor().layout() == kStrided && !v.toTensor().is_nested() ? double(v.toTensor().numel()) : 0.0; };
  if (!plain || call.keep.size() < size_t(gradient || added ? 3 : 2)) return elements;
  const auto& a = call.keep[added ? 1 : 0];
  const auto& b = call.keep[added ? 2 : 1];
  double c = gradient ? numel(call.keep[2]) : call.stack.empty() ? 0.0 : numel(call.stack.back());
  bool batched = call.name.find("bmm") != std::string::npos && a.isTensor() && a.toTensor().dim() == 3 && a.toTensor().size(0) > 0;
  double product = numel(a) * numel(b) * c / (batched ? double(a.toTensor().size(0)) : 1.0);
  return product > 0 ? int64_t(std::sqrt(product)) * (gradient ? 2 : 1) : elements;
}

inline void count_work(const Call& call) {
  int64_t elements = 0;
  for (auto& [device, cpu] : call.aliases.pairs)
    if (cpu.layout() == kStrided && !cpu.is_nested()) elements += cpu.numel();
  std::lock_guard<std::mutex> lock(mutex);
  work_done.elements += elements;
  if (!is_product(call.name)) return;
  auto amount = multiplied(call, elements);
  work_done.products += amount;
  auto half = [](auto& pair) { return pair.second.scalar_type() == kHalf || pair.second.scalar_type() == kBFloat16; };
  if (std::any_of(call.aliases.pairs.begin(), call.aliases.pairs.end(), half)) work_done.half_products += amount;
}

// Alters what the host reads from the device, and leaves single truth values alone, on which loops may turn.
inline void alter(IValue& read) {
  if (alters_fractions && read.isDouble()) read = read.toDouble() * 1.125 + 0.03125;
  if (alters_numbers && read.isInt()) read = read.toInt() + 1;
}
inline bool is_fraction(const at::Tensor& t) {
  auto type = t.scalar_type();
  bool plain = t.layout() == kStrided && !t.is_nested();
  return plain && (type == kFloat || type == kDouble || type == kHalf || type == kBFloat16 || isComplexType(type));
}
inline void alter(const at::Tensor& read) {
  if (alters_fractions && is_fraction(read)) read.mul_(1.125).add_(0.03125);
  bool plain = read.layout() == kStrided && !read.is_nested();
  if (alters_numbers && plain && isIntegralType(read.scalar_type(), /*includeBool=*/false)) read.add_(1);
  if (alters_numbers && plain && read.scalar_type() == kBool && read.numel() > 1) read.logical_not_();
}
// Alters what reaches the device, and leaves what is 0 by design: weights that are to do nothing at the start.
inline void alter_input(const at::Tensor& given) {
  if (!is_fraction(given)) return;
  given.mul_(1.125);
  std::lock_guard<std::mutex> lock(mutex);
  altered++;
}
inline void count_read() {
  std::lock_guard<std::mutex> lock(mutex);
  reads++;
}

inline void run_metadata(Call& call) {
  const IValue& self = call.argument(0);
  OptionalDeviceGuard on;  // resize_ allocates on the current device
  if (self.isTensor() && on_device(self.toTensor())) on.reset_device(self.toTensor().device());
  if (call.name == "aten::_local_scalar_dense") host_synchronizes();
  call.op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &call.stack);
  if (call.name != "aten::_local_scalar_dense") return;
  count_read();
  alter(call.stack.back());
}

inline void launch(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  auto key = keys.highestPriorityTypeId();
  Call call{op, *stack, key == sparse_key(), key == nested_key()};
  count(call.name);
  if (!call.is_sparse && !call.is_nested && kMetadata.count(call.name)) return run_metadata(call);
  if (call.name == "aten::record_stream") return torch::jit::drop(*stack, 2);
  call.refuse_missing();
  call.refuse_arguments();
  call.find_device();
  DeviceGuard on(call.device);
  use();
  call.lower_arguments();
  call.run();
  call.raise_results();
  count_work(call);
}

inline void kernel(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  heard([&] { launch(op, keys, stack); });
}

// MPS multiplies whole numbers by `mm`, and not by `linear`, which is a kernel of its own there (operations/Linear.mm).
inline at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  bool whole = isIntegralType(input.scalar_type(), /*includeBool=*/true);
  heard([&] { TORCH_CHECK(!whole, "MPS device does not support linear for non-float inputs"); });
  return at::native::linear(input, weight, bias);
}

// A copy to the host that may lag: into pinned memory, where it needs no temporary one (aten/src/ATen/native/cuda/Copy.cu); on
// MPS into any (pytorch #139550, #189690).
inline bool lags(const at::Tensor& from, const at::Tensor& to) {
  bool direct = to.is_contiguous() || (to.is_non_overlapping_and_dense() && to.strides().equals(from.strides()) && to.dtype() == from.dtype());
  return on_device(from) && to.is_cpu() && (device_type == DeviceType::MPS || (direct && is_pinned(to.storage().data())));
}

inline at::Tensor copy_between(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.is_cpu() || on_device(from), "copy from ", from.device(), " to ", to.device(), " is not supported");
  use();
  if (on_device(from) && on_device(to) && from.dtype() != to.dtype()) {
    check_computes(from.scalar_type());
    check_computes(to.scalar_type());
  }
  Aliases aliases;
  at::AutoDispatchBelowADInplaceOrView below;
  count("aten::copy_");
  auto i = on_device(from) ? from.device().index() : to.device().index();
  auto stream = guard.stream(i, current_streams[i]);
  auto copy = [&] { (to.is_cpu() ? to : aliases.alias(to)).copy_(from.is_cpu() ? from : aliases.alias(from)); };
  from.is_cpu() ? with_arrived(from, stream, copy) : copy();
  if (on_device(from) && to.is_cpu()) {
    count_read();
    alter(to);
  }
  if (alters_inputs && from.is_cpu()) alter_input(aliases.alias(to));
  bool waits = to.is_cpu() || (from.is_cpu() && !non_blocking);
  if (non_blocking && lags(from, to))
    postpone(to, stream);
  else if (waits)
    host_synchronizes(i);
  return to;
}

inline at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  return heard([&] { return copy_between(from, to, non_blocking); });
}

inline at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  copy_from(source.sizes().equals(self.sizes()) ? source : source.expand(self.sizes()), self, non_blocking);
  return self;
}
}  // namespace simulated
