// The one layer loop, and what a forward pass carries.
#include "hone/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "nn/head.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/checkpoint.h"

namespace hone {

Pass::Pass(const Batch& batch) : batch(batch) {}
Pass::~Pass() = default;

nn::Plan& Pass::plan() {
  if (!plan_) plan_ = std::make_unique<nn::Plan>(batch, cache);
  return *plan_;
}

Output Model::forward(const Batch& batch, Pass& pass) const {
  HONE_ASSERT(!pass.cache || !at::GradMode::is_enabled());
  nn::Plan& plan = pass.plan();
  Tensor x = plan.to_flat(embed(batch, pass));
  const auto layers = blocks();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto run = [block = layers[i], i, &pass](const Tensor& input) {
      pass.layer = static_cast<std::int64_t>(i);
      return block->forward(input, pass);
    };
    x = pass.checkpoint_blocks ? ops::checkpoint(run, x) : run(x);
  }
  Output output;
  output.hidden_BTD = plan.from_flat(finish(x, pass));
  if (pass.cache) pass.cache->advance(plan);
  return output;
}

Tensor CausalLm::logits(const Batch& batch) const {
  const at::NoGradGuard no_graph;
  Pass pass(batch);
  return head().logits(forward(batch, pass).hidden_BTD).to(at::kFloat);
}

}  // namespace hone
