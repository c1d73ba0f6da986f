// CUDA's graphs, by LibTorch.
#include "ops/recording.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

void let_wait(const c10::cuda::CUDAStream& stream, const c10::cuda::CUDAStream& for_this) {
  c10::Event reached(c10::DeviceType::CUDA);
  reached.record(for_this.unwrap());
  reached.block(stream.unwrap());
}

class Graph final : public Recording {
 public:
  explicit Graph(at::cuda::MempoolId_t pool) : pool_(pool) {}

  std::unique_ptr<Recording> beside() const override { return std::make_unique<Graph>(pool_); }

  // What was computed op by op before has left memory behind that a graph cannot take: others may have it.
  void record(const std::function<void()>& work) override {
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    const c10::cuda::CUDAStream now = c10::cuda::getCurrentCUDAStream();
    // Of one device always the same one: what libraries keep for each stream is not made again.
    static const c10::cuda::CUDAStream aside = c10::cuda::getStreamFromPool();
    let_wait(aside, now);
    try {
      const c10::cuda::CUDAStreamGuard guard(aside);
      remember(work);
    } catch (...) {
      graph_.reset();
      throw;
    }
    let_wait(now, aside);
  }

  void replay() override { graph_->replay(); }

 private:
  // Other threads, which save or load, may go on meanwhile.
  void remember(const std::function<void()>& work) {
    graph_->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_->capture_end();
      } catch (const c10::Error&) {  // the first fault is the one to tell
      }
      throw;
    }
    graph_->capture_end();
  }

  at::cuda::MempoolId_t pool_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<Recording> make_recording() { return std::make_unique<Graph>(at::cuda::graph_pool_handle()); }

}  // namespace hone::ops::cuda_table
