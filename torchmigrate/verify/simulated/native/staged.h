// A backend of a process group: nccl, xccl or hccl by its own name and rules, carried by gloo on the device's own bytes.
#pragma once
#include "communication.h"
#include "works.h"
#include <dlfcn.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace simulated {
using c10d::Backend;
using c10d::ReduceOp;
using Lists = std::vector<Tensors>;

inline Tensors flat(const at::Tensor& t) { return {t}; }
inline Tensors flat(const Tensors& ts) { return ts; }
inline Tensors flat(const Lists& lists) {
  Tensors all;
  for (auto& ts : lists) all.insert(all.end(), ts.begin(), ts.end());
  return all;
}

// CPU tensors over the same bytes; gloo keeps them, and so the device's memory, until it is done.
inline at::Tensor lowered(const at::Tensor& t, Aliases& aliases) { return on_device(t) ? aliases.alias(t) : t; }
template <class T>
std::vector<T> lowered(const std::vector<T>& all, Aliases& aliases) {
  std::vector<T> made;
  for (auto& each : all) made.push_back(lowered(each, aliases));
  return made;
}

// NCCL sees the memory of a buffer, whatever its shape; gloo divides the first dimension among the ranks.
inline at::Tensor buffer(const at::Tensor& t) { return t.as_strided({t.numel()}, {1}, t.storage_offset()); }
inline Tensors buffers(Tensors all) {
  for (auto& t : all) t = buffer(t);
  return all;
}

// Runs `work` without Python's lock, if this thread holds it. Found by name, as a build has no Python headers.
template <class Work>
void without_python_lock(Work work) {
  static const auto held = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  static const auto release = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyEval_SaveThread"));
  static const auto take = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "PyEval_RestoreThread"));
  if (!held || !release || !take || !held()) return work();
  auto* state = release();
  work();
  take(state);
}

struct StagedBackend final : Backend {
  intrusive_ptr<Backend> gloo;
  CommunicationLibrary library;
  bool connected;
  std::optional<std::vector<intrusive_ptr<Work>>> batch;

  StagedBackend(intrusive_ptr<Backend> carrier, std::string name)
      : Backend(carrier->getRank(), carrier->getSize()), gloo(std::move(carrier)), library(std::move(name)), connected(library.is_gloo()) {}
  // The last to drop it may be DistributedDataParallel, under Python's lock, which gloo's threads need before they end.
  ~StagedBackend() override { without_python_lock([this] { gloo.reset(); }); }

  const std::string getBackendName() const override { return library.name; }
  intrusive_ptr<Options> getBackendOptions() override { return gloo->getBackendOptions(); }
  void setSequenceNumberForGroup() override { gloo->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo->getSequenceNumberForGroup(); }
  void setTimeout(Milliseconds timeout) override { gloo->setTimeout(timeout); }
  void abort() override { gloo->abort(); }
  void shutdown() override { gloo->shutdown(); }

  // A communicator has one device per rank: NCCL says so at its first collective.
  void connect(Device device) {
    if (std::exchange(connected, true)) return;
    Tensors mine{at::full({1}, int64_t(device.index()), at::kLong)};
    Lists all(1);
    for (int i = 0; i < getSize(); i++) all[0].push_back(at::empty({1}, at::kLong));
    gloo->allgather(all, mine)->wait();
    for (int i = 0; i < getSize(); i++)
      if (i != getRank() && all[0][i].item<int64_t>() == device.index()) library.refuse_shared(device, getRank(), i);
  }

  static void divide(const Tensors& sums, int64_t by) {
    for (auto& t : sums) at::isFloatingType(t.scalar_type()) ? t.div_(by) : t.div_(by, "trunc");
  }

  // ---- how a collective runs

  intrusive_ptr<Work> kept(intrusive_ptr<Work> work) {
    if (batch) batch->push_back(work);
    return work;
  }

  void prepare(const Tensors& tensors) {
    library.check(tensors);
    if (!tensors.empty()) connect(tensors[0].device());
  }

  // `call` takes the lowered arguments, of which the first are the results.
  template <class Call, class First, class... Rest>
  intrusive_ptr<Work> run(const char* op, bool average, Call call, First& first, Rest&... rest) {
    count(std::string("c10d::") + op);
    for (auto& tensors : {flat(first), flat(rest)...}) prepare(tensors);
    Aliases aliases;
    auto staged = std::make_tuple(lowered(first, aliases), lowered(rest, aliases)...);
    auto work = std::apply(call, staged);
    std::function<void()> finish;
    if (average) finish = [sums = flat(std::get<0>(staged)), n = getSize()] { divide(sums, n); };
    return kept(make_intrusive<StagedWork>(std::move(work), flat(first), std::move(finish)));
  }

  template <class Options, class Call, class First, class... Rest>
  intrusive_ptr<Work> reduced(const char* op, const Options& options, Call call, First& first, Rest&... rest) {
    Options lowered = options;
    auto type = flat(first).empty() ? kFloat : flat(first)[0].scalar_type();
    std::string method(op);
    if (method.back() == '_') method.pop_back();
    lowered.reduceOp = library.reduction(options.reduceOp, type, method);
    return run(op, !library.is_gloo() && options.reduceOp.op_ == ReduceOp::AVG, [&](auto&... staged) { return call(lowered, staged...); }, first, rest...);
  }

  intrusive_ptr<Work> broadcast(Tensors& all, const c10d::BroadcastOptions& o) override {
    return run("broadcast_", false, [&](Tensors& ts) { return gloo->broadcast(ts, o); }, all);
  }
  intrusive_ptr<Work> allreduce(Tensors& all, const c10d::AllreduceOptions& o) override {
    return reduced("allreduce_", o, [&](auto& o, Tensors& ts) { return gloo->allreduce(ts, o); }, all);
  }
  intrusive_ptr<Work> allreduce_coalesced(Tensors& all, const c10d::AllreduceCoalescedOptions& o) override {
    library.refuse_on_cuda("allreduce_coalesced");
    return reduced("allreduce_coalesced_", o, [&](auto& o, Tensors& ts) { return gloo->allreduce_coalesced(ts, o); }, all);
  }
  intrusive_ptr<Work> reduce(Tensors& all, const c10d::ReduceOptions& o) override {
    bool scratch = !library.is_gloo() && getRank() != o.rootRank;  // gloo writes into the tensors of all ranks
    return reduced("reduce_", o, [&](auto& o, Tensors& ts) {
      if (scratch) for (auto& t : ts) t = t.clone();
      return gloo->reduce(ts, o);
    }, all);
  }
  intrusive_ptr<Work> allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    if (!library.is_gloo() && uneven(outputs)) return gathered_one_by_one(outputs, inputs, o);
    return run("allgather_", false, [&](Lists& to, Tensors& from) { return gloo->allgather(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& o) override {
    library.check_sizes("output", output, "input", input, getSize());
    return run("_allgather_base_", false, [&](at::Tensor& to, at::Tensor& from) {
      auto whole = buffer(to), part = buffer(from);
      return gloo->_allgather_base(whole, part, o);
    }, output, input);
  }
  intrusive_ptr<Work> allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    return run("allgather_coalesced_", false, [&](Lists& to, Tensors& from) { return gloo->allgather_coalesced(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    return run("allgather_into_tensor_coalesced_", false, [&](Tensors& to, Tensors& from) {
      auto wholes = buffers(to), parts = buffers(from);
      return gloo->allgather_into_tensor_coalesced(wholes, parts, o);
    }, outputs, inputs);
  }
  intrusive_ptr<Work> gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& o) override {
    return run("gather_", false, [&](Lists& to, Tensors& from) { return gloo->gather(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& o) override {
    return run("scatter_", false, [&](Tensors& to, Lists& from) { return gloo->scatter(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& o) override {
    return reduced("reduce_scatter_", o, [&](auto& o, Tensors& to, Lists& from) { return gloo->reduce_scatter(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& o) override {
    library.check_sizes("input", input, "output", output, getSize());
    return reduced("_reduce_scatter_base_", o, [&](auto& o, at::Tensor& to, at::Tensor& from) {
      auto part = buffer(to), whole = buffer(from);
      return gloo->_reduce_scatter_base(part, whole, o);
    }, output, input);
  }
  intrusive_ptr<Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& o) override {
    return reduced("reduce_scatter_tensor_coalesced_", o, [&](auto& o, Tensors& to, Tensors& from) {
      auto parts = buffers(to), wholes = buffers(from);
      return gloo->reduce_scatter_tensor_coalesced(parts, wholes, o);
    }, outputs, inputs);
  }
  intrusive_ptr<Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& to_sizes, std::vector<int64_t>& from_sizes, const c10d::AllToAllOptions& o) override {
    return run("alltoall_base_", false, [&](at::Tensor& to, at::Tensor& from) { return gloo->alltoall_base(to, from, to_sizes, from_sizes, o); }, output, input);
  }
  intrusive_ptr<Work> alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override {
    return run("alltoall_", false, [&](Tensors& to, Tensors& from) { return gloo->alltoall(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& o) override {
    Tensors none;  // NCCL guesses a device for a barrier, so it says nothing about the program's
    return run("barrier", false, [&](Tensors&) { return gloo->barrier(o); }, none);
  }

  // Point to point: between two ranks, so the first use cannot ask all for their devices. NCCL has no tags.
  intrusive_ptr<Work> send(Tensors& all, int to, int tag) override {
    return passed("send", "send", all, [&](Tensors& ts) { return gloo->send(ts, to, 0); });
  }
  intrusive_ptr<Work> recv(Tensors& all, int from, int tag) override {
    return passed("recv", "recv_", all, [&](Tensors& ts) { return gloo->recv(ts, from, 0); });
  }
  template <class Call>
  intrusive_ptr<Work> passed(const char* method, const char* op, Tensors& all, Call call) {
    library.refuse_on_cuda(method);
    count(std::string("c10d::") + op);
    library.check(all);
    Aliases aliases;
    auto staged = lowered(all, aliases);
    return kept(make_intrusive<StagedWork>(call(staged), all, nullptr));
  }

  static bool uneven(const Lists& lists) {
    for (auto& t : flat(lists))
      if (!t.sizes().equals(lists[0][0].sizes())) return true;
    return false;
  }
  intrusive_ptr<Work> gathered_one_by_one(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
    std::vector<intrusive_ptr<Work>> works;
    for (int i = 0; i < getSize(); i++) {
      Tensors one{outputs[0].at(i)};
      if (i == getRank()) one[0].copy_(inputs[0]);
      works.push_back(broadcast(one, c10d::BroadcastOptions{.rootRank = i, .timeout = o.timeout}));
    }
    return make_intrusive<Together>(std::move(works), flat(outputs));
  }

  // NCCL's group calls
  bool supportsCoalescing() const override { return !library.is_gloo(); }
  void startCoalescing() override { batch.emplace(); }
  intrusive_ptr<Work> endCoalescing() override {
    TORCH_CHECK(batch, "endCoalescing without startCoalescing");
    auto works = std::move(*batch);
    batch.reset();
    return make_intrusive<Together>(std::move(works));
  }
};
}  // namespace simulated
