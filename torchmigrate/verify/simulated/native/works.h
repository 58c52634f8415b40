// What a collective gives back: gloo's work, whose results are the device's tensors.
#pragma once
#include "kernels.h"
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <thread>

namespace simulated {
using c10d::Work;
using Future = c10::ivalue::Future;
using Tensors = std::vector<at::Tensor>;
using Milliseconds = std::chrono::milliseconds;

// One collective on its way.
struct StagedWork final : Work {
  // What is left to do once gloo is done, which some thread does once.
  struct Rest {
    intrusive_ptr<Work> gloo;
    Tensors outputs;
    std::function<void()> finish;
    intrusive_ptr<Future> done;
    std::once_flag once;

    void complete(std::exception_ptr wrong = nullptr) {
      if (wrong) return done->setError(wrong);
      if (finish) finish();
      done->markCompleted(IValue(outputs));
    }
    void settle(Milliseconds timeout) {
      std::call_once(once, [&] {
        std::exception_ptr wrong;
        try {
          gloo->wait(timeout);
        } catch (...) {
          wrong = std::current_exception();
        }
        complete(wrong);
      });
    }
  };
  std::shared_ptr<Rest> rest = std::make_shared<Rest>();
  bool told;               // whether gloo tells when it is done; for some of its works somebody has to wait
  bool elsewhere = false;  // a thread of ours does

  StagedWork(intrusive_ptr<Work> gloo, Tensors outputs, std::function<void()> finish) : Work(-1, gloo->retrieveOpType()) {
    std::vector<Device> devices;
    if (!outputs.empty() && on_device(outputs[0])) devices.push_back(outputs[0].device());
    rest->done = make_intrusive<Future>(ListType::create(TensorType::get()), std::move(devices));
    rest->gloo = std::move(gloo);
    rest->outputs = std::move(outputs);
    rest->finish = std::move(finish);
    told = watch();
  }

  bool watch() {
    intrusive_ptr<Future> told;
    try {
      told = rest->gloo->getFuture();
    } catch (const c10::Error&) {  // "not implemented"
      return false;
    }
    told->addCallback([rest = rest](Future& f) { rest->complete(f.exception_ptr()); });
    return true;
  }

  // For a program that polls, or hangs work on the future.
  void wait_elsewhere() {
    if (!told && !std::exchange(elsewhere, true)) std::thread([rest = rest] { rest->settle(kNoTimeout); }).detach();
  }

  bool wait(Milliseconds timeout = kNoTimeout) override {
    told ? (void)rest->gloo->wait(timeout) : rest->settle(timeout);
    rest->done->waitAndThrow();
    return true;
  }
  void synchronize() override { wait(); }
  void blockCurrentStream() override { wait(); }
  bool isCompleted() override {
    wait_elsewhere();
    return rest->done->completed();
  }
  bool isSuccess() const override { return rest->done->completed() && !rest->done->hasError(); }
  std::exception_ptr exception() const override { return rest->done->exception_ptr(); }
  std::vector<at::Tensor> result() override { return rest->outputs; }
  int sourceRank() const override { return rest->gloo->sourceRank(); }
  void abort() override { rest->gloo->abort(); }
  uint64_t getSequencenumber() const override { return rest->gloo->getSequencenumber(); }
  intrusive_ptr<Future> getFuture() override {
    wait_elsewhere();
    return rest->done;
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
}  // namespace simulated
