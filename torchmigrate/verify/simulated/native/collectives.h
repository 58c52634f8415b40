// Process groups: nccl, xccl and hccl under their own names and rules, carried by gloo on the device's own bytes.
#pragma once
#include "kernels.h"
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <thread>

namespace simulated {
using c10d::Backend;
using c10d::ReduceOp;
using c10d::Work;
using Future = c10::ivalue::Future;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using Milliseconds = std::chrono::milliseconds;

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

// One collective on its way: gloo's work, whose results are the device's tensors.
struct StagedWork final : Work {
  intrusive_ptr<Work> gloo;
  Tensors outputs;
  intrusive_ptr<Future> done;
  std::shared_ptr<std::atomic<bool>> polled;  // of a send or receive, for which gloo has no future

  StagedWork(intrusive_ptr<Work> gloo, Tensors outputs, std::function<void()> finish)
      : Work(-1, gloo->retrieveOpType()), gloo(std::move(gloo)), outputs(std::move(outputs)) {
    std::vector<Device> devices;
    if (!this->outputs.empty() && on_device(this->outputs[0])) devices.push_back(this->outputs[0].device());
    done = make_intrusive<Future>(ListType::create(TensorType::get()), std::move(devices));
    this->gloo->getFuture()->addCallback([done = done, outputs = this->outputs, finish](Future& f) {
      if (f.hasError()) return done->setError(f.exception_ptr());
      if (finish) finish();
      done->markCompleted(IValue(outputs));
    });
  }
  StagedWork(intrusive_ptr<Work> sent, Tensors outputs) : Work(-1, sent->retrieveOpType()), gloo(std::move(sent)), outputs(std::move(outputs)) {}

  bool wait(Milliseconds timeout = kNoTimeout) override {
    bool answer = gloo->wait(timeout);
    if (done) done->wait();
    return answer;
  }
  void synchronize() override { wait(); }
  void blockCurrentStream() override { wait(); }
  bool isCompleted() override { return done ? done->completed() : poll(); }
  bool isSuccess() const override { return done ? done->completed() && !done->hasError() : gloo->isSuccess(); }
  std::exception_ptr exception() const override { return gloo->exception(); }
  std::vector<at::Tensor> result() override { return outputs; }
  int sourceRank() const override { return gloo->sourceRank(); }
  void abort() override { gloo->abort(); }
  uint64_t getSequencenumber() const override { return gloo->getSequencenumber(); }
  intrusive_ptr<Future> getFuture() override { return done ? done : Work::getFuture(); }

  // gloo completes a send or receive in wait() only, so a program that polls would poll for ever.
  bool poll() {
    if (!polled) {
      polled = std::make_shared<std::atomic<bool>>(false);
      std::thread([gloo = gloo, polled = polled] {
        try { gloo->wait(); } catch (...) {}  // the program's own wait() throws it
        *polled = true;
      }).detach();
    }
    return *polled;
  }
};

// Several as one, as NCCL's group calls are.
struct Together final : Work {
  std::vector<intrusive_ptr<Work>> all;
  Tensors outputs;
  Together(std::vector<intrusive_ptr<Work>> works, Tensors outputs = {}) : Work(-1, c10d::OpType::COALESCED), all(std::move(works)), outputs(std::move(outputs)) {}
  bool wait(Milliseconds timeout = kNoTimeout) override {
    for (auto& work : all) work->wait(timeout);
    return true;
  }
  void synchronize() override { wait(); }
  bool isCompleted() override {
    return std::all_of(all.begin(), all.end(), [](auto& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(all.begin(), all.end(), [](auto& work) { return work->isSuccess(); });
  }
  std::vector<at::Tensor> result() override { return outputs; }
};

struct StagedBackend final : Backend {
  intrusive_ptr<Backend> gloo;
  std::string name, shown;  // "nccl", "NCCL"
  bool connected = false;
  std::optional<std::vector<intrusive_ptr<Work>>> batch;

  StagedBackend(intrusive_ptr<Backend> carrier, std::string given) : Backend(carrier->getRank(), carrier->getSize()), gloo(std::move(carrier)), name(given), shown(given) {
    for (auto& c : shown) c = char(std::toupper(c));
    connected = name == "gloo";
  }
  bool is_gloo() const { return name == "gloo"; }  // gloo itself, on CUDA tensors: nothing is NCCL's about it

  const std::string getBackendName() const override { return name; }
  intrusive_ptr<Options> getBackendOptions() override { return gloo->getBackendOptions(); }
  void setSequenceNumberForGroup() override { gloo->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo->getSequenceNumberForGroup(); }
  void setTimeout(Milliseconds timeout) override { gloo->setTimeout(timeout); }
  void abort() override { gloo->abort(); }
  void shutdown() override { gloo->shutdown(); }

  // ---- what the real ones refuse

  void check(const Tensors& all) {
    if (is_gloo() || all.empty()) return;
    for (auto& t : all) {
      TORCH_CHECK_VALUE(on_device(t) && !t.is_sparse(), "Tensors must be ", DeviceTypeName(device_type), " and dense");
      TORCH_CHECK_VALUE(t.device() == all[0].device(), "Expected list of tensors on the same device");
      TORCH_CHECK_VALUE(t.is_contiguous(t.suggest_memory_format()), "Tensors must be contiguous");
      check_type(t.scalar_type());
    }
    connect(all[0].device());
  }

  void check_type(ScalarType type) {
    for (auto known : {kByte, kChar, kInt, kLong, kHalf, kFloat, kDouble, kBool, kBFloat16})
      if (type == known) return;
    bool refused = name != "hccl" && (type == kShort || type == kUInt16 || type == kUInt32 || type == kUInt64);
    TORCH_CHECK_TYPE(!refused, "Input tensor data type is not supported for ", shown, " process group: ", toString(type));
    TORCH_CHECK_NOT_IMPLEMENTED(false, "simulated ", name, " carries no ", toString(type), " tensors, since gloo, which it uses, has none");
  }

  // A communicator has one device per rank: NCCL says so at its first collective.
  void connect(Device device) {
    if (connected) return;
    connected = true;
    Tensors mine{at::full({1}, int64_t(device.index()), at::kLong)};
    Lists all(1);
    for (int i = 0; i < getSize(); i++) all[0].push_back(at::empty({1}, at::kLong));
    gloo->allgather(all, mine)->wait();
    for (int i = 0; i < getSize(); i++)
      TORCH_CHECK_WITH(DistBackendError, i == getRank() || all[0][i].item<int64_t>() != device.index(), shown, " error: invalid usage (simulated). Duplicate ",
        device_type == DeviceType::PrivateUse1 ? "NPU" : "GPU", " detected : rank ", getRank(), " and rank ", i, " both on ", device,
        ": each process has to use its own device, e.g. after set_device(local_rank)");
  }

  // The reduction that gloo is to do.
  ReduceOp reduction(const ReduceOp& op, ScalarType type, const char* function) {
    if (is_gloo()) return op;
    static const std::vector<const char*> names = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
    TORCH_CHECK_NOT_IMPLEMENTED(op.op_ != ReduceOp::PREMUL_SUM, "simulated ", name, " has no ReduceOp.PREMUL_SUM");
    TORCH_CHECK_VALUE(op.op_ < ReduceOp::BAND && !(name == "hccl" && op.op_ == ReduceOp::AVG), "Cannot use ReduceOp.", names[op.op_], " with ", shown);
    TORCH_CHECK_TYPE(op.op_ != ReduceOp::AVG || type != kBool, "Cannot use ReduceOp.AVG with boolean inputs");
    TORCH_CHECK(name != "hccl" || type != kDouble, "HCCL ", function, ": Unsupported data type float64");
    if (type == kBool && op.op_ == ReduceOp::SUM) return ReduceOp::MAX;  // a byte each: a sum would overflow
    return op.op_ == ReduceOp::AVG ? ReduceOp(ReduceOp::SUM) : op;
  }

  static void divide(const Tensors& sums, int64_t by) {
    for (auto& t : sums) at::isFloatingType(t.scalar_type()) ? t.div_(by) : t.div_(by, "trunc");
  }

  // ---- how a collective runs

  intrusive_ptr<Work> kept(intrusive_ptr<Work> work) {
    if (batch) batch->push_back(work);
    return work;
  }

  // `call` takes the lowered arguments, of which the first are the results.
  template <class Call, class First, class... Rest>
  intrusive_ptr<Work> run(const char* op, bool average, Call call, First& first, Rest&... rest) {
    count(std::string("c10d::") + op);
    (check(flat(first)), ..., check(flat(rest)));
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
    lowered.reduceOp = reduction(options.reduceOp, type, op);
    return run(op, !is_gloo() && options.reduceOp.op_ == ReduceOp::AVG, [&](auto&... staged) { return call(lowered, staged...); }, first, rest...);
  }

  intrusive_ptr<Work> broadcast(Tensors& all, const c10d::BroadcastOptions& o) override {
    return run("broadcast_", false, [&](Tensors& ts) { return gloo->broadcast(ts, o); }, all);
  }
  intrusive_ptr<Work> allreduce(Tensors& all, const c10d::AllreduceOptions& o) override {
    return reduced("allreduce_", o, [&](auto& o, Tensors& ts) { return gloo->allreduce(ts, o); }, all);
  }
  intrusive_ptr<Work> allreduce_coalesced(Tensors& all, const c10d::AllreduceCoalescedOptions& o) override {
    refuse_on_cuda("allreduce_coalesced");
    return reduced("allreduce_coalesced_", o, [&](auto& o, Tensors& ts) { return gloo->allreduce_coalesced(ts, o); }, all);
  }
  intrusive_ptr<Work> reduce(Tensors& all, const c10d::ReduceOptions& o) override {
    bool scratch = !is_gloo() && getRank() != o.rootRank;  // gloo writes into the tensors of all ranks
    return reduced("reduce_", o, [&](auto& o, Tensors& ts) {
      if (scratch) for (auto& t : ts) t = t.clone();
      return gloo->reduce(ts, o);
    }, all);
  }
  intrusive_ptr<Work> allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    if (!is_gloo() && uneven(outputs)) return gathered_one_by_one(outputs, inputs, o);
    return run("allgather_", false, [&](Lists& to, Tensors& from) { return gloo->allgather(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& o) override {
    return run("_allgather_base_", false, [&](at::Tensor& to, at::Tensor& from) { return gloo->_allgather_base(to, from, o); }, output, input);
  }
  intrusive_ptr<Work> allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    return run("allgather_coalesced_", false, [&](Lists& to, Tensors& from) { return gloo->allgather_coalesced(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override {
    return run("allgather_into_tensor_coalesced_", false, [&](Tensors& to, Tensors& from) { return gloo->allgather_into_tensor_coalesced(to, from, o); }, outputs, inputs);
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
    return reduced("_reduce_scatter_base_", o, [&](auto& o, at::Tensor& to, at::Tensor& from) { return gloo->_reduce_scatter_base(to, from, o); }, output, input);
  }
  intrusive_ptr<Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& o) override {
    return reduced("reduce_scatter_tensor_coalesced_", o, [&](auto& o, Tensors& to, Tensors& from) { return gloo->reduce_scatter_tensor_coalesced(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& to_sizes, std::vector<int64_t>& from_sizes, const c10d::AllToAllOptions& o) override {
    return run("alltoall_base_", false, [&](at::Tensor& to, at::Tensor& from) { return gloo->alltoall_base(to, from, to_sizes, from_sizes, o); }, output, input);
  }
  intrusive_ptr<Work> alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override {
    return run("alltoall_", false, [&](Tensors& to, Tensors& from) { return gloo->alltoall(to, from, o); }, outputs, inputs);
  }
  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& o) override {
    if (!is_gloo()) connect(o.device.value_or(Device(device_type, o.device_ids.empty() ? current : DeviceIndex(o.device_ids[0]))));
    Tensors none;
    return run("barrier", false, [&](Tensors&) { return gloo->barrier(o); }, none);
  }

  // Point to point: between two ranks, so the first use cannot ask all for their devices. NCCL has no tags.
  intrusive_ptr<Work> send(Tensors& all, int to, int tag) override {
    return passed("send", all, [&](Tensors& ts) { return gloo->send(ts, to, 0); });
  }
  intrusive_ptr<Work> recv(Tensors& all, int from, int tag) override {
    return passed("recv_", all, [&](Tensors& ts) { return gloo->recv(ts, from, 0); });
  }
  template <class Call>
  intrusive_ptr<Work> passed(const char* op, Tensors& all, Call call) {
    refuse_on_cuda(op);
    count(std::string("c10d::") + op);
    bool later = std::exchange(connected, true);
    check(all);
    connected = later;
    Aliases aliases;
    auto staged = lowered(all, aliases);
    return kept(make_intrusive<StagedWork>(call(staged), all));
  }

  void refuse_on_cuda(const char* op) {
    TORCH_CHECK(!is_gloo(), "ProcessGroupGloo::", op, ": unsupported device type ", DeviceTypeName(device_type, true));
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
  bool supportsCoalescing() const override { return !is_gloo(); }
  void startCoalescing() override { batch.emplace(); }
  intrusive_ptr<Work> endCoalescing() override {
    TORCH_CHECK(batch, "endCoalescing without startCoalescing");
    auto works = std::move(*batch);
    batch.reset();
    return make_intrusive<Together>(std::move(works));
  }
};

// Puts `name` in front of the group's gloo, for the simulated device's tensors.
inline void stage(const intrusive_ptr<c10d::ProcessGroup>& group, std::string name) {
  auto staged = make_intrusive<StagedBackend>(group->getBackend(device_type), std::move(name));
  group->setBackend(device_type, c10d::ProcessGroup::CUSTOM, intrusive_ptr<Backend>(staged));
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
  if (device_type == DeviceType::MPS) refuse_operator(name);
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
