// CPU tensors over the bytes of device tensors, which the CPU kernels work on.
#pragma once
#include "memory.h"
#include <ATen/EmptyTensor.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/DeviceGuard.h>

namespace simulated {

inline void check_dtype(ScalarType type) {
  TORCH_CHECK_TYPE(!(rules.banned_dtypes >> int(type) & 1), rules.dtype_message);
}

inline void check_computes(ScalarType type) {
  TORCH_CHECK(!(rules.memory_only_dtypes >> int(type) & 1), rules.memory_only_message);
}

inline at::Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<ScalarType> dtype, std::optional<Layout>,
                                std::optional<Device> device, std::optional<bool> pin) {
  return heard([&] {
    TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
    auto type = dtype_or_default(dtype);
    check_dtype(type);
    DeviceGuard on(device.value_or(Device(device_type, current)));
    return at::detail::empty_strided_generic(size, stride, &device_memory, DispatchKeySet(dispatch_key), type);
  });
}

inline at::Tensor empty(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Layout>, std::optional<Device> device,
                        std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return heard([&] {
    TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
    auto type = dtype_or_default(dtype);
    check_dtype(type);
    DeviceGuard on(device.value_or(Device(device_type, current)));
    return at::detail::empty_generic(size, &device_memory, DispatchKeySet(dispatch_key), type, format);
  });
}

inline at::SparseTensorImpl& sparse(const at::Tensor& t) { return *static_cast<at::SparseTensorImpl*>(t.unsafeGetTensorImpl()); }

inline at::Tensor sparse_like(const at::Tensor& like, DispatchKey key, const at::Tensor& indices, const at::Tensor& values) {
  auto made = at::detail::make_tensor<at::SparseTensorImpl>(DispatchKeySet(key), like.dtype());
  sparse(made).raw_resize_(sparse(like).sparse_dim(), sparse(like).dense_dim(), like.sizes());
  sparse(made).set_indices_and_values_unsafe(indices, values);
  sparse(made).set_coalesced(sparse(like).coalesced());
  return made;
}

// The memory of a nested tensor, as one dimension.
inline at::Tensor buffer(const at::Tensor& nested, const Storage& storage, DispatchKey key) {
  auto made = at::detail::make_tensor<TensorImpl>(Storage(storage), DispatchKeySet(key), nested.dtype());
  made.unsafeGetTensorImpl()->set_sizes_contiguous({int64_t(storage.nbytes() / nested.itemsize())});
  return made;
}

inline at::Tensor nested_like(const at::Tensor& like, at::Tensor buffer) {
  auto& impl = *static_cast<at::native::NestedTensorImpl*>(like.unsafeGetTensorImpl());
  return at::detail::make_tensor<at::native::NestedTensorImpl>(std::move(buffer), impl.get_nested_sizes(), impl.get_nested_strides(), impl.get_storage_offsets());
}

// The aliases of one call: one CPU storage per device storage, so that the kernels' own overlap checks still work.
struct Aliases {
  std::unordered_map<StorageImpl*, Storage> storages;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // (device tensor, its CPU alias)

  Storage alias(const Storage& s) {
    auto found = storages.find(s.unsafeGetStorageImpl());
    if (found != storages.end()) return found->second;
    auto* keep = new Storage(s);
    DataPtr data(s.mutable_data(), keep, [](void* kept) { delete static_cast<Storage*>(kept); }, Device(kCPU));
    Storage made(Storage::use_byte_size_t(), s.nbytes(), std::move(data), GetAllocator(kCPU), /*resizable=*/true);
    storages.emplace(s.unsafeGetStorageImpl(), made);
    return made;
  }

  at::Tensor alias(const at::Tensor& t) {
    for (auto& [device, cpu] : pairs)
      if (device.is_same(t)) return cpu;
    auto cpu = alias_new(t);
    pairs.emplace_back(t, cpu);
    return cpu;
  }

  at::Tensor alias_new(const at::Tensor& t) {
    if (t.is_sparse()) return sparse_like(t, DispatchKey::SparseCPU, alias(sparse(t).indices()), alias(sparse(t).values()));
    if (t.is_nested()) return nested_like(t, buffer(t, alias(t.storage()), DispatchKey::CPU));
    return alias_dense(t);
  }

  static DispatchKeySet flags(const at::Tensor& t) {
    return t.key_set() & DispatchKeySet({DispatchKey::Conjugate, DispatchKey::Negative});
  }

  at::Tensor alias_dense(const at::Tensor& t) {
    auto cpu = at::detail::make_tensor<TensorImpl>(alias(t.storage()), DispatchKeySet(DispatchKey::CPU) | flags(t), t.dtype());
    cpu.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
    return cpu;
  }

  // What the kernel returned, on the device: the argument itself, a view of one, or new memory.
  at::Tensor result(const at::Tensor& cpu, DeviceIndex i) {
    if (!cpu.defined()) return cpu;
    for (auto& [device, alias] : pairs)
      if (alias.is_same(cpu)) return device;
    if (!cpu.is_cpu()) return cpu;
    check_dtype(cpu.scalar_type());
    if (cpu.is_sparse()) return sparse_like(cpu, sparse_key(), result(sparse(cpu).indices(), i), result(sparse(cpu).values(), i));
    if (cpu.is_nested()) return nested_like(cpu, result(buffer(cpu, cpu.storage(), DispatchKey::CPU), i));
    for (auto& [device, alias] : pairs)
      if (!alias.is_sparse() && alias.storage().unsafeGetStorageImpl() == cpu.storage().unsafeGetStorageImpl()) return view(device, cpu);
    return moved(cpu, i);
  }

  static at::Tensor view(const at::Tensor& device, const at::Tensor& like) {
    auto v = at::detail::make_tensor<TensorImpl>(Storage(device.storage()), DispatchKeySet(dispatch_key) | flags(like), like.dtype());
    v.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    return v;
  }

  at::Tensor moved(const at::Tensor& cpu, DeviceIndex i) {
    auto strides = cpu.is_non_overlapping_and_dense() ? cpu.strides().vec() : cpu.contiguous().strides().vec();
    auto made = empty_strided(cpu.sizes(), strides, cpu.scalar_type(), {}, Device(device_type, i), {});
    if (cpu.numel()) alias(made).copy_(cpu);
    return made;
  }

  // out= arguments that the kernel resized.
  void write_back() {
    for (size_t n = 0, known = pairs.size(); n < known; n++) {  // `result` adds pairs
      auto [device, cpu] = pairs[n];
      if (cpu.is_sparse()) {
        write_back_sparse(device, cpu);
        continue;
      }
      if (cpu.is_nested()) continue;
      if (cpu.storage().data() != device.storage().data()) reallocate(device, cpu);
      bool same = device.sizes().equals(cpu.sizes()) && device.strides().equals(cpu.strides()) && device.storage_offset() == cpu.storage_offset();
      if (!same) device.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
    }
  }

  void write_back_sparse(const at::Tensor& device, const at::Tensor& cpu) {
    auto& from = sparse(cpu);
    auto& to = sparse(device);
    if (alias(to.indices()).is_same(from.indices()) && alias(to.values()).is_same(from.values())) return to.set_coalesced(from.coalesced());
    to.raw_resize_(from.sparse_dim(), from.dense_dim(), cpu.sizes());
    to.set_indices_and_values_unsafe(result(from.indices(), device.device().index()), result(from.values(), device.device().index()));
    to.set_coalesced(from.coalesced());
  }

  static void reallocate(const at::Tensor& device, const at::Tensor& cpu) {
    DeviceGuard on(device.device());
    auto bytes = cpu.storage().nbytes();
    auto data = device_memory.allocate(bytes);
    if (bytes) std::memcpy(data.get(), cpu.storage().data(), bytes);
    auto* storage = device.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(bytes);
  }
};
}  // namespace simulated
