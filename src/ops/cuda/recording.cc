// CUDA's graphs, by LibTorch.
#include "ops/recording.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/cuda/chaining.h"
#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

void let_wait(const c10::cuda::CUDAStream& stream, const c10::cuda::CUDAStream& for_this) {
  c10::Event reached(c10::DeviceType::CUDA);
  reached.record(for_this.unwrap());
  reached.block(stream.unwrap());
}

// Until chains have been measured in the program, who wants them says so.
bool chains_are_wanted() {
  const char* said = std::getenv("HONE_CHAINS");
  return said && std::string_view(said) == "1";
}

// Memory that graphs use in turns. LibTorch gives it up with the last graph that has it, and refuses it to a later one,
// which begins a new one.
class Pool {
 public:
  at::cuda::MempoolId_t id() {
    if (graphs_ == 0) id_ = at::cuda::graph_pool_handle();
    return id_;
  }
  void add_graph() { ++graphs_; }
  void remove_graph() { --graphs_; }

 private:
  int graphs_ = 0;
  at::cuda::MempoolId_t id_{};
};

class Graph final : public Recording {
 public:
  explicit Graph(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}

  ~Graph() override { forget(); }
  Graph(const Graph&) = delete;

  std::unique_ptr<Recording> beside() const override { return std::make_unique<Graph>(pool_); }

  // What was computed op by op before has left memory behind that a graph cannot take: others may have it.
  void record(const std::function<void()>& work) override {
    forget();
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto graph = std::make_unique<at::cuda::CUDAGraph>(/*keep_graph=*/true);
    const c10::cuda::CUDAStream now = c10::cuda::getCurrentCUDAStream();
    // Of one device always the same one: what libraries keep for each stream is not made again.
    static const c10::cuda::CUDAStream aside = c10::cuda::getStreamFromPool();
    let_wait(aside, now);
    std::vector<at::Tensor> chained;
    {
      const c10::cuda::CUDAStreamGuard guard(aside);
      remember(*graph, work);
      if (chains_are_wanted()) chained = chain_launches(graph->raw_cuda_graph());
      graph->instantiate();
    }
    let_wait(now, aside);
    graph_ = std::move(graph);
    chained_ = std::move(chained);
    pool_->add_graph();
  }

  void replay() override { graph_->replay(); }

 private:
  // Other threads, which save or load, may go on meanwhile.
  void remember(at::cuda::CUDAGraph& graph, const std::function<void()>& work) {
    graph.capture_begin(pool_->id(), cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph.capture_end();
      } catch (const c10::Error&) {  // the first fault is the one to tell
      }
      throw;
    }
    graph.capture_end();
  }
  void forget() {
    if (!graph_) return;
    graph_.reset();
    chained_.clear();
    pool_->remove_graph();
  }

  std::shared_ptr<Pool> pool_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  std::vector<at::Tensor> chained_;  // what its chains read and write
};

}  // namespace

std::unique_ptr<Recording> make_recording() { return std::make_unique<Graph>(std::make_shared<Pool>()); }

}  // namespace hone::ops::cuda_table
